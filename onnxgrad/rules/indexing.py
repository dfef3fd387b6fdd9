"""Gather and Scatter. Adding where indices repeat is always ScatterElements: ScatterND(add) is a data race on onnxruntime."""

from __future__ import annotations

from onnxgrad.autodiff.registry import gradient
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.ir.simplify import known_ints
from onnxgrad.rules.common import scatter_add_flat, zeros_like, zeros_of_shape


@gradient("Gather")
def gather(op, node, gy):
    """gx = gy added up at the rows that were gathered"""
    x, indices = node.inputs
    axis, rank = node.attr("axis"), x.rank
    single = known_ints(indices)
    if rank is not None and indices.rank == 0 and single is not None and isinstance(x.dims[axis], int):
        return _put_back_one(op, x, single[0] % x.dims[axis], axis % rank, gy)
    axis = axis % rank if rank is not None else axis
    if axis < 0:
        raise UnsupportedGradient(
            f"{node}: the rank of its data is unknown and the axis negative. Declare the shape in value_info."
        )
    flat = op.Reshape(indices, [-1])
    if axis == 0:
        rows = op.Concat(op.Shape(flat), op.Shape(x, start=1), axis=0)
        return _add_rows(op, x, flat, op.Reshape(gy, rows, allowzero=1), 0)
    before, after = op.Shape(x, start=0, end=axis), op.Shape(x, start=axis + 1)
    apart = op.Reshape(gy, op.Concat(before, op.Shape(flat), after, axis=0), allowzero=1)
    return _add_rows(op, x, flat, apart, axis)


def _put_back_one(op, x, index, axis, gy):
    """A single slice goes back between zeros"""
    pads = [0] * (2 * x.rank)
    pads[axis], pads[x.rank + axis] = index, x.dims[axis] - 1 - index
    return op.Pad(op.Unsqueeze(gy, [axis]), pads)


def _add_rows(op, x, flat, g, axis):
    """Slices of ``g`` along ``axis`` added up at the places ``flat`` of a tensor like x"""
    wide = op.Cast(g, to=1) if g.dtype.name in ("float16", "bfloat16") else g
    index = flat if axis == 0 and x.rank == 1 else op.Unsqueeze(flat, _all_but(op, axis, x))
    index = op.Expand(index, op.Shape(g))
    summed = op.ScatterElements(zeros_of_shape(op, op.Shape(x), wide), index, wide, axis=axis, reduction="add")
    return op.Cast(summed, to=g.dtype.number)


def _all_but(op, axis, x):
    """Every axis of x but one"""
    if x.rank is not None:
        return [i for i in range(x.rank) if i != axis]
    rank = op.Squeeze(op.Shape(op.Shape(x)))
    return op.Concat(list(range(axis)), op.Range(axis + 1, rank, 1), axis=0)


@gradient("GatherElements")
def gather_elements(op, node, gy):
    """gx = gy added up at the elements that were gathered"""
    x, indices = node.inputs
    wide = op.Cast(gy, to=1) if gy.dtype.name in ("float16", "bfloat16") else gy
    zeros = zeros_of_shape(op, op.Shape(x), wide)
    return op.ScatterElements(zeros, indices, wide, axis=node.attr("axis"), reduction="add")


@gradient("GatherND")
def gather_nd(op, node, gy):
    """gx = gy added up at the places that were gathered"""
    x, indices = node.inputs
    positions = op.GatherND(
        op.Reshape(op.Range(0, op.Size(x), 1), op.Shape(x), allowzero=1), indices, batch_dims=node.attr("batch_dims")
    )
    return scatter_add_flat(op, positions, gy, x)


@gradient("ScatterElements")
def scatter_elements(op, node, gz):
    """gx = gz outside the written elements (everywhere for add);  gupdates = gz at them"""
    _, indices, updates = node.inputs
    axis, reduction = node.attr("axis"), node.attr("reduction")
    _require_plain_reduction(node, reduction)
    gupdates = op.GatherElements(gz, indices, axis=axis)
    if reduction == "add":
        return gz, None, gupdates
    return op.ScatterElements(gz, indices, zeros_like(op, updates), axis=axis), None, gupdates


@gradient("ScatterND")
def scatter_nd(op, node, gz):
    """gx = gz outside the written slices (everywhere for add);  gupdates = gz at them"""
    _, indices, updates = node.inputs
    reduction = node.attr("reduction")
    _require_plain_reduction(node, reduction)
    gupdates = op.GatherND(gz, indices)
    if reduction == "add":
        return gz, None, gupdates
    return op.ScatterND(gz, indices, zeros_like(op, updates)), None, gupdates


def _require_plain_reduction(node, reduction):
    if reduction not in ("none", "add"):
        raise UnsupportedGradient(
            f"{node}: no gradient is written for reduction={reduction!r}. Use 'none' or 'add', or set stop_gradient on its inputs."
        )

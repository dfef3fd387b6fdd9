"""Gather and Scatter. Adding where indices repeat is always ScatterElements: ScatterND(add) is a data race on onnxruntime.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.types import same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import (
    add_rows,
    cast_like,
    flat_positions,
    float32_of,
    masked,
    scatter_add_flat,
    size_along,
    zeros_like,
    zeros_of_shape,
)
from onnxgrad.core.rules.registry import gradient


@gradient("Gather", moves=True)
def gather(op, node, gy):
    """gx = gy added up at the rows that were gathered"""
    x, indices = node.inputs
    axis, rank = node.attr("axis"), x.rank
    single = known_ints(indices)
    if rank is not None and single is not None and indices.static_shape in ((), (1,)):
        return _put_back_one(op, x, single[0], axis % rank, gy if indices.rank else op.Unsqueeze(gy, [axis % rank]))
    axis = axis % rank if rank is not None else axis
    if axis < 0:
        return scatter_add_flat(op, op.Gather(flat_positions(op, x), indices, axis=axis), gy, x)
    flat = op.Reshape(indices, [-1])
    if axis == 0:
        rows = op.Concat(op.Shape(flat), op.Shape(x, start=1), axis=0)
        return add_rows(op, x, flat, op.Reshape(gy, rows, allowzero=1), 0)
    before, after = op.Shape(x, start=0, end=axis), op.Shape(x, start=axis + 1)
    apart = op.Reshape(gy, op.Concat(before, op.Shape(flat), after, axis=0), allowzero=1)
    return add_rows(op, x, flat, apart, axis)


def _put_back_one(op: Builder, x: Any, index: int, axis: int, gy: Variable) -> Any:
    """A single slice goes back between zeros"""
    size, others = x.dims[axis], [0] * (x.rank - 1)
    if isinstance(size, int):
        index %= size
        return op.Pad(gy, [*others[:axis], index, *others, size - 1 - index, *others[axis:]])
    rest = op.Sub(op.Shape(x, start=axis, end=axis + 1), [index + 1 if index >= 0 else -index])
    before, behind = ([index], rest) if index >= 0 else (rest, [-index - 1])
    pads = [part for part in (others[:axis], before, others, behind, others[axis:]) if not isinstance(part, list) or part]
    return op.Pad(gy, op.Concat(*pads, axis=0))


@gradient("GatherElements", moves=True)
def gather_elements(op, node, gy):
    """gx = gy added up at the elements that were gathered"""
    x, indices = node.inputs
    wide = float32_of(op, gy)
    zeros = zeros_of_shape(op, op.Shape(x), wide)
    return op.ScatterElements(zeros, indices, wide, axis=node.attr("axis"), reduction="add")


@gradient("GatherND", moves=True)
def gather_nd(op, node, gy):
    """gx = gy added up at the elements that were gathered"""
    x, indices = node.inputs
    positions = op.GatherND(flat_positions(op, x), indices, batch_dims=node.attr("batch_dims"))
    return scatter_add_flat(op, positions, gy, x)


@gradient("ScatterElements")
def scatter_elements(op, node, gz):
    """gx = gz outside the written elements, gupdates = gz at them (of several at one index, for the one that remains);  add: gz for
    both;  mul: gz times the other factors;  min, max: gz where the value is the extreme, ties share it equally"""
    x, indices, updates = node.inputs
    axis, reduction = node.attr("axis"), node.attr("reduction")
    if reduction in ("none", "add"):
        gupdates = op.GatherElements(gz, indices, axis=axis) if node.wants(2) else None
        if reduction == "add":
            return gz, None, gupdates
        if gupdates is not None and not _are_different(indices, axis, x):
            gupdates = masked(op, gupdates, _remains(op, x, indices, axis))
        return op.ScatterElements(gz, indices, zeros_like(op, updates), axis=axis), None, gupdates
    rule = _scattered_product if reduction == "mul" else _scattered_extreme
    gx, gupdates = rule(op, x, indices, updates, node.outputs[0], gz, axis)
    return gx, None, gupdates


def _are_different(indices: Variable, axis: int, x: Variable) -> bool:
    """Return whether the indices are known, and none is written twice"""
    size = None if x.dims is None else x.dims[axis]
    if indices.value is None or indices.persistable or not isinstance(size, int):
        return False
    ordered = np.sort(indices.value.numpy() % max(size, 1), axis=axis)
    return bool(np.diff(ordered, axis=axis).all())


def _remains(op: Builder, x: Variable, indices: Variable, axis: int) -> Variable:
    """Whether an update is the one that stands at its index in the end: the same operator is asked which"""
    numbers = flat_positions(op, indices)
    written = op.ScatterElements(op.Expand(0, op.Shape(x)), indices, numbers, axis=axis)
    return op.Equal(op.GatherElements(written, indices, axis=axis), numbers)


@gradient("ScatterND")
def scatter_nd(op, node, gz):
    """gx = gz outside the written slices, gupdates = gz at them;  reductions as in ScatterElements"""
    x, indices, updates = node.inputs
    reduction = node.attr("reduction")
    if reduction in ("none", "add"):
        gupdates = op.GatherND(gz, indices)
        return gz if reduction == "add" else op.ScatterND(gz, indices, zeros_like(op, updates)), None, gupdates
    positions = op.Reshape(op.GatherND(flat_positions(op, x), indices), [-1])
    flat = [op.Reshape(v, [-1]) for v in (updates, node.outputs[0], gz)]
    rule = _scattered_product if reduction == "mul" else _scattered_extreme
    gx, gupdates = rule(op, op.Reshape(x, [-1]), positions, flat[0], flat[1], flat[2], 0)
    return op.Reshape(gx, op.Shape(x), allowzero=1), None, op.Reshape(gupdates, op.Shape(updates), allowzero=1)


def _scattered_extreme(
    op: Builder, x: Variable, indices: Variable, updates: Variable, z: Variable, gz: Variable, axis: int
) -> tuple[Variable, Variable]:
    """Every value that is the extreme at its index gets an equal share"""
    x, updates, z, wide = (float32_of(op, v) for v in (x, updates, z, gz))
    in_x = cast_like(op, op.Equal(x, z), wide)
    in_updates = cast_like(op, op.Equal(updates, op.GatherElements(z, indices, axis=axis)), wide)
    share = op.Div(wide, op.ScatterElements(in_x, indices, in_updates, axis=axis, reduction="add"))
    return op.Mul(share, in_x), op.Mul(op.GatherElements(share, indices, axis=axis), in_updates)


def _scattered_product(
    op: Builder, x: Variable, indices: Variable, updates: Variable, z: Variable, gz: Variable, axis: int
) -> tuple[Variable, Variable]:
    """gz times the product of the other factors at the same index, also where factors are zero"""
    x, updates, wide = (float32_of(op, v) for v in (x, updates, gz))

    def scatter(reduction, base, values):
        return op.ScatterElements(base, indices, values, axis=axis, reduction=reduction)

    nonzero, zeros, counts = zip(*(_zeros_apart(op, v) for v in (x, updates)), strict=True)
    totals = scatter("mul", *nonzero), scatter("add", *zeros), scatter("add", *counts)
    at_updates = [op.GatherElements(v, indices, axis=axis) for v in (wide, *totals)]
    gx = op.Mul(wide, _other_factors(op, nonzero[0], zeros[0], counts[0], *totals))
    return gx, op.Mul(at_updates[0], _other_factors(op, nonzero[1], zeros[1], counts[1], *at_updates[1:]))


def _zeros_apart(op: Builder, v: Variable) -> tuple[Variable, Variable, Variable]:
    """``v`` with ones for its zeros, its zeros alone (a value 0 whose derivative is 1), and where they are"""
    is_zero = op.Equal(v, 0.0)
    return op.Where(is_zero, 1.0, v), op.Where(is_zero, v, 0.0), cast_like(op, is_zero, v)


def _other_factors(
    op: Builder, own_factor: Variable, own_zero: Variable, own_count: Variable, product: Variable, zeros: Variable, count: Variable
) -> Variable:
    """Product of all factors at an index but one. A single zero among them stays a variable: it has a derivative"""
    others = op.Sub(count, own_count)
    single = op.Where(op.Equal(others, 1.0), op.Sub(zeros, own_zero), 0.0)
    return op.Mul(op.Div(product, own_factor), op.Where(op.Equal(others, 0.0), 1.0, single))


@gradient("TensorScatter")
def tensor_scatter(op, node, gz):
    """gpast = gz outside the written part of the cache;  gupdate = gz at it"""
    past, update = node.inputs[:2]
    start, axis = node.operand("write_indices"), node.attr("axis")
    gpast = gupdate = None
    if node.wants(0):
        gpast = op.TensorScatter(gz, zeros_like(op, update), start, axis=axis, mode=node.attr("mode"))
    if node.wants(1):
        indices = _written_indices(op, node, past, update, start, axis)
        gupdate = op.GatherElements(gz, op.Expand(indices, op.Shape(update)), axis=axis)
    return gpast, gupdate


def _written_indices(op: Builder, node: Any, past: Variable, update: Variable, start: Variable | None, axis: int) -> Variable:
    """Indices along ``axis`` that TensorScatter writes, shaped to broadcast against the update"""
    length = op.Squeeze(size_along(op, update, axis), [0])
    indices = op.Range(0, length, 1)
    if start is not None:
        indices = op.Add(op.Unsqueeze(start, [1]), indices)
        if node.attr("mode") == "circular":
            indices = op.Mod(indices, size_along(op, past, axis))
    else:
        indices = op.Unsqueeze(indices, [0])
    if update.rank is not None:
        return op.Unsqueeze(indices, [i for i in range(1, update.rank) if i != axis % update.rank])
    ones = op.Expand(1, op.Shape(op.Shape(update)))
    return op.Reshape(indices, op.ScatterElements(ones, op.constant([0, axis]), op.Shape(indices), axis=0), allowzero=1)


@gradient("Compress", moves=True)
def compress(op, node, gy):
    """gx = gy at the slices that were kept, else 0"""
    x, condition = node.inputs
    if node.attr("axis") == 0 and gy.dtype.name == x.dtype.name:
        # No row is kept twice, so nothing is added up. A condition may be longer than there are rows.
        fits = x.dims is not None and condition.dims is not None and same_dim(x.dims[0], condition.dims[0])
        within = condition if fits else op.Slice(condition, [0], op.Shape(x, start=0, end=1), [0])
        rows = op.Transpose(op.NonZero(within), perm=[1, 0])
        return op.ScatterND(zeros_of_shape(op, op.Shape(x), gy), rows, gy)
    return scatter_add_flat(op, op.Compress(flat_positions(op, x), condition, axis=node.attr("axis")), gy, x)


@gradient("Unique")
def unique(op, node, gy, *_):
    """gx = gy at the first occurrence of each distinct value, else 0 (the set itself changes only where values meet)"""
    (x,) = node.inputs
    indices = node.outputs[1] if len(node.outputs) > 1 else None
    if indices is None:
        indices = node.extra_output(1)
    axis = node.attr("axis")
    if axis is not None:
        indices = op.Gather(flat_positions(op, x), indices, axis=axis)
    return scatter_add_flat(op, indices, gy, x)


@gradient("OneHot")
def one_hot(op, node, gz):
    """gvalues = [sum of gz where off, sum of gz where on]"""
    indices, depth, values = node.inputs
    on = op.Mul(gz, op.OneHot(indices, depth, op.constant([0, 1], values.dtype), axis=node.attr("axis")))
    sums = [op.Reshape(op.ReduceSum(part, keepdims=0), [1]) for part in (op.Sub(gz, on), on)]
    return None, None, op.Concat(*sums, axis=0)


@gradient("ReverseSequence", moves=True)
def reverse_sequence(op, node, gy):
    """gx = gy reversed in the same way"""
    return op.ReverseSequence(gy, node.inputs[1], batch_axis=node.attr("batch_axis"), time_axis=node.attr("time_axis"))

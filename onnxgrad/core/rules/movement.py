"""Operators that only move elements: reshaping, joining, cutting, repeating, padding.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import flat_positions, scatter_add_flat, size_along, zeros_of_shape
from onnxgrad.core.rules.registry import gradient
from onnxgrad.errors import UnsupportedGradient


@gradient("Reshape", "Flatten", moves=True)
def reshape(op, node, gy):
    """gx = gy in the shape of x"""
    return op.Reshape(gy, op.Shape(node.inputs[0]), allowzero=1)


@gradient("Squeeze", moves=True)
def squeeze(op, node, gy):
    """gx = gy in the shape of x"""
    if known_ints(node.operand("axes")) == []:
        # onnx removes no axis, onnxruntime all of length 1, though it plans memory and folds shapes as onnx does.
        raise UnsupportedGradient(
            f"{node}: axes is an empty list, which onnx and onnxruntime understand differently. "
            "Leave axes out to remove every axis of length 1, or take the operator out of the model."
        )
    return reshape(op, node, gy)


@gradient("Unsqueeze", moves=True)
def unsqueeze(op, node, gy):
    """gx = gy without the added axes"""
    # Squeeze without axes removes every axis of length 1.
    if not known_ints(node.operand("axes")):
        return op.Reshape(gy, op.Shape(node.inputs[0]), allowzero=1)
    return op.Squeeze(gy, axes=node.operand("axes"))


@gradient("Transpose", moves=True)
def transpose(op, node, gy):
    """gx = gy with the axes put back"""
    perm = node.attr("perm")
    if perm is None:
        return op.Transpose(gy)
    return op.Transpose(gy, perm=[int(axis) for axis in np.argsort(perm)])


@gradient("Concat", moves=True)
def concat(op, node, gz):
    """gx_i = the part of gz that came from x_i"""
    if len(node.inputs) == 1:
        return gz
    axis = node.attr("axis")
    sizes = [_size_along(x, axis) for x in node.inputs]
    if all(size is not None for size in sizes):
        lengths = op.constant(np.array(sizes, np.int64))
    else:
        lengths = op.Concat(*(size_along(op, x, axis) for x in node.inputs), axis=0)
    return op.Split(gz, lengths, axis=axis, outputs=len(node.inputs))


def _size_along(x: Variable, axis: int) -> Any:
    return x.dims[axis] if x.dims is not None and isinstance(x.dims[axis], int) else None


@gradient("Split", moves=True)
def split(op, node, *gys):
    """gx = the gradients of the parts, joined; zeros for a part that nobody used"""
    parts, used = [], next(g for g in gys if g is not None)
    for i, g in enumerate(gys):
        y = node.outputs[i] if node.outputs[i] is not None else node.extra_output(i)
        parts.append(zeros_of_shape(op, op.Shape(y), used) if g is None else g)
    return op.Concat(*parts, axis=node.attr("axis")) if len(parts) > 1 else parts[0]


@gradient("Slice", moves=True)
def slice_(op, node, gy):
    """gx = gy put back at its indices, zeros elsewhere"""
    x = node.inputs[0]
    pads = _pads_that_undo(op, node, gy)
    if pads is not None:
        return op.Pad(gy, pads)
    arguments = node.inputs[1:]
    return scatter_add_flat(op, op.Slice(flat_positions(op, x), *arguments), gy, x)


def _pads_that_undo(op, node, gy):
    """Pads that give a unit-step Slice its shape back; None when the start is known only at run time"""
    x = node.inputs[0]
    starts, axes, steps = (known_ints(node.operand(name)) for name in ("starts", "axes", "steps"))
    if starts is None or x.rank is None or (axes is None and node.operand("axes") is not None):
        return None
    if (steps is None and node.operand("steps") is not None) or (steps is not None and any(step != 1 for step in steps)):
        return None
    axes = list(range(len(starts))) if axes is None else [axis % x.rank for axis in axes]
    before = [0] * x.rank
    for axis, start in zip(axes, starts, strict=True):
        dim = x.dims[axis]
        if start < 0 and not isinstance(dim, int):
            return None
        before[axis] = start if start >= 0 else max(dim + start, 0)
        if isinstance(dim, int):
            before[axis] = min(before[axis], dim)
    whole, part = x.static_shape, gy.static_shape
    if whole is not None and part is not None:
        return before + [w - p - b for w, p, b in zip(whole, part, before, strict=True)]
    if any(start and not isinstance(dim, int) for start, dim in zip(before, x.dims, strict=True)):
        before = op.Min(op.Shape(x), before)
    after = op.Sub(op.Sub(op.Shape(x), op.Shape(gy)), before)
    return op.Concat(before, after, axis=0)


@gradient("Expand", broadcasts=True, moves=True)
def expand(op, node, gy):
    """gx = gy summed over the repeated axes"""
    return gy


@gradient("Tile", moves=True)
def tile(op, node, gy):
    """gx = gy summed over the repetitions"""
    x, repeats = node.inputs
    if x.rank is None:
        positions = op.Tile(flat_positions(op, x), repeats)
        return scatter_add_flat(op, positions, gy, x)
    pairs = op.Concat(op.Unsqueeze(repeats, [1]), op.Unsqueeze(op.Shape(x), [1]), axis=1)
    apart = op.Reshape(gy, op.Reshape(pairs, [-1]), allowzero=1)
    return op.ReduceSum(apart, list(range(0, 2 * x.rank, 2)), keepdims=0)


@gradient("Pad", moves=True)
def pad(op, node, gy):
    """gx = gy without the padding, plus what reflect, edge and wrap copied;  gvalue = the sum of the padding"""
    x, pads = node.inputs[:2]
    axes = node.operand("axes")
    if node.attr("mode") != "constant":
        return scatter_add_flat(op, op.Pad(flat_positions(op, x), pads, None, axes, mode=node.attr("mode")), gy, x)
    known = known_ints(pads)
    undo = [-entry for entry in known] if known is not None else op.Neg(pads)
    gx = op.Pad(gy, undo, None, axes)
    if not node.wants(2):
        return gx
    padding = op.Sub(gy, op.Pad(gx, pads, None, axes))
    return gx, None, op.Reshape(op.ReduceSum(padding, keepdims=0), op.Shape(node.inputs[2]))


@gradient("DepthToSpace", moves=True)
def depth_to_space(op, node, gy):
    """gx = gy with the blocks folded back into channels"""
    x, size = node.inputs[0], node.attr("blocksize")
    if node.attr("mode") == "DCR":
        return op.SpaceToDepth(gy, blocksize=size)
    shape = op.Shape(x)
    n, c, h, w = (op.Shape(x, start=i, end=i + 1) for i in range(4))
    apart = op.Concat(n, op.Div(c, [size * size]), h, [size], w, [size], axis=0)
    blocks = op.Transpose(op.Reshape(gy, apart, allowzero=1), perm=[0, 1, 3, 5, 2, 4])
    return op.Reshape(blocks, shape, allowzero=1)


@gradient("SpaceToDepth", moves=True)
def space_to_depth(op, node, gy):
    """gx = gy with the channels spread back into blocks"""
    mode = node.operator.attrs.get("mode", "DCR")  # an attribute since opset 28
    return op.DepthToSpace(gy, blocksize=node.attr("blocksize"), mode=mode)


@gradient("Trilu")
def trilu(op, node, gy):
    """gx = the same triangle of gy"""
    return op.Trilu(gy, node.operand("k"), upper=node.attr("upper"))

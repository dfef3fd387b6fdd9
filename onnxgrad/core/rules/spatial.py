"""Operators that move elements within planes: CenterCropPad, Col2Im, MaxUnpool."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import flat_positions
from onnxgrad.core.rules.registry import gradient
from onnxgrad.errors import UnsupportedGradient


@gradient("CenterCropPad")
def center_crop_pad(op, node, gy):
    """gx = gy padded where x was cropped and cropped where x was padded: both round the same way"""
    x, axes = node.inputs[0], node.attr("axes")
    shape = op.Shape(x)
    if not axes:
        return op.CenterCropPad(gy, shape)
    return op.CenterCropPad(gy, op.Gather(shape, list(axes)), axes=list(axes))


@gradient("Col2Im")
def col2im(op, node, gy):
    """gx = the blocks of gy, as columns"""
    x, _, block = node.inputs
    axes = _block_rank(node, gy)
    pads = list(node.attr("pads") or [0] * 2 * axes)
    blocks = op.Pad(gy, [0, 0, *pads[:axes], 0, 0, *pads[axes:]]) if any(pads) else gy
    for axis in range(axes):
        # Each axis becomes two: the position in the block and the index of the block.
        blocks = op.Gather(blocks, _block_positions(op, node, blocks, block, axis), axis=2 + 2 * axis)
    order = [0, 1, *range(2, 2 + 2 * axes, 2), *range(3, 3 + 2 * axes, 2)]
    return op.Reshape(op.Transpose(blocks, perm=order), op.Shape(x), allowzero=1)


def _block_rank(node: Any, gy: Variable) -> int:
    """Number of axes of a block"""
    lengths = [v.static_shape[0] for v in node.inputs[1:] if v.static_shape is not None]
    if gy.rank is None and not lengths:
        raise UnsupportedGradient(f"{node}: the rank of its image is unknown. Declare its shape in the model's value_info.")
    return gy.rank - 2 if gy.rank is not None else lengths[0]


def _block_positions(op: Builder, node: Any, padded: Variable, block: Variable, axis: int) -> Variable:
    """[size of a block, number of blocks] along one axis of the padded image"""
    stride = (node.attr("strides") or [1] * (axis + 1))[axis]
    dilation = (node.attr("dilations") or [1] * (axis + 1))[axis]
    size = op.Gather(block, axis)
    within = op.Mul(op.Range(0, size, 1), [dilation])
    length = op.Squeeze(op.Shape(padded, start=2 + 2 * axis, end=3 + 2 * axis), [0])
    last = op.Sub(length, op.Mul(op.Sub(size, 1), dilation))
    return op.Add(op.Unsqueeze(within, [1]), op.Range(0, last, stride))


_LARGEST = 2**20


@gradient("MaxUnpool")
def max_unpool(op, node, gy):
    """gx = gy at the indices to which x was written (an index that repeats gives to all)"""
    x, indices = node.inputs[:2]
    if node.operand("output_shape") is None:
        gathered = op.Gather(op.Reshape(gy, [-1]), op.Reshape(indices, [-1]))
        return op.Reshape(gathered, op.Shape(x), allowzero=1)
    source = _written_from(op, node)
    spare = op.Add(op.Size(x), 1)
    empty = op.Expand(op.constant(0, gy.dtype), op.Reshape(spare, [1]))
    scattered = op.ScatterElements(empty, op.Reshape(source, [-1]), op.Reshape(gy, [-1]), axis=0)
    return op.Reshape(op.Slice(scattered, [1], [_FAR], [0]), op.Shape(x), allowzero=1)


_FAR = 2**62


def _written_from(op: Builder, node: Any) -> Variable:
    """Which element of x, counted from 1, stands at each index of y; 0 for none.

    onnx and onnxruntime read the indices differently where output_shape is given. MaxUnpool itself is asked where it puts the
    numbers of the elements, in two parts that float32 holds exactly.
    """
    x, indices, shape = node.inputs
    attrs = {name: node.attr(name) for name in ("kernel_shape", "pads", "strides") if node.attr(name) is not None}
    number = op.Add(flat_positions(op, x), 1)
    parts = (op.Div(number, _LARGEST), op.Mod(number, _LARGEST))
    high, low = (op.Cast(op.MaxUnpool(op.Cast(part, to=1), indices, shape, **attrs), to=7) for part in parts)
    return op.Add(op.Mul(high, _LARGEST), low)

"""Weights in small integers with a scale for each block: MatMulNBits, GatherBlockQuantized.

They stay as they are stored, and frozen. A gradient needs the weight in floating point: it is made anew from the packed bytes when
the gradient arrives, one weight at a time, so there is neither a second stored copy nor a float copy of all weights.
``accuracy_level`` says how MatMulNBits rounds its other operand (4: to 8-bit integers); a gradient takes that for the identity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, not_before
from onnxgrad.core.rules.contrib.node import ContribNode, contrib
from onnxgrad.dtypes import dtype_of

__all__ = ["levels"]


@contrib("MatMulNBits")
def mat_mul_n_bits(op: Builder, node: ContribNode) -> Variable:
    """y = x w^T + b, w = (q - zero point) * scale by blocks; the weight in a form that runtimes keep small"""
    packed, bits = node.input(1), node.attr("bits", 4)
    if bits not in (2, 4, 8):
        raise node.refusal(f"weights of {bits} bits are not known")
    if node.attr("weight_prepacked", 0):
        raise node.refusal("its weight is packed for one machine (weight_prepacked)", "Use the file it was made from")
    if packed.dims is not None and 0 in packed.dims:
        raise node.refusal("its weight is left out")
    zeros = node.input(3)
    constant = packed.value is not None and (zeros is None or (zeros.value is not None and not zeros.is_float))
    if node.alone and constant and bits in (4, 8) and node.input(4) is None:
        y = op.MatMul(node.input(0), _stored(op, node))
    else:
        y = _product(op, node)
    return y if node.input(5) is None else op.Add(y, node.input(5))


def _stored(op: Builder, node: ContribNode) -> Any:
    """The weight transposed, from a constant of small integers that DequantizeLinear reads.

    With the blocks along axis 0, onnxruntime makes MatMulNBits of it again, and rounds the other operand to 8 bits by default. So
    that is how a weight is stored whose ``accuracy_level`` asks for that; others have the blocks along axis 1.
    """
    packed, scales, zeros = (node.input(i) for i in (1, 2, 3))
    bits, block, n, k = node.attr("bits", 4), node.attr("block_size"), node.attr("N"), node.attr("K")
    count = -(-k // block)
    if zeros is None:
        zero = np.full((n, count), 1 << (bits - 1), dtype_of(f"uint{bits}").numpy)
    else:
        zero = _unpacked(zeros.value.numpy().reshape(n, -1), bits)[:, :count]
    level = _unpacked(packed.value.numpy().reshape(n, -1), bits)[:, :k]
    if node.attr("accuracy_level", 0) != 4 or scales.value is None or scales.is_parameter:
        scale = op.Reshape(scales, [n, count])
        weight = op.DequantizeLinear(op.constant(level), scale, op.constant(zero), axis=1, block_size=block)
        return op.Transpose(weight, perm=[1, 0])
    level, scale, zero = (np.ascontiguousarray(v.T) for v in (level, scales.value.numpy().reshape(n, count), zero))
    return op.DequantizeLinear(op.constant(level), op.constant(scale), op.constant(zero), axis=0, block_size=block)


def _unpacked(array: Any, bits: int) -> Any:
    """Rows of bytes as rows of small integers, the low half of a byte first"""
    if bits == 8:
        return array
    halves = np.stack([array & 15, array >> 4], axis=-1)
    return halves.reshape(len(array), -1).astype(dtype_of("uint4").numpy)


def _product(op: Builder, node: ContribNode) -> Any:
    """The sum of a product for each of the levels in a byte: columns of x, not the weight, are put in another order"""
    x, packed, scales = (node.input(i) for i in range(3))
    bits, block, n, k = node.attr("bits", 4), node.attr("block_size"), node.attr("N"), node.attr("K")
    count, each, lead = -(-k // block), 8 // bits, [0] * (node.rank(0) - 1)
    if k < count * block:
        x = op.Pad(x, [0] * (len(lead) * 2 + 1) + [count * block - k])
    wide = op.Reshape(x, [*lead, count * block // each, each])
    columns = [op.Gather(wide, i, axis=-1) for i in range(each)] if each > 1 else [x]
    zeros = _zero_points(op, node, count)
    total = None
    for i, (column, level) in enumerate(zip(columns, levels(op, node, packed, bits), strict=True)):
        value = cast_like(op, op.Reshape(level, [n, count, block // each]), scales)
        scale, zero = (_for_columns(op, node, v, i, each) for v in (scales, zeros))
        if node.input(4) is not None:
            value = op.Reshape(value, [n, -1])
        weight = op.Reshape(op.Mul(op.Sub(value, zero), scale), [n, count * block // each])
        part = op.MatMul(column, op.Transpose(weight, perm=[1, 0]))
        total = part if total is None else op.Add(total, part)
    return total


def levels(op: Builder, node: ContribNode, packed: Any, bits: int) -> list[Any]:
    """The integers in each byte, lowest bits first, as so many tensors of bytes"""
    if bits == 8:  # the mask keeps runtimes from storing what follows for good
        return [op.BitwiseAnd(packed, not_before(op, np.uint8(255), node.arriving))]
    mask = not_before(op, np.uint8((1 << bits) - 1), node.arriving)
    found = [op.BitwiseAnd(packed, mask)]
    for shift in range(bits, 8, bits):
        moved = op.BitShift(packed, not_before(op, np.uint8(shift), node.arriving), direction="RIGHT")
        found.append(moved if shift + bits == 8 else op.BitwiseAnd(moved, mask))
    return found


def _zero_points(op: Builder, node: ContribNode, count: int) -> Any:
    """[n, count] in the type of the scales, or a number"""
    zeros, bits, n = node.input(3), node.attr("bits", 4), node.attr("N")
    if zeros is None:
        return float(1 << (bits - 1))
    if zeros.is_float:
        return zeros
    apart = [op.Unsqueeze(level, [-1]) for level in levels(op, node, op.Reshape(zeros, [n, -1]), bits)]
    together = op.Reshape(op.Concat(*apart, axis=-1), [n, -1])
    return cast_like(op, op.Slice(together, [0], [count], [1]), node.input(2))


def _for_columns(op: Builder, node: ContribNode, v: Any, index: int, each: int) -> Any:
    """A value for each block as something that broadcasts against the columns ``index, index + each, ...``"""
    if isinstance(v, float):
        return v
    block, n, k = (node.attr(name) for name in ("block_size", "N", "K"))
    count = -(-k // block)
    if node.input(4) is None:
        return op.Reshape(v, not_before(op, np.array([n, count, 1]), node.arriving))
    groups = op.Pad(node.input(4), [0, count * block - k])
    return op.Gather(op.Reshape(v, [n, count]), op.Slice(groups, [index], [2**31 - 1], [0], [each]), axis=1)

"""Weights in small integers with a scale for each block: MatMulNBits, GatherBlockQuantized.

They stay as they are stored, and frozen. A gradient needs the weight in floating point: it is made anew from the packed bytes when
the gradient arrives, one weight at a time, so there is neither a second stored copy nor a float copy of all weights.
``accuracy_level`` says how MatMulNBits rounds its other operand (4: to 8-bit integers); a gradient takes that for the identity.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, not_before, size_along
from onnxgrad.core.rules.contrib.node import ContribNode, contrib
from onnxgrad.dtypes import dtype_of

__all__ = ["interleaved", "levels"]


@contrib("MatMulNBits")
def mat_mul_n_bits(op: Builder, node: ContribNode) -> Variable:
    """y = x w^T + b, w = (q - zero point) * scale by blocks; how accuracy_level rounds x counts as the identity"""
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
    bits, block, n, k = node.attr("bits", 4), node.count("block_size"), node.count("N"), node.count("K")
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
    transposed = [op.constant(np.ascontiguousarray(v.T)) for v in (level, scales.value.numpy().reshape(n, count), zero)]
    return op.DequantizeLinear(*transposed, axis=0, block_size=block)


def _unpacked(array: Any, bits: int) -> Any:
    """Rows of bytes as rows of small integers, the low half of a byte first"""
    if bits == 8:
        return array
    halves = np.stack([array & 15, array >> 4], axis=-1)
    return halves.reshape(len(array), -1).astype(dtype_of("uint4").numpy)


def _product(op: Builder, node: ContribNode) -> Any:
    """The sum of a product for each of the levels in a byte: columns of x, not the weight, are put in another order"""
    x, packed, scales = (node.input(i) for i in range(3))
    bits, block, n, k = node.attr("bits", 4), node.count("block_size"), node.count("N"), node.count("K")
    count, each, lead = -(-k // block), 8 // bits, [0] * (node.rank(0) - 1)
    if k < count * block:
        x = op.Pad(x, [0] * (len(lead) * 2 + 1) + [count * block - k])
    wide = op.Reshape(x, [*lead, count * block // each, each])
    columns = [x]
    if each > 1:
        parts = op.Split(wide, axis=len(lead) + 1, num_outputs=each, outputs=each)
        columns = [op.Squeeze(part, [len(lead) + 1]) for part in parts]
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
    parts = [op.BitwiseAnd(packed, mask)]
    for shift in range(bits, 8, bits):
        moved = op.BitShift(packed, not_before(op, np.uint8(shift), node.arriving), direction="RIGHT")
        parts.append(moved if shift + bits == 8 else op.BitwiseAnd(moved, mask))
    return parts


def interleaved(op: Builder, node: ContribNode, packed: Any, bits: int) -> Any:
    """The integers of packed rows in their order, one in each byte"""
    if bits == 8:
        return levels(op, node, packed, bits)[0]
    apart = [op.Unsqueeze(level, [packed.rank]) for level in levels(op, node, packed, bits)]
    return op.Reshape(op.Concat(*apart, axis=packed.rank), [*[0] * (packed.rank - 1), -1])


def _zero_points(op: Builder, node: ContribNode, count: int) -> Any:
    """[n, count] in the type of the scales, or a number"""
    zeros, bits, n = node.input(3), node.attr("bits", 4), node.count("N")
    if zeros is None:
        return float(1 << (bits - 1))
    if zeros.is_float:
        return zeros
    together = interleaved(op, node, op.Reshape(zeros, [n, -1]), bits)
    return cast_like(op, op.Slice(together, [0], [count], [1]), node.input(2))


def _for_columns(op: Builder, node: ContribNode, v: Any, index: int, each: int) -> Any:
    """A value for each block as something that broadcasts against the columns ``index, index + each, ...``"""
    if isinstance(v, float):
        return v
    block, n, k = (node.count(name) for name in ("block_size", "N", "K"))
    count = -(-k // block)
    if node.input(4) is None:
        return op.Reshape(v, not_before(op, np.array([n, count, 1]), node.arriving))
    groups = op.Pad(node.input(4), [0, count * block - k])
    return op.Gather(op.Reshape(v, [n, count]), op.Slice(groups, [index], [2**31 - 1], [0], [each]), axis=1)


@contrib("GatherBlockQuantized")
def gather_block_quantized(op: Builder, node: ContribNode) -> Any:
    """y = (q - zero point) * scale by blocks, in the rows that are gathered: there is no float copy of the table"""
    data, indices, scales, zeros = (node.input(i) for i in range(4))
    bits, block, rank = node.attr("bits", 4), node.count("block_size", 128), node.rank(0)
    gathered, blocked = (node.attr(name, default) % rank for name, default in (("gather_axis", 0), ("quantize_axis", 1)))
    stored = data.dtype.name
    if stored not in ("uint8", "uint4", "int4") or block == 0 or bits not in (2, 4, 8):
        raise node.refusal(f"tables of {stored} with {bits} bits are not known")
    axis = blocked + node.rank(1) - 1 if blocked > gathered else blocked

    def rows(table: Any) -> Any:
        if stored != "uint8":  # there is no kernel that gathers half bytes
            return op.Gather(op.Cast(table, to=scales.dtype.number), indices, axis=gathered)
        packed = op.Gather(table, indices, axis=gathered)
        return cast_like(op, interleaved(op, node, packed, bits), scales)

    level, scale = rows(data), op.Gather(scales, indices, axis=gathered)
    of_block = op.Div(op.Range(0, op.Squeeze(size_along(op, level, axis), [0]), 1), block)
    if zeros is not None:
        level = op.Sub(level, op.Gather(rows(zeros), of_block, axis=axis))
    elif stored == "uint8":
        level = op.Sub(level, float(1 << (bits - 1)))
    return op.Mul(level, op.Gather(scale, of_block, axis=axis))

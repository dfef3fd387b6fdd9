"""Weights of MatMulNBits as numbers, and back: w = (q - zero point) * scale, with a scale for each block of a row.

Tests: tests/training/test_language_models.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ModelError

__all__ = ["Rounding", "float_weight", "is_packed", "requantise"]

Array = np.ndarray[Any, Any]


class Rounding(NamedTuple):
    """The error of rounding a changed weight to small integers again, as squares of norms."""

    name: str
    bits: int
    error: float
    weight: float
    change: float


def is_packed(op: Operator) -> bool:
    return (op.domain, op.type) == ("com.microsoft", "MatMulNBits")


def float_weight(op: Operator) -> Array:
    """The weight of a quantised layer in float64, in the layout that MatMul, Gemm or Conv reads."""
    weight = op.inputs[1]
    assert weight is not None
    if is_packed(op):
        return _numbers(op).T
    (value,) = Executor().run(op.block.program, {}, [weight])
    return np.asarray(value, np.float64)


def _input(op: Operator, index: int) -> Variable | None:
    return op.inputs[index] if len(op.inputs) > index else None


def _stored(op: Operator, index: int) -> Array | None:
    v = _input(op, index)
    if v is None:
        return None
    if v.value is None:
        raise ModelError(
            f"{op}: {v.name!r} is computed, not stored, so its weight cannot be changed. Keep the adapters as branches."
        )
    return np.asarray(v.get_value())


def _sizes(op: Operator) -> tuple[int, int, int, int, int]:
    bits = int(op.attrs.get("bits", 4))
    block, rows, length = (int(op.attrs.get(name, 0)) for name in ("block_size", "N", "K"))
    if min(block, rows, length) < 1:
        raise ModelError(f"{op}: N, K and block_size are positive. Correct the file.")
    return bits, block, rows, length, -(-length // block)


def _levels(packed: Array, bits: int) -> Array:
    """Rows of bytes as rows of small integers, the lowest bits of a byte first"""
    parts = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(len(packed), -1)


def _bytes(levels: Array, bits: int) -> Array:
    each = 8 // bits
    padded = np.pad(levels, [(0, 0), (0, -levels.shape[1] % each)]).reshape(len(levels), -1, each).astype(np.uint8)
    shifted = padded << (np.arange(each, dtype=np.uint8) * bits)
    packed: Array = np.bitwise_or.reduce(shifted, axis=-1)
    return packed


def _numbers(op: Operator) -> Array:
    """[N, K] in float64"""
    bits, block, rows, length, count = _sizes(op)
    packed, scales, zeros, groups = (_stored(op, index) for index in (1, 2, 3, 4))
    assert packed is not None and scales is not None
    points = rows * -(-count * bits // 8) if zeros is not None and zeros.dtype == np.uint8 else rows * count
    sizes = [(packed, rows * count * (block * bits // 8)), (scales, rows * count), (zeros, points), (groups, length)]
    if bits not in (2, 4, 8) or any(stored is not None and stored.size != size for stored, size in sizes):
        raise ModelError(f"{op}: the sizes of its operands do not match its attributes. Keep the adapters as branches.")
    levels = _levels(packed.reshape(rows, -1), bits)[:, :length].astype(np.float64)
    if zeros is None:
        zero = np.full((rows, count), float(1 << (bits - 1)))
    elif zeros.dtype == np.uint8:
        zero = _levels(zeros.reshape(rows, -1), bits)[:, :count].astype(np.float64)
    else:
        zero = zeros.reshape(rows, count).astype(np.float64)
    at = np.arange(length) // block if groups is None else groups
    weights: Array = (levels - zero[:, at]) * scales.reshape(rows, count).astype(np.float64)[:, at]
    return weights


def requantise(op: Operator, weight: Array, name: str, change: Array) -> Rounding:
    """Store another weight [K, N] in the bits, blocks and zero points of a MatMulNBits.

    Raises:
        ModelError: if its zero points are no integers, or its rows are grouped in another order.
    """
    bits, block, rows, length, count = _sizes(op)
    zeros = _stored(op, 3)
    if _stored(op, 4) is not None or (zeros is not None and zeros.dtype != np.uint8):
        raise ModelError(f"{op}: weights with g_idx or float zero points are not quantised again. Merge them into float weights.")
    blocks = np.pad(weight.T, [(0, 0), (0, count * block - length)]).reshape(rows, count, block)
    top = (1 << bits) - 1
    if zeros is None:
        largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)[..., 0]
        scale, zero = largest / -(1 << (bits - 1)), np.full((rows, count), 1 << (bits - 1))
    else:
        low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
        scale = (high - low) / top
        zero = np.clip(np.round(-low / np.where(scale == 0, 1, scale)), 0, top).astype(np.int64)
    scales = op.inputs[2]
    assert scales is not None
    scale = scale.astype(scales.dtype.numpy)
    divisor = np.where(scale == 0, 1, scale).astype(np.float64)
    levels = np.clip(np.round(blocks / divisor[..., None]) + zero[..., None], 0, top).astype(np.uint8)
    _replace(op, 1, _bytes(levels.reshape(rows, -1), bits))
    _replace(op, 2, scale)
    if zeros is not None:
        _replace(op, 3, _bytes(zero.astype(np.uint8), bits))
    error = _numbers(op).T - weight
    return Rounding(name, bits, *(float((part**2).sum()) for part in (error, weight, change)))


def _replace(op: Operator, index: int, value: Array) -> None:
    """A constant of its own in place of a stored operand, which other layers may read too"""
    old = op.inputs[index]
    assert old is not None and old.static_shape is not None
    block = op.block.program.global_block()
    new = Variable(block, block.program.fresh_name(f"{old.name}.merged"), old.type)
    new.value = TensorValue.of(value.reshape(old.static_shape))
    block.register(new)
    block.initializers.append(new)
    op.inputs = [*op.inputs]
    op.inputs[index] = new

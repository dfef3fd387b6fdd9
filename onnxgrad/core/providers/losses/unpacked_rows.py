"""Multiply by a weight that is computed from packed integers, some of its rows at a time, so that it is never held as a whole.

The gradient of a packed head, [tokens, width], needs the weight as float numbers: 544 MB of 151,936 x 896, and as much again for
each step of unpacking. A Scan unpacks a few rows, multiplies the columns of the gradient that belong to them, and adds up. In such
parts the numbers stay in the processor's cache.

Tests: tests/core/providers/test_unpacked_rows.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.matching import producer_of
from onnxgrad.core.ir.bodies import write_body
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import entries_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["product_with_unpacked"]

_FEWEST = COSTS.count("unpacked_rows.fewest_numbers")
_BLOCK = COSTS.count("unpacked_rows.numbers_of_a_block")
_BY_ROWS = ("Add", "BitShift", "BitwiseAnd", "Cast", "Div", "Mul", "Reshape", "Sub")
"""Operators that compute a row of their result from the same row of their operands."""
_SMALL = 8
"""What has this many times fewer numbers than the weight may be computed as a whole."""


def product_with_unpacked(build: Builder, x: Variable, weight: Variable | None) -> Variable | None:
    """Write ``x @ weight`` by a Scan over rows of a large weight that is computed from stored ones; None for any other weight.

    Args:
        x: [rows, n]; float32.
        weight: [n, width].

    Returns:
        [rows, width], or None where the weight is small, stored as it is, or not computed row by row.
    """
    if weight is None or weight.static_shape is None or len(weight.static_shape) != 2 or x.rank != 2:
        return None
    n, width = weight.static_shape
    blocks = _number_of_blocks(n, width)
    operators, stored = ([], []) if blocks is None else _unpacking(weight, n, width)
    if blocks is None or not operators:
        return None
    size = n // blocks
    parts = [build.Reshape(v, [blocks, size, *_shape_of(v)[1:]]) for v in stored]
    columns = build.Reshape(x, [0, blocks, size])
    zeros = build.Expand(np.zeros((), np.float32), build.Concat(build.Shape(x, start=0, end=1), [width], axis=0))
    types = [("sum", TensorType(weight.dtype, (x.dims[0] if x.dims else None, width)))]
    types.append(("columns", TensorType(x.dtype, (x.dims[0] if x.dims else None, size))))
    types += [(f"stored_{i}", TensorType(v.dtype, (size, *_shape_of(v)[1:]))) for i, v in enumerate(stored)]

    def add_product(build: Builder, total: Variable, read: Variable, *rows: Variable) -> Any:
        values: dict[Variable, Variable] = dict(zip(stored, rows, strict=True))
        for op in operators:
            (out,) = op.outputs
            assert out is not None
            inputs: list[Any] = [values.get(v, v) if v is not None else None for v in op.inputs]
            if op.type == "Reshape":
                inputs[1] = [size, *_shape_of(out)[1:]]
            values[out] = getattr(build, op.type)(*inputs, **_attributes(op))
        return build.Add(total, build.MatMul(read, values[weight]))

    body = write_body(build, "unpacked", types, add_product)
    axes = [1, *[0] * len(parts)]
    return build.Scan(zeros, columns, *parts, body=body, num_scan_inputs=len(axes), scan_input_axes=axes)


def _attributes(op: Operator) -> dict[str, Any]:
    """The attributes of an operator, but for that of Reshape whose sizes are written anew"""
    return {} if op.type == "Reshape" else dict(op.attrs)


def _number_of_blocks(n: int, width: int) -> int | None:
    """The smallest divisor of n that makes blocks small enough; None where the weight is small, or n has no such divisor"""
    if n * width < _FEWEST:
        return None
    return next((count for count in range(2, n // 16) if n % count == 0 and n * width <= count * _BLOCK), None)


def _unpacking(weight: Variable, n: int, width: int) -> tuple[list[Operator], list[Variable]]:
    """The operators that compute a weight row by row, in their order, and the tensors that they read; none where others take part

    Packed integers and scales are read as they are stored, and so is what is computed in another way and small, as zero points.
    """
    operators: dict[Operator, None] = {}
    read: dict[Variable, None] = {}

    def add(v: Variable) -> bool:
        op = v.op
        if op in operators or v in read:
            return True
        if not _has_rows(v, n):
            return False
        if op is None or not _goes_by_rows(op, n):
            read[v] = None
            return op is None or prod(_shape_of(v)) * _SMALL <= n * width
        for operand in op.inputs[:1] if op.type == "Reshape" else op.inputs:
            if operand is None or not (_is_one_number(operand) or (_is_aligned(op, operand) and add(operand))):
                return False
        operators[op] = None
        return True

    return (list(operators), list(read)) if weight.op is not None and add(weight) else ([], [])


def _goes_by_rows(op: Operator, n: int) -> bool:
    """Whether an operator computes each of n rows from the same row of its operands"""
    if op.domain or op.type not in _BY_ROWS or len(op.outputs) != 1:
        return False
    return op.type != "Reshape" or (op.inputs[0] is not None and _has_rows(op.inputs[0], n))


def _is_aligned(op: Operator, operand: Variable) -> bool:
    """Whether the rows of an operand are those of the result, and not broadcast along another axis"""
    out = op.outputs[0]
    return op.type == "Reshape" or (out is not None and len(_shape_of(operand)) == len(_shape_of(out)))


def _has_rows(v: Variable, n: int) -> bool:
    shape = _shape_of(v)
    return len(shape) >= 2 and shape[0] == n


def _is_one_number(v: Variable) -> bool:
    return v.static_shape is not None and prod(v.static_shape) == 1 and len(v.static_shape) <= 1


def _shape_of(v: Variable) -> tuple[int, ...]:
    """The shape of a tensor, also where it waits for a gradient (``not_before``); () where it is not known"""
    if v.static_shape is not None:
        return v.static_shape
    if v.op is None or v.op.type != "Reshape" or v.op.domain:
        return ()
    waiting = producer_of(v.op.inputs[1], "Where")
    sizes = entries_of(v.op.inputs[1] if waiting is None else waiting.inputs[2])
    known = tuple(size for size in sizes or () if isinstance(size, int) and size > 0)
    return known if sizes is not None and len(known) == len(sizes) else ()

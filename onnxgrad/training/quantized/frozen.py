"""Frozen layers computed in 8-bit integers: the forward products of a fine-tuning step, while gradients pass the float weights.

y = x W becomes s_x s_W (x_q - z) W_q: W_q is rounded once, a scale for each column; x in each step, a scale for each row. One
scale for all rows, as DynamicQuantizeLinear has, would let each example depend on the largest number of its batch: ranks and
micro-batches would train something else, and the result would be less exact. The gradient of x is that of the float product.
Models that are saved or exported hold nothing of it.

Tests: tests/training/quantized/test_frozen.py, tests/distributed/test_divisors.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Expansion, Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.variable import Variable, present_value
from onnxgrad.errors import ArgumentError

__all__ = ["compute_in_integers"]

_SMALL = 2**14
_HIGHEST = 127
_POSITIVE = ("Relu", "Sigmoid", "Softmax")
"""Operators whose results are not negative, which leaves all 8 bits to what is positive."""


def compute_in_integers(program: Program, mode: str | None, trained: Sequence[Variable], place: Any) -> list[str]:
    """Let the forward products with weights that are not trained run in integers; returns a line on it.

    Products of at least 16,384 weights count: MatMul and Gemm of a float32 matrix that the file holds, outside branches and loops.
    The integers follow from the weights as they are now.

    Args:
        program: with its backward pass, which goes on reading the float weights.
        mode: ``"int8"``, or None to leave everything as it is.
        trained: the parameters that change.
        place: a CPUPlace.

    Raises:
        ArgumentError: for another mode, another place, or a program without such a layer.
    """
    if mode is None:
        return []
    if mode != "int8":
        raise ArgumentError(f"frozen is 'int8' or None, not {mode!r}.")
    if place.lowering != "cpu":
        raise ArgumentError(f"frozen='int8' is for the CPU provider. Leave it out on {place!r}.")
    changed = {*trained, *program.updates}
    products = [op for op in program.global_block().ops if _weight_of(op, changed) is not None]
    if not products:
        raise ArgumentError("frozen='int8' finds no frozen MatMul or Gemm of 16,384 float32 weights. Leave it out.")
    rounded: dict[tuple[int, bool], tuple[Variable, Variable]] = {}
    for op in products:
        _attach(op, program, rounded)
    return [f"{len(products)} products with frozen weights are computed in 8-bit integers (frozen 'int8')"]


def _weight_of(op: Operator, changed: set[Variable]) -> Variable | None:
    """The frozen weight of a forward product that can be computed in integers."""
    if op.domain or op.role is not Role.FORWARD or op.expansion is not None or op.replaces is not None:
        return None
    if op.type not in ("MatMul", "Gemm") or (op.type == "Gemm" and (op.attr("transA") or op.attr("alpha") != 1)):
        return None
    if op.type == "Gemm" and len(op.inputs) > 2 and op.inputs[2] is not None and op.attr("beta") != 1:
        return None
    x, w = op.inputs[:2]
    if x is None or w is None or w.op is not None or w in changed or w.value is None or w.dtype.name != "float32" or not x.rank:
        return None
    shape = w.static_shape
    return w if shape is not None and len(shape) == 2 and shape[0] * shape[1] >= _SMALL else None


def _rounded(program: Program, w: Variable, transposed: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A matrix in integers and the scale of each column; a column of zeros has scale 0."""
    value = np.asarray(present_value(program.active_scope(), w), np.float32)
    value = value.T if transposed else value
    scale = (np.abs(value).max(0) / _HIGHEST).astype(np.float32)
    return np.rint(value / np.where(scale > 0, scale, 1)).astype(np.int8), scale


def _attach(op: Operator, program: Program, rounded: dict[tuple[int, bool], tuple[Variable, Variable]]) -> None:
    block = op.block
    x, w = op.inputs[:2]
    y = op.outputs[0]
    assert x is not None and w is not None and y is not None
    transposed = op.type == "Gemm" and bool(op.attr("transB"))
    if (id(w), transposed) not in rounded:
        integers, scales = _rounded(program, w, transposed)
        rounded[id(w), transposed] = program.constant(integers), program.constant(scales)
    matrix, scale = rounded[id(w), transposed]
    at = next(i for i, other in enumerate(block.ops) if other is op) + 1
    tail, block.ops = block.ops[at:], block.ops[:at]
    build: Any = Builder(block, key=f"{y.name}/int8")
    assert x.rank is not None
    rows = x if x.rank == 2 else build.Reshape(x, [-1, matrix.shape[0]])
    small, step, zero = _rounded_rows(build, rows, _is_positive(x))
    # Rounded, NaN is a number: 0 times the sum of a row is what a diverged run is seen by.
    seen = build.Add(step, build.Mul(build.ReduceSum(rows, [1], keepdims=0), np.float32(0)))
    total = build.Cast(build.MatMulInteger(small, matrix, zero), to=x.dtype.number)
    result = build.Mul(build.Mul(total, build.Unsqueeze(seen, [1])), scale)
    if x.rank != 2:
        result = build.Reshape(result, build.Concat(build.Shape(x, end=-1), [matrix.shape[1]], axis=0))
    if len(op.inputs) > 2 and op.inputs[2] is not None:
        result = build.Add(result, op.inputs[2])
    inner = block.ops[at:]
    for other in inner:
        other.replaces = op
    op.expansion = Expansion(inner, [result], always=True)
    block.ops += tail


def _is_positive(x: Variable) -> bool:
    """Whether nothing in a value can be negative"""
    while x.op is not None and x.op.type in VIEWS and not x.op.domain and x.op.inputs[0] is not None:
        x = x.op.inputs[0]
    return x.op is not None and x.op.type in _POSITIVE and not x.op.domain


def _rounded_rows(build: Any, rows: Variable, is_positive: bool) -> tuple[Variable, Variable, np.uint8]:
    """A matrix in integers of 8 bits, the scale of each row, and the integer that stands for 0"""
    largest = build.ReduceMax(rows, [1], keepdims=0)
    if not is_positive:
        largest = build.Max(largest, build.Neg(build.ReduceMin(rows, [1], keepdims=0)))
    step = build.Div(build.Max(largest, np.float32(1e-30)), np.float32(255 if is_positive else _HIGHEST))
    zero = np.uint8(0 if is_positive else 128)
    zeros = build.Expand(build.constant(np.array(zero)), build.Shape(step))
    return build.QuantizeLinear(rows, step, zeros, axis=0), step, zero

"""A number and a tensor whose last axes have one element: onnxruntime takes such a pair element by element."""

from __future__ import annotations

from math import prod
from typing import Any

from onnxgrad.ir.operator import Operator
from onnxgrad.ir.variable import Variable

__all__ = ["ELEMENTWISE", "with_equal_ranks"]

ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Equal", "Greater", "Less")
_MANY = 1024


def with_equal_ranks(build: Any, op: Operator) -> list[Variable | None] | None:
    """The number with as many axes as the tensor, as a filter [512, 512, 1, 1] times the learning rate: 60 times as fast."""
    if len(op.inputs) != 2 or op.inputs[0] is None or op.inputs[1] is None:
        return None
    shapes = [v.static_shape for v in op.inputs if v is not None]
    large = next((s for s in shapes if s and s[-1] == 1 and prod(s) >= _MANY), None)
    if large is None:
        return None
    operands = [_with_rank(build, v, len(large)) for v in op.inputs if v is not None]
    if all(a is b for a, b in zip(operands, op.inputs, strict=True)):
        return None
    return [build.emit(op.type, operands, dict(op.attrs))]


def _with_rank(build: Any, v: Variable, rank: int) -> Any:
    shape = v.static_shape
    if shape is None or len(shape) >= rank or prod(shape) != 1:
        return v
    if v.value is not None and not v.persistable:
        return build.constant(v.value.numpy().reshape([1] * rank))
    return build.Reshape(v, [1] * rank)

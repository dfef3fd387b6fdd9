"""Whether operators of opsets 27 and 28 mean the same in 26, the newest opset that onnxruntime loads."""

from __future__ import annotations

from collections.abc import Iterable

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import NEWEST, Schema, find_schema
from onnxgrad.core.ir.types import TensorType, Type

__all__ = ["fits_newest"]

_REDEFINED = ("BitShift",)
"""Signed operands, which 26 does not admit, shift arithmetically."""


def fits_newest(operators: Iterable[Operator]) -> bool:
    """Whether operators, bodies included, mean in opset 26 what they mean in their program's."""
    return all(_fits(op) and all(fits_newest(body.ops) for body in op.blocks()) for op in operators)


def _fits(op: Operator) -> bool:
    now = op.schema
    if op.domain != "" or now is None or now.since <= NEWEST:
        return True
    then = find_schema(op.type, "", NEWEST)
    if then is None or any(name not in then.attributes for name in op.attrs) or op.type in _REDEFINED:
        return False
    pairs = [(then.input_at(i), v) for i, v in enumerate(op.inputs)]
    if then.outputs:
        pairs += [(then.outputs[min(i, len(then.outputs) - 1)], v) for i, v in enumerate(op.outputs)]
    return all(v is None or (slot is not None and v.type is not None and _admits(then, slot.typestr, v.type)) for slot, v in pairs)


def _admits(schema: Schema, typestr: str, type: Type) -> bool:
    allowed = schema.typestrs.get(typestr, frozenset())
    if isinstance(type, TensorType) and schema.allows(typestr, type.dtype):
        return True
    return any(name.startswith(("seq(", "optional(")) for name in allowed)

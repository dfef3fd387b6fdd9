"""Function bodies, ONNX's and a model's own, written out at a call."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TypeProto

from onnxgrad.core.interop.onnx_import import constant_value, read_function
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.infer import _as_node, infer_with_bodies
from onnxgrad.core.ir.operator import Operator, resolve_reference
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.internal.late import provides

__all__ = ["inline_function", "schema_body", "written_out"]


def schema_body(operator: Operator) -> Block | None:
    """The body that ONNX defines for an operator, or None.

    Raises:
        UnsupportedGradient: if it is made of subgraphs that the operator holds.
    """
    schema = operator.schema
    if schema is None:
        return None
    raw: Any = schema.raw
    proto = onnx.FunctionProto()
    if raw.has_function:
        proto.CopyFrom(raw.function_body)
    elif raw.has_context_dependent_function:
        if operator.blocks():
            raise UnsupportedGradient(
                f"{operator}: the body that its schema defines is not written for an operator with subgraphs. "
                "Write their computation as operators around it."
            )
        node, types, _ = _as_node(operator)
        operand_types = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
        proto.ParseFromString(raw.get_context_dependent_function(node.SerializeToString(), operand_types))
    else:
        return None
    proto.domain, proto.name = operator.domain, operator.type
    return read_function(proto, operator.block.program).body


@provides("Operator.written_out")
def written_out(operator: Operator, op: Builder) -> list[Variable | None] | None:
    """Stage the body that ONNX defines for an operator and return its outputs; None if it defines none for these operands."""
    body = schema_body(operator)
    if body is None or len(body.ops) == 0:
        return None
    return inline_function(operator, body, op, {})


def inline_function(call: Operator, body: Block, op: Builder, defaults: dict[str, Any]) -> list[Variable | None]:
    """Stage the body of a function for one call and return its outputs."""
    assert op.stage is not None
    mapping: dict[Variable, Variable] = {}
    absent: set[Variable] = set()
    for i, formal in enumerate(body.inputs):
        actual = call.inputs[i] if i < len(call.inputs) else None
        if actual is None:
            absent.add(formal)
        else:
            mapping[formal] = actual
    for operator in body.ops:
        (copy,) = copy_operators([operator], mapping, op.block, lambda v: op.block.program.fresh_name(f"{op.key}/{v.name}"))
        for result in copy.outputs:
            if result is not None:
                result._name = ""
        copy.inputs = [None if v in absent else v for v in copy.inputs]
        copy.role = op.role
        copy.name = op.key
        _resolve(copy, call, defaults)
        value = constant_value(copy) if copy.type == "Constant" else None
        if value is not None:
            mapping[operator.outputs[0]] = op.constant(value.numpy())  # type: ignore[index]
            continue
        infer_with_bodies(copy)
        op.stage.append(copy)
    return [mapping.get(v) for v in body.outputs]


def _resolve(copy: Operator, call: Operator, defaults: dict[str, Any]) -> None:
    """Replace references to attributes of the call, in bodies too; attributes that the call leaves out are dropped."""
    attrs = {name: resolve_reference(value, call, defaults) for name, value in copy.attrs.items()}
    copy.attrs = {name: value for name, value in attrs.items() if value is not None}
    for body in copy.blocks():
        for inner in body.ops:
            _resolve(inner, call, defaults)

"""Operators differentiated through a body: our own expansion, ONNX's function body, or a model-local function.

Tests: tests/core/rules/test_expansions.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.interop.functions import inline_function, schema_body
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Expansion, Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.registry import find_entry
from onnxgrad.errors import RuleError, UnsupportedGradient

__all__ = ["expand_operator", "write_beside"]


class _Plain:
    """An operator as an expansion sees it."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.type = operator.type
        self.inputs = operator.inputs
        self.outputs = operator.outputs
        self.attr = operator.attr
        self.operand = operator.operand

    def __str__(self) -> str:
        return str(self.operator)


def expand_operator(operator: Operator, op: Builder, tapes: dict[Operator, Any], segmented: set[Block]) -> Expansion:
    """Write ``operator`` as others into the builder's stage.

    What a ``prepare`` says about its tape goes to ``tapes``; ``segmented`` holds the bodies whose states are held in part.

    Raises:
        UnsupportedGradient: if it has no body for its attributes and operand types.
    """
    entry = find_entry(operator)
    assert op.stage is not None
    if entry is not None and entry.segments is not None and any(body in segmented for body in operator.blocks()):
        outputs = list(entry.segments(op, _Plain(operator), segmented))
    elif entry is not None and entry.prepare is not None:
        outputs, taped, tape = entry.prepare(op, _Plain(operator))
        tapes[taped] = tape
    elif entry is not None and entry.function is not None:
        outputs = _listed(entry.function(op, _Plain(operator)))
    else:
        function = operator.block.program.functions.get((operator.domain, operator.type, operator.overload))
        body = function.body if function is not None else schema_body(operator)
        if body is None:
            raise UnsupportedGradient(f"{operator}: ONNX defines no body for these operands. Set stop_gradient on its inputs.")
        defaults = function.attribute_defaults if function is not None else {}
        outputs = inline_function(operator, body, op, defaults)
    outputs = _own(op, operator, outputs)
    for v, w in zip(operator.outputs, outputs, strict=True):
        if v is not None and w is None and (entry is None or entry.function is None):
            raise UnsupportedGradient(
                f"{operator}: its body does not compute {v.name}; is the rank of an operand unknown? Declare it in value_info."
            )
        if v is not None and w is None:
            raise RuleError(f"the expansion of {operator} does not compute {v.name}.")
    for inner in op.stage:
        inner.replaces = operator
    return Expansion(op.stage, outputs)


def write_beside(node: Any, op: Builder) -> list[Variable | None]:
    """Write the operator of a rule's ``node`` as others into the builder's stage; one variable per output that they compute."""
    entry = find_entry(node.operator)
    assert entry is not None and entry.function is not None
    return _own(op, node.operator, _listed(entry.function(op, node)))


def _listed(results: Any) -> list[Variable | None]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _own(op: Builder, operator: Operator, outputs: list[Variable | None]) -> list[Variable | None]:
    count = len(operator.outputs)
    outputs = [*outputs, *[None] * (count - len(outputs))]
    return [_unshared(op, operator, v, i, outputs) for i, v in enumerate(outputs[:count])]


def _unshared(op: Builder, operator: Operator, v: Variable | None, index: int, outputs: list[Variable | None]) -> Variable | None:
    """Each output must be a variable of its own that the expansion computes."""
    if v is None or operator.outputs[index] is None:
        return None
    own = op.stage is not None and any(v is w for inner in op.stage for w in inner.outputs)
    if own and not any(v is w for w in outputs[:index]):
        return v
    copy: Variable = op.Identity(v)
    return copy

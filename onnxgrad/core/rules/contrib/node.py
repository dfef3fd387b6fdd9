"""An operator of com.microsoft as its expansion sees it, and the decorator that enters the expansion into the rule table.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from onnxgrad.core.ir.contrib_schemas import contrib_schema
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.registry import expansion
from onnxgrad.errors import UnsupportedGradient

__all__ = ["ContribNode", "contrib"]


def contrib(*names: str, quantizes: bool = False, moves: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function ``(op, node)`` that writes operators of com.microsoft and returns their outputs."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def write(op: Any, node: Any) -> Any:
            node = node if isinstance(node, ContribNode) else ContribNode(node.operator, node.inputs, node.arriving)
            node.refuse_unknown()
            return function(op, node)

        expansion(*names, domain=CONTRIB_DOMAIN, beside=True, quantizes=quantizes, moves=moves)(write)
        return function

    return enter


class ContribNode:
    """Operands by position, attributes with the default that the schema in onnxruntime gives: onnx has no schemas for them.

    ``arriving`` is a gradient that the expansion may wait for, None where it stands for the operator itself; ``alone`` says that
    the operator is replaced for good, so what it alone reads may be stored in another form.
    """

    def __init__(
        self, operator: Operator, inputs: list[Variable | None] | None = None, arriving: Variable | None = None, alone: bool = False
    ) -> None:
        self.operator = operator
        self.type = operator.type
        self.inputs = operator.inputs if inputs is None else inputs
        self.arriving = arriving
        self.alone = alone

    def reading(self, *inputs: Variable | None) -> ContribNode:
        """The same operator with other operands."""
        return ContribNode(self.operator, list(inputs), self.arriving, self.alone)

    def input(self, index: int) -> Any:
        return self.inputs[index] if index < len(self.inputs) else None

    def attr(self, name: str, default: Any = None) -> Any:
        return self.operator.attrs.get(name, default)

    def count(self, name: str, default: int = 0) -> int:
        """Read an attribute that counts something: a number from 1 on."""
        count: int = self.attr(name, default)
        if count < 1:
            raise self.refusal(f"its attribute {name!r} is {count}", "Correct it")
        return count

    def has_output(self, index: int) -> bool:
        return index < len(self.operator.outputs) and self.operator.outputs[index] is not None

    def rank(self, index: int) -> int:
        """Rank of an operand, which this operator's expansion depends on."""
        rank: int | None = self.input(index).rank
        if rank is None:
            raise self.refusal(f"the rank of its input {index} is unknown", "Declare its shape in the model's value_info")
        return rank

    def refuse_unknown(self) -> None:
        """Refuse operands and attributes of a newer onnxruntime, which may change what the operator computes."""
        schema = contrib_schema(self.type, CONTRIB_DOMAIN, None)
        assert schema is not None
        unknown = [name for name in self.operator.attrs if name not in schema.attributes and not name.startswith("__")]
        if unknown:
            raise self.refusal(f"its attribute {unknown[0]!r} is not known")
        variadic = any(operand.variadic for operand in schema.inputs)
        if not variadic and any(v is not None for v in self.operator.inputs[len(schema.inputs) :]):
            raise self.refusal(f"it has more operands than {len(schema.inputs)}, and the others are not known")

    def __str__(self) -> str:
        return str(self.operator)

    def refusal(self, reason: str, advice: str = "Set stop_gradient on its inputs to cut here") -> UnsupportedGradient:
        return UnsupportedGradient(f"{self.operator}: no gradient, and no form in standard operators: {reason}. {advice}.")

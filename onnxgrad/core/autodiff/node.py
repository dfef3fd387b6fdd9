"""The forward operator as a gradient rule sees it.

Tests: tests/core/autodiff/test_append_backward.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnxgrad.core.ir.bodies import move_into
from onnxgrad.core.ir.operator import Operator, as_stored
from onnxgrad.core.ir.variable import Variable

if TYPE_CHECKING:
    from onnxgrad.core.autodiff.backward import Walk
    from onnxgrad.core.ir.block import Block

__all__ = ["Node"]


class Node:
    """``inputs``, ``outputs``, ``attr``, ``operand`` of a forward operator, and which gradients are wanted.

    Under recomputation the variables are the recomputed ones. ``captures`` are the outer variables that bodies read;
    their gradients follow those of the inputs in what a rule returns. ``arriving`` is the first gradient that arrived.
    """

    __slots__ = ("_walk", "_wanted", "arriving", "captures", "inputs", "operator", "outputs", "wanted_captures")

    def __init__(
        self, operator: Operator, walk: Walk, wanted: list[bool], captures: list[Variable], arriving: Variable | None = None
    ) -> None:
        self.operator = operator
        self._walk = walk
        self._wanted = wanted
        self.inputs = [walk.recomputed(v) for v in operator.inputs]
        self.outputs = [walk.recomputed(v) for v in operator.outputs]
        self.captures = captures
        self.arriving = arriving
        self.wanted_captures = wanted[len(operator.inputs) :]

    @property
    def type(self) -> str:
        return self.operator.type

    def attr(self, name: str) -> Any:
        """Value of an attribute, or the schema's default; numbers as the file holds them, in float32."""
        return as_stored(self.operator.attr(name))

    def operand(self, name: str) -> Any:
        """An input by its ONNX name, or the attribute of that name; None when absent."""
        value = self.operator.operand(name)
        return self._walk.recomputed(value) if isinstance(value, Variable) else value

    def wants(self, index: int) -> bool:
        """Return whether the gradient of input ``index`` is needed by anybody."""
        return index < len(self._wanted) and self._wanted[index]

    def extra_output(self, index: int) -> Variable:
        """An output that the forward operator can give but did not declare: it is added to it.

        Exports that do not read it leave it out again.
        """
        return self._walk.extend_outputs(self.operator, index)

    def wrote(self, piece: str, v: Variable) -> Variable:
        """Name the piece that the operator which computes ``v`` is, for forms that look for it (``core/ir/origin.py``).

        Nothing is named where ``v`` turned out to be something that there was before.
        """
        producer = v.op
        if (
            producer is not None
            and producer.origin is not None
            and producer.origin.of is self._result
            and producer.origin.rule == self.type
        ):
            producer.origin = producer.origin._replace(piece=piece)
        return v

    @property
    def _result(self) -> Variable | None:
        """The first result of the forward operator itself, whether or not it is recomputed"""
        return next((v for v in self.operator.outputs if v is not None), None)

    def __str__(self) -> str:
        return str(self.operator)

    def differentiate_body(
        self, body: Block, parent: Block, seeds: list[Variable | None], sources: list[Variable]
    ) -> tuple[Block, list[Variable | None]]:
        """A copy of ``body`` with its gradient appended, under ``parent``: (block, gradients of ``sources``)."""
        return self._walk.differentiate_body(body, parent, seeds, sources)

    def differentiate_into(
        self,
        shell: Block,
        body: Block,
        arguments: Sequence[Variable | None],
        seeds: list[Variable | None],
        sources: list[Variable],
        known: Mapping[Variable, Variable] | None = None,
    ) -> list[Variable | None]:
        """The same written at the end of ``shell``, with ``arguments`` for the inputs of ``body``: gradients of ``sources``.

        ``known`` holds values of the body that need not be recomputed.
        """
        inner, grads = self._walk.differentiate_body(body, shell, seeds, sources, known)
        replaced = move_into(shell, inner, arguments)
        return [None if g is None else replaced.get(g, g) for g in grads]

    @property
    def tape(self) -> Any:
        """The record by the operator's ``prepare`` of the values that it leaves behind."""
        return self._walk.tapes.get(self.operator)

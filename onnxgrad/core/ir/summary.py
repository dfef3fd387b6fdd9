"""Summaries of programs: layers with shapes and weights, what trains, and the memory of a training step."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.printing import type_text
from onnxgrad.core.ir.sizes import bytes_of
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.internal.text_table import SummaryTable

if TYPE_CHECKING:
    from onnxgrad.core.ir.program import Program

__all__ = ["LayerRow", "Summary", "headline", "summarize"]

_SHOWN = 40


class LayerRow(NamedTuple):
    """An operator that reads weights."""

    name: str
    type: str
    output: str
    elements: int
    trainable: int


class Summary:
    """The result of ``Program.summary``; ``str()`` is a table, and notebooks show one.

    Attributes:
        title: one line.
        layers: operators that read weights, in order; a weight counts where it is read first.
        others: how many operators read none.
        elements, trainable: of all weights, each once.
        memory: (what, bytes) pairs; unknown dimensions count as 1.
    """

    def __init__(
        self, title: str, layers: list[LayerRow], others: int, parameters: Collection[Parameter], trained: set[str]
    ) -> None:
        self.title, self.layers, self.others = title, layers, others
        self.elements = sum(_size(p) for p in parameters)
        self.trainable = sum(_size(p) for p in parameters if p.name in trained)
        self.memory: list[tuple[str, int]] = []

    def _facts(self) -> list[str]:
        fixed = self.elements - self.trainable
        return [
            f"{self.elements:,} elements of weights, {self.trainable:,} trainable, {fixed:,} frozen",
            f"{self.others:,} operators without weights",
            ", ".join(f"{what} {_human(size)}" for what, size in self.memory),
        ]

    def _table(self, first: str) -> SummaryTable:
        return SummaryTable([first, *LayerRow._fields[1:]], self.layers, self.title, self._facts())

    def __str__(self) -> str:
        return self._table("layer").text(most=_SHOWN, longest=_SHOWN)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._table("name").html()


def summarize(program: Program, title: str = "", trained: Iterable[str] | None = None, state: int = 2) -> Summary:
    """The layers of a program.

    Args:
        program: only its forward operators count.
        title: instead of ``headline``.
        trained: names of the weights that train; None for those that may.
        state: copies of the trained weights that an optimizer keeps; 2 for Adam.
    """
    chosen = {p.name for p in program.parameters if p.trainable and not p.stop_gradient} if trained is None else set(trained)
    operators = [op for op in all_operators_of(program.global_block()) if op.role is Role.FORWARD and op.replaces is None]
    seen: set[Variable] = set()
    layers = []
    for op in operators:
        new = [v for v in op.inputs if isinstance(v, Parameter) and v not in seen]
        seen.update(new)
        if new:
            trainable = sum(_size(p) for p in new if p.name in chosen)
            layers.append(LayerRow(_name(op, new), op.type, _output(op), sum(map(_size, new)), trainable))
    parameters = [p for p in program.parameters if p in seen]
    summary = Summary(title or headline(program), layers, len(operators) - len(layers), parameters, chosen)
    moving = sum(bytes_of(p) for p in parameters if p.name in chosen)
    results = sum(bytes_of(v) for op in operators for v in op.outputs if v is not None and v.value is None and v.is_float)
    summary.memory = [
        ("weights", sum(map(bytes_of, parameters))),
        ("gradients", moving),
        ("state of the optimizer", state * moving),
        ("results of one example", results),
    ]
    return summary


def headline(program: Program) -> str:
    """``14 operators, 10 weights: image float32[batch, 1, 8, 8] -> logits float32[batch, 10]``"""
    operators = sum(op.role is Role.FORWARD and op.replaces is None for op in program.global_block().ops)
    ends = (", ".join(f"{v.name} {type_text(v.type)}" for v in side[:4]) + (", ..." if len(side) > 4 else "")
            for side in (program.inputs, program.outputs))  # fmt: skip
    return f"{operators:,} operators, {len(program.parameters):,} weights: {' -> '.join(ends)}"


def _name(op: Operator, weights: list[Parameter]) -> str:
    return op.name or weights[0].name


def _output(op: Operator) -> str:
    first = next((v for v in op.outputs if v is not None), None)
    return "" if first is None else type_text(first.type)


def _size(p: Parameter) -> int:
    return math.prod(p.static_shape or (0,))


def _human(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

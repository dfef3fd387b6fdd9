"""A graph that several ranks compute together, in stages: between two of them small values are reduced over all ranks.

What is reduced goes through an Identity that is marked so. One process computes such a graph as it is, as there is nothing to add.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onnxgrad.core.compile.graph import Graph, compile
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["Reduction", "Stage", "make_stages", "reduced"]

_MARK = ("reduce", "sum")


class Reduction(NamedTuple):
    """What one rank computes, and what stands for the sum of it over all ranks."""

    local: Variable
    total: Variable


class Stage(NamedTuple):
    """A graph, and for the outputs that are reduced, the inputs of later stages that take the sums."""

    graph: Graph
    reductions: list[tuple[str, Variable]]


def reduced(build: Builder, local: Variable) -> Variable:
    """The sum of a value over all ranks."""
    total: Variable = build.Identity(local if local.op is not None else build.Identity(local))
    assert total.op is not None
    total.op.mark = _MARK
    return total


def make_stages(graph: Graph, outputs: Sequence[Variable], provider: str | None = None) -> list[Stage]:
    """Cut a graph after each value that is reduced: as few stages as the reductions that wait for each other allow.

    Args:
        graph: is not changed.
        outputs: of all stages together; each is one of some stage.
        provider: whose forms the graphs take.

    Returns:
        Stages in order. What a later one reads of an earlier one is an output of that and an input of this. What depends on no sum
        is computed where it is first read.
    """
    found = [
        Reduction(op.inputs[0], op.outputs[0]) for op in graph.operators if op.mark == _MARK and op.inputs[0] and op.outputs[0]
    ]
    totals = {r.total for r in found}
    operators = [op for op in graph.operators if op.mark != _MARK]
    level = _levels(operators, found, set(outputs))
    made_by = {op: level[v] for op in operators for v in op.outputs if v is not None}
    last: dict[Variable, int] = {}
    for op, number in made_by.items():
        last.update((v, max(last.get(v, 0), number)) for v in op.operands() if v is not None)
    stages = []
    for number in range(1 + max(made_by.values(), default=0)):
        local = [r for r in found if level[r.local] == number]
        results = [v for v in outputs if level.get(v, 0) == number] + [r.local for r in local]
        results += [
            v for op, at in made_by.items() if at == number for v in op.outputs if v is not None and last.get(v, 0) > number
        ]
        given = [v for v, at in level.items() if at < number or (v in totals and at == number)]
        whole = compile(
            graph.program, list(dict.fromkeys(results)), provider, given=given, state_as_inputs=True, updates=False, ordered=True
        )
        stages.append(Stage(whole, [(whole.name(r.local), r.total) for r in local]))
    return stages


def _levels(operators: Sequence[Operator], reductions: Sequence[Reduction], outputs: set[Variable]) -> dict[Variable, int]:
    """The stage in which each result is computed, and from which on each sum is there."""
    level: dict[Variable, int] = {}
    sums = {r.local: r.total for r in reductions}
    free: list[Operator] = []
    for op in operators:
        operands = [v for v in op.operands() if v is not None]
        number = max((level[v] for v in operands if v in level), default=0)
        if number == 0:
            free.append(op)
        for v in op.outputs:
            if v is not None:
                level[v] = number
                if v in sums:
                    level[sums[v]] = number + 1
    readers: dict[Variable, list[Operator]] = {}
    for op in operators:
        for v in op.operands():
            if v is not None:
                readers.setdefault(v, []).append(op)
    for op in reversed(free):
        made = [v for v in op.outputs if v is not None]
        reading = [level[w] for v in made for other in readers.get(v, ()) for w in other.outputs[:1] if w is not None]
        if reading and not any(v in outputs or v in sums for v in made):
            level.update(dict.fromkeys(made, min(reading)))
    return level

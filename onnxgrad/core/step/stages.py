"""A graph that several ranks compute together, in stages: between two of them small values are reduced over all ranks.

What is reduced goes through an Identity that is marked so. One process computes such a graph as it is, as there is nothing to add.

Tests: tests/distributed/test_sharded.py, tests/distributed/test_overlap.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from onnxgrad.core.compile.door import compile
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traverse import needed_operators
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.step.step import AllReduce, Phase, bytes_of_all, phase_of

__all__ = [
    "Reduction",
    "crossing_variables",
    "in_steps",
    "make_stages",
    "sources_in",
    "stage_numbers",
    "sum_over_ranks",
    "with_takes",
]


class Reduction(NamedTuple):
    """A value that one rank computes, and the one that replaces it: the sum over all ranks."""

    local: Variable
    total: Variable


def sum_over_ranks(build: Builder, local: Variable) -> Variable:
    """The sum of a value over all ranks."""
    total: Variable = build.Identity(local if local.op is not None else build.Identity(local))
    assert total.op is not None
    total.op.reduction = "sum"
    return total


def make_stages(graph: Graph, outputs: Sequence[Variable], provider: str | None = None, name: str = "stage") -> list[Phase]:
    """Cut a graph after each value that is reduced: as few stages as the reductions that wait for each other allow.

    Args:
        graph: is not changed.
        outputs: of all stages together; each is one of some stage, or a sum.
        provider: whose forms the graphs take.
        name: of the phases, behind which stands a number.

    Returns:
        Phases in order. What a later one reads of an earlier one is an output of that and an input of this. What depends on no sum
        is computed where it is first read.
    """
    marked = [op for op in graph.operators if op.reduction == "sum"]
    reductions = [Reduction(*op.inputs, *op.outputs) for op in marked]  # type: ignore[arg-type]
    totals = {r.total for r in reductions}
    level = stage_numbers(graph.operators, totals, {*outputs, *(r.local for r in reductions)})
    stages: list[Phase] = []
    for number in range(1 + max((level[r.local] + 1 for r in reductions), default=0)):
        local = [r for r in reductions if level[r.local] == number]
        results = [v for v in outputs if level.get(v, 0) == number and v not in totals] + [r.local for r in local]
        results += [v for v in crossing_variables(graph.operators, level, number) if v not in totals]
        earlier = [v for v, at in level.items() if at < number]
        whole = compile(
            graph.program, list(dict.fromkeys(results)), provider, inputs=earlier, state_as_inputs=True, updates=False, ordered=True
        )
        if whole.outputs:
            sums = tuple(r.total for r in local)
            then = [AllReduce(number, tuple(whole.name(r.local) for r in local), bytes_of_all(sums), sums)] if local else []
            stages.append(with_takes(phase_of(f"{name} {number + 1}", whole, then=then), stages))
    return stages


def sources_in(phase: Phase) -> dict[str, tuple[str, str]]:
    """Map the names under which later phases may take values of a phase to it: outputs, and sums over ranks."""
    sources = {name: (phase.name, name) for name, _ in phase.graph.outputs}
    for each in phase.then:
        if isinstance(each, AllReduce) and each.sums:
            sources.update((total.name, (phase.name, value)) for total, value in zip(each.sums, each.values, strict=True))
    return sources


def with_takes(phase: Phase, before: Sequence[Phase]) -> Phase:
    """A phase with what it takes of earlier ones by name: values, and sums under names of their own."""
    sources: dict[str, tuple[str, str]] = {}
    for earlier in before:
        sources.update(sources_in(earlier))
    takes = {name: sources[name] for name in phase.feeds if name in sources}
    return replace(
        phase, feeds={name: who for name, who in phase.feeds.items() if name not in takes}, takes={**phase.takes, **takes}
    )


def stage_numbers(operators: Sequence[Operator], steps: Collection[Variable], pinned: Collection[Variable]) -> dict[Variable, int]:
    """The stage in which each result is computed: who reads one of ``steps`` belongs to a later stage than it.

    What depends on no step is computed in the stage where it is first read, unless it is ``pinned``.
    """
    level: dict[Variable, int] = {}
    free: list[Operator] = []
    readers: dict[Variable, list[Operator]] = {}
    for op in operators:
        operands = [v for v in op.operands() if v is not None]
        number = max((level[v] + (v in steps) for v in operands if v in level), default=0)
        if number == 0:
            free.append(op)
        level.update(dict.fromkeys((v for v in op.outputs if v is not None), number))
        for v in operands:
            readers.setdefault(v, []).append(op)
    for op in reversed(free):
        outputs = [v for v in op.outputs if v is not None]
        reading = [level[w] for v in outputs for other in readers.get(v, ()) for w in other.outputs[:1] if w is not None]
        if reading and not any(v in pinned or v in steps for v in outputs):
            level.update(dict.fromkeys(outputs, min(reading)))
    return level


def crossing_variables(operators: Sequence[Operator], level: Mapping[Variable, int], number: int) -> list[Variable]:
    """List the variables that the stage of this number computes and a later one reads."""
    variables: dict[Variable, None] = {}
    for op in operators:
        at = next(level[v] for v in op.outputs if v is not None)
        variables.update(dict.fromkeys(v for v in op.operands() if v is not None and level.get(v) == number and at > number))
    return list(variables)


def in_steps(graph: Graph, steps: Sequence[Sequence[Variable]]) -> dict[int, Graph]:
    """Cut a graph that is lowered already so that some outputs are there, and read, before the others are begun.

    Args:
        graph: is not changed.
        steps: outputs that the first graph computes, the second, and so on; no later graph reads them, so they may be written over.

    Returns:
        A graph by the number of the step, and one for what is left; none for a step that earlier ones compute. Inputs of a graph
        are those of the whole, and what earlier graphs give; names are those of the whole graph. There is one graph, of all steps,
        if numbers of 16 bits, which onnxruntime may keep in 32 within a graph, or what is no tensor would cross.
    """
    level: dict[Variable, int] = {}
    for number, wanted in enumerate([*steps, [v for _, v in graph.outputs]]):
        known = set(wanted)
        readers = [op for op in graph.operators if not known.isdisjoint(op.operands())] if number < len(steps) else []
        read = [v for reader in readers for v in reader.outputs if v is not None]
        for op in needed_operators(graph.operators, [*wanted, *read]):
            for v in op.outputs:
                if v is not None:
                    level.setdefault(v, number)
    if not all(_may_cross(v) for number in range(len(steps)) for v in crossing_variables(graph.operators, level, number)):
        return {len(steps): graph}
    outputs = dict.fromkeys(v for _, v in graph.outputs)
    constants = [v for v in graph.initializers if v.persistable]
    graphs = {}
    for number in range(len(steps) + 1):
        results = [v for v in outputs if level.get(v, len(steps)) == number] + crossing_variables(graph.operators, level, number)
        earlier = [v for v, at in level.items() if at < number]
        if results:
            graphs[number] = compile(
                graph.program,
                list(dict.fromkeys(results)),
                state_as_inputs=True,
                updates=False,
                inputs=earlier,
                constants=constants,
                ordered=True,
            )
    return graphs


def _may_cross(v: Variable) -> bool:
    return isinstance(v.type, TensorType) and not (v.is_float and v.dtype.bits < 32)

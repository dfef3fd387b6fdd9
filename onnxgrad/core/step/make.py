"""Make the step of a program for a target: compile its phases. Nothing is opened, and the program is not changed.

Tests: tests/core/step/test_step.py, tests/core/runtime/test_low_memory.py, tests/distributed/test_overlap.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple, Protocol, TypeAlias

from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph_passes.tile_updates import PIECE, is_single
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import ELEMENTWISE
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.step.cut import Cut, is_small
from onnxgrad.core.step.stages import in_steps
from onnxgrad.core.step.step import AllReduce, Phase, Pieces, State, Step, bytes_of_all, phase_of, state_of

__all__ = ["Applying", "ApplyingPhase", "Shapes", "StepTarget", "Travels", "make_applying", "make_step"]

Shapes: TypeAlias = "tuple[tuple[str, tuple[int, ...]], ...]"
"""Names of inputs and their shapes."""

_FEW = COSTS.count("make.most_operators_in_long_pieces")
"""Operators up to which a piece gains little by staying in the cache, and more by costing one run in place of several."""

_LONG = COSTS.count("make.times_as_long")
"""How many times as long as PIECE the pieces of so few operators are."""


class StepTarget(NamedTuple):
    """What a step is made for.

    Attributes:
        provider: whose forms its graphs take; None for plain ones.
        shapes: of inputs that the program leaves open, where the step is for these alone.
        fast: whether forms may round more than the operators they stand for.
        threads: that update large state, each a piece of it at a time.
    """

    provider: str | None
    shapes: Shapes = ()
    fast: bool = False
    threads: int = 1


class Travels(Protocol):
    """What lets ranks exchange gradients, as far as a step depends on it: ``Program.exchange``."""

    reads: Sequence[Variable]
    sends: bool

    def groups(self, gradients: Sequence[Variable]) -> Sequence[Sequence[Variable]]: ...


class ApplyingPhase(NamedTuple):
    """A phase that applies gradients, and what of the program its inputs are: gradients and shared values."""

    phase: Phase
    takes: Mapping[str, Variable]


class Applying(NamedTuple):
    """The phases that apply the gradients of a program, whatever else is computed with these.

    Attributes:
        cut: of the program.
        shared: the phase of what several parts share and of small state; None if there is nothing.
        parts: a phase for each part of the state.
        exchange: what ranks do with gradients before; None where there are no other ranks.
    """

    cut: Cut
    shared: ApplyingPhase | None
    parts: tuple[ApplyingPhase, ...]
    exchange: Travels | None


def make_step(
    program: Program,
    fetches: Sequence[Variable],
    target: StepTarget,
    applying: Applying | None = None,
    turn: Turn = "whole",
) -> Step:
    """The step that computes some values of a program, and replaces its state.

    Args:
        applying: how gradients are applied, if the step is cut there.
        turn: which of the state is replaced, where gradients are added up.
    """
    step = _make_step(program, fetches, target, applying, turn)
    accumulation = program.plan.accumulation
    if turn != "apply" or accumulation is None:
        return step
    return replace(step, phases=tuple(replace(phase, every=accumulation.runs) for phase in step.phases))


def _make_step(program: Program, fetches: Sequence[Variable], target: StepTarget, applying: Applying | None, turn: Turn) -> Step:
    if applying is None:
        name = "apply" if turn == "apply" else "step"
        chunk = PIECE * target.threads if target.provider == "cpu" else 0
        # A program whose training forms are pending gets further state with them.
        updates = True if turn == "whole" else program.plan.updates(program.updates, turn)
        graph = _compiled(program, fetches, target, updates=updates, chunk=chunk)
        return _step([_phase(name, graph)], graph, [(name, graph.name(v)) for v in fetches])
    cut = applying.cut
    graph = _compiled(program, [*fetches, *cut.gradients, *cut.others], target, updates=False)
    computed = {graph.of(v) for v in cut.others}
    graph.updates = {v: new for v, new in graph.updates.items() if new in computed}
    phases = _gradient_phases(graph, applying) if graph.outputs else []
    sources = {name: phase.name for phase in phases for name, _ in phase.graph.outputs}
    fetched = [(sources[graph.name(v)], graph.name(v)) for v in fetches]
    given = {v: (sources[graph.name(v)], graph.name(v)) for v in cut.gradients if graph.name(v) in sources}
    if applying.shared is not None:
        phases.append(_taking(applying.shared, given))
        given |= {v: ("shared", applying.shared.phase.graph.name(v)) for v in cut.shared}
    return _step([*phases, *(_taking(part, given) for part in applying.parts)], graph, fetched)


def _compiled(
    program: Program,
    outputs: Sequence[Variable],
    target: StepTarget,
    *,
    updates: bool | Mapping[Variable, Variable],
    chunk: int = 0,
) -> Graph:
    return compile(
        program,
        outputs,
        target.provider,
        dict(target.shapes),
        state_as_inputs=True,
        updates=updates,
        ordered=True,
        fast=target.fast,
        chunk=chunk,
    )


def _taking(part: ApplyingPhase, given: Mapping[Variable, tuple[str, str]]) -> Phase:
    """A phase that applies gradients, with where they come from; a gradient that is state already comes from nowhere"""
    return replace(part.phase, takes={name: given[v] for name, v in part.takes.items() if v in given})


def _gradient_phases(graph: Graph, applying: Applying) -> list[Phase]:
    """One phase, or several where gradients travel while others are computed; what the exchange reads is in the first."""
    exchange, gradients = applying.exchange, applying.cut.gradients
    if exchange is None:
        return [_phase("gradients", graph, hands=gradients)]
    groups = exchange.groups(gradients)
    stages = {len(groups) - 1: graph}
    if len(groups) > 1:
        first, *others = [[graph.of(v) for v in group] for group in groups[:-1]]
        stages = in_steps(graph, [[*first, *map(graph.of, exchange.reads)], *others])
    if len(stages) < 2:
        return [_phase("gradients", graph, hands=gradients, group=max(len(groups) - 1, 0) if exchange.sends else None)]
    phases: list[Phase] = []
    for group, stage in stages.items():
        known = set(groups[group])
        phase = _phase(f"gradients {len(phases) + 1}", stage, hands=[v for v in gradients if v in known], group=group)
        made = {name: earlier.name for earlier in phases for name, _ in earlier.graph.outputs}
        takes = {name: (made[name], name) for name in phase.feeds if name in made}
        phases.append(replace(phase, feeds={name: who for name, who in phase.feeds.items() if name not in made}, takes=takes))
    return phases


def _phase(name: str, graph: Graph, hands: Sequence[Variable] = (), group: int | None = None) -> Phase:
    """A phase whose gradients ranks add up, if it has a group"""
    phase = phase_of(name, graph, hands, part=PART)
    if group is None:
        return phase
    size = bytes_of_all(v for v in hands if graph.name(v) in phase.hands)
    return replace(phase, then=(AllReduce(group, phase.hands, size),))


def _step(phases: Sequence[Phase], graph: Graph, fetches: Sequence[tuple[str, str]]) -> Step:
    written = {name for phase in phases for name in phase.writes}
    state: dict[str, State] = {}
    for phase in phases:
        for v in phase.graph.inputs:
            if v.persistable:
                state[v.name] = state_of(v, v.name in written)
    return Step(tuple(phases), tuple(fetches), state, graph)


# Applying gradients ----------------------------------------------------------------------------------------------------


def make_applying(program: Program, cut: Cut, target: StepTarget, turn: Turn = "whole") -> Applying:
    """The phases that apply the gradients of a cut, which all steps of the program share."""
    first = [*cut.shared, *cut.small]
    shared = None
    if first:
        small = set(cut.small)
        updates = {v: new for v, new in cut.updates.items() if new in small}
        graph = compile(program, first, target.provider, given=cut.gradients, state_as_inputs=True, updates=updates, ordered=True)
        names = {graph.name(v): v for v in cut.gradients}
        phase = _phase("shared", graph, hands=cut.shared)
        shared = ApplyingPhase(replace(phase, feeds={}), {name: names[name] for name in phase.feeds})
    parts = tuple(_part(program, cut, number, states, target) for number, states in enumerate(cut.parts, 1))
    return Applying(cut, shared, parts, program.plan.exchange_of(turn))


def _part(program: Program, cut: Cut, number: int, states: Sequence[Variable], target: StepTarget) -> ApplyingPhase:
    outputs, given = [cut.updates[v] for v in states], [*cut.gradients, *cut.shared]
    graph = compile(program, outputs, given=given, state_as_inputs=True, updates=False, ordered=True)
    size = _size_of_pieces(graph)
    if size is None:
        graph = compile(program, outputs, target.provider, given=given, state_as_inputs=True, updates=False, ordered=True)
    names = {graph.name(v): v for v in given}
    length = PIECE * (1 if len(graph.operators) > _FEW else _LONG)
    phase = Phase(
        f"apply {number}",
        graph,
        reads=tuple(v.name for v in graph.inputs if v.persistable),
        writes={v.name: graph.name(cut.updates[v]) for v in states},
        runs="once" if size is None else Pieces(size, length),
    )
    return ApplyingPhase(phase, {v.name: names[v.name] for v in graph.inputs if not v.persistable})


def _size_of_pieces(graph: Graph) -> int | None:
    """Elements of the large tensors of a graph, if each element of its results depends on the same one of its operands alone."""
    shapes = {v.static_shape for v in graph.inputs if not is_small(v)} | {v.static_shape for _, v in graph.outputs}
    shape = shapes.pop()
    if shapes or shape is None:
        return None

    def fits(v: Variable | None) -> bool:
        return v is None or v.static_shape == shape or is_single(v)

    for op in graph.operators:
        if op.domain not in ("", "ai.onnx") or op.type not in ELEMENTWISE or not all(map(fits, [*op.operands(), *op.outputs])):
            return None
    made = {v for op in graph.operators for v in op.outputs}
    return prod(shape) if all(v in made for _, v in graph.outputs) else None

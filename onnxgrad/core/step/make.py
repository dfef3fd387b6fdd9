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
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.graph.rewriting import name_results, return_instead, stage_builder
from onnxgrad.core.graph_passes.scaled_sums import SCALED_SUMS
from onnxgrad.core.graph_passes.tile_updates import PIECE as ROW
from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.step.cut import Cut, cut_exchanged
from onnxgrad.core.step.gather import ROWS
from onnxgrad.core.step.shards import Shards, size_of_pieces, sums_over_shares
from onnxgrad.core.step.stages import in_steps, make_stages, sources_in
from onnxgrad.core.step.step import (
    AllGather,
    AllReduce,
    Feed,
    Owner,
    Phase,
    Pieces,
    ReduceScatter,
    Step,
    StepState,
    Then,
    bytes_of_all,
    phase_of,
    state_of,
)
from onnxgrad.core.step.synchronise import COUNTS, Synchronised, synchronised_graph
from onnxgrad.errors import ArgumentError

__all__ = [
    "Applying",
    "ApplyingPhase",
    "Shapes",
    "StepTarget",
    "Travels",
    "applied_phases",
    "is_in_stages",
    "make_applying",
    "make_exchanged",
    "make_step",
    "share_out",
    "step_of",
]

Shapes: TypeAlias = "tuple[tuple[str, tuple[int, ...]], ...]"
"""Names of inputs and their shapes."""

PIECE = COSTS.count("make.piece")
"""Elements of a state that a thread updates at a time in a session for pieces."""

_FEW = COSTS.count("make.most_operators_in_long_pieces")
"""Operators up to which a piece gains little by staying in the cache, and more by costing one run in place of several."""

_LONG = COSTS.count("make.times_as_long")
"""How many times as long as PIECE the pieces of so few operators are."""


class StepTarget(NamedTuple):
    """The target of a step.

    Attributes:
        provider: whose forms its graphs take; None for plain ones.
        shapes: of inputs that the program leaves open, where the step is for these alone.
        fast: whether forms may round more than the operators they stand for.
        threads: that update large state, each a piece of it at a time.
        constants: weights that its session holds, as no run replaces them.
    """

    provider: str | None
    shapes: Shapes = ()
    fast: bool = False
    threads: int = 1
    constants: tuple[Variable, ...] = ()


class Travels(Protocol):
    """The exchange of gradients between ranks, as far as a step depends on it: ``Program.exchange``.

    Attributes:
        reads: what it needs of each run besides gradients: the loss and its weight.
        sends: whether gradients of ranks are put together in each run.
        synchronises: how losses of parts add up where statistics of batches are to be those of all ranks together; None where each
            rank normalises by its own.
        sharding: 0 where all ranks hold all state, else each holds a share of the optimizer's.
    """

    @property
    def reads(self) -> Sequence[Variable]: ...

    sends: bool
    synchronises: Synchronised | None
    sharding: int

    def groups(self, gradients: Sequence[Variable]) -> Sequence[Sequence[Variable]]:
        """Group the gradients that are exchanged while later ones are computed; the last group, of the rest, follows the run.

        Fewer than two groups to compute everything in one session."""

    def share_out(self, program: Program, cut: Cut) -> Shards | None:
        """Assign state to the ranks that update it, called before gradients have slots; None where every rank updates all."""


class ApplyingPhase(NamedTuple):
    """A phase that applies gradients, and what of the program its inputs are: gradients and shared values."""

    phase: Phase
    takes: Mapping[str, Variable]


class Applying(NamedTuple):
    """The phases that apply the gradients of a program, whatever else is computed with these.

    Attributes:
        cut: of the program.
        shared: what several parts share and small state, as a graph; None if there is nothing.
        first: the phases that compute it: one, or where ranks add values up on the way several.
        parts: a phase for each part of the state that this rank updates.
        exchange: what ranks do with gradients before; None where there are no other ranks.
        shards: who updates what; None where each rank updates all.
    """

    cut: Cut
    shared: Graph | None
    first: tuple[ApplyingPhase, ...]
    parts: tuple[ApplyingPhase, ...]
    exchange: Travels | None
    shards: Shards | None

    @property
    def first_values(self) -> list[Variable]:
        """The small values that are computed before all parts."""
        return _first_values(self.cut, self.shards)

    def state(self) -> list[str]:
        """Names of the state that is read or replaced."""
        phases = [one.phase for one in (*self.first, *self.parts)]
        return list(dict.fromkeys(name for phase in phases for name in (*phase.reads, *phase.writes)))


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
        chunk = ROW * target.threads if target.provider == "cpu" else 0
        # A program whose training forms are pending gets further state with them.
        updates = True if turn == "whole" else program.plan.updates(program.updates, turn)
        graph = _compiled(program, fetches, target, updates=updates, chunk=chunk)
        return step_of([_phase(name, graph)], graph, [(name, graph.name(v)) for v in fetches])
    cut = applying.cut
    gradients = cut.computed
    by_range = {} if applying.shards is None else applying.shards.gradients
    if lost := [v for v in fetches if v in by_range]:
        raise ArgumentError(f"each rank gets its range of {lost[0].name} alone, so it cannot be fetched. Fetch it with sharding=0.")
    synchronised = None if applying.exchange is None else applying.exchange.synchronises
    is_staged = applying.exchange is not None and is_in_stages(program, synchronised)
    outputs = [*fetches, *gradients, *cut.others]
    if synchronised is not None:
        graph = synchronised_graph(program, outputs, gradients, synchronised)
    elif is_staged:
        graph = compile(program, outputs, state_as_inputs=True, updates=False)
    else:
        graph = _compiled(program, outputs, target, updates=False)
    computed = {graph.of(v) for v in cut.others}
    graph.updates = {v: new for v, new in graph.updates.items() if new in computed}
    phases: list[Phase] = []
    if graph.outputs and not is_staged:
        phases = _gradient_phases(graph, applying)
    elif graph.outputs:
        phases = _staged_phases(graph, applying, target)
    sources = {name: phase.name for phase in phases for name, _ in phase.graph.outputs}
    fetched = [(sources[graph.name(v)], graph.name(v)) for v in fetches]
    producers = {v: (sources[graph.name(v)], graph.name(v)) for v in gradients if graph.name(v) in sources}
    phases += applied_phases(applying, producers)
    return step_of(phases, graph, fetched, applying.shards)


def applied_phases(applying: Applying, producers: Mapping[Variable, tuple[str, str]]) -> list[Phase]:
    """The phases that apply gradients, the last with what ranks give each other.

    Args:
        producers: the phase and output of each gradient; those that are not there come by an exchange.
    """
    known = dict(producers)
    phases: list[Phase] = []
    for one in applying.first:
        phase = _taking(one, known)
        phases.append(phase)
        assert applying.shared is not None
        handed = sources_in(phase)
        known |= {v: handed[name] for v in applying.first_values if (name := applying.shared.name(v)) in handed}
    phases += [_taking(part, known) for part in applying.parts]
    if applying.shards is not None and phases:
        phases[-1] = replace(phases[-1], then=(*phases[-1].then, *_gathers(applying.shards)))
    return phases


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
        constants=target.constants,
        ordered=True,
        fast=target.fast,
        chunk=chunk,
        checks_labels=True,
    )


def _taking(part: ApplyingPhase, producers: Mapping[Variable, tuple[str, str]]) -> Phase:
    """A phase that applies gradients, with where they come from"""
    takes = {name: producers[v] for name, v in part.takes.items() if v in producers}
    feeds: dict[str, Feed] = {name: "exchange" for name, v in part.takes.items() if v not in producers}
    return replace(part.phase, feeds=feeds, takes={**part.phase.takes, **takes})


def _gradient_phases(graph: Graph, applying: Applying) -> list[Phase]:
    """One phase, or several where gradients travel while others are computed; what the exchange reads is in the first."""
    exchange, gradients = applying.exchange, applying.cut.computed
    if exchange is None:
        return [_phase("gradients", graph, hands=gradients)]
    groups = exchange.groups(gradients)
    stages = {len(groups) - 1: graph}
    if len(groups) > 1:
        first, *others = [[graph.of(v) for v in group] for group in groups[:-1]]
        stages = in_steps(graph, [[*first, *map(graph.of, exchange.reads)], *others])
    if len(stages) < 2:
        group = max(len(groups) - 1, 0) if exchange.sends else None
        return [_phase("gradients", graph, gradients, group, applying.shards)]
    phases: list[Phase] = []
    for group, stage in stages.items():
        known = set(groups[group])
        name, handed = f"gradients {len(phases) + 1}", [v for v in gradients if v in known]
        phase = _phase(name, stage, handed, group, applying.shards)
        producers = {name: earlier.name for earlier in phases for name, _ in earlier.graph.outputs}
        takes = {name: (producers[name], name) for name in phase.feeds if name in producers}
        phases.append(replace(phase, feeds={name: who for name, who in phase.feeds.items() if name not in producers}, takes=takes))
    return phases


def _writing(phase: Phase, graph: Graph) -> Phase:
    """One of the phases that compute a graph, with the state that it replaces"""
    producers = sources_in(phase)
    return replace(phase, writes={v.name: producers[new.name][1] for v, new in graph.updates.items() if new.name in producers})


def is_in_stages(program: Program, synchronised: Synchronised | None) -> bool:
    """Whether ranks add up statistics, or gather examples, within the passes of a program."""
    return synchronised is not None or any(op.reduction == "sum" for op in program.global_block().ops)


def _staged_phases(graph: Graph, applying: Applying, target: StepTarget) -> list[Phase]:
    """A phase after each sum over ranks that others wait for: statistics, gathered rows; gradients travel when all are there."""
    exchange, gradients = applying.exchange, applying.cut.computed
    assert exchange is not None
    phases = make_stages(graph, [v for _, v in graph.outputs], target.provider, "gradients")
    names = {graph.name(v) for v in gradients}
    for number, phase in enumerate(phases):
        feeds: dict[str, Feed] = {name: "exchange" if name in (PART, COUNTS, ROWS) else who for name, who in phase.feeds.items()}
        hands = tuple(name for name, _ in phase.graph.outputs if name in names)
        phases[number] = _writing(replace(phase, feeds=feeds, hands=hands), graph)
    if gradients and exchange.sends:
        reduced = _put_together(graph, len(phases), gradients, applying.shards)
        phases[-1] = replace(phases[-1], then=(*phases[-1].then, *reduced))
    return phases


def _gathers(shards: Shards) -> list[AllGather]:
    """The gathering of the state that all ranks hold, and each has updated its share of"""
    held = set(shards.held())
    states = [v for v in shards.states if v not in held]
    return [AllGather(tuple(v.name for v in states), bytes_of_all(states))] if states else []


def _phase(
    name: str, graph: Graph, hands: Sequence[Variable] = (), group: int | None = None, shards: Shards | None = None
) -> Phase:
    """A phase whose gradients ranks add up, if it has a group"""
    phase = phase_of(name, graph, hands, part_inputs=[PART])
    if group is None:
        return phase
    handed = [v for v in hands if graph.name(v) in phase.hands]
    return replace(phase, then=_put_together(graph, group, handed, shards))


def _put_together(graph: Graph, group: int, gradients: Sequence[Variable], shards: Shards | None) -> tuple[Then, ...]:
    """The collectives on the gradients of a group: ranks add them up, each for all ranks or its range of them"""
    by_range = {} if shards is None else shards.gradients
    together = [v for v in gradients if v not in by_range]
    collectives: list[Then] = [AllReduce(group, tuple(graph.name(v) for v in together), bytes_of_all(together))]
    if scattered := [v for v in gradients if v in by_range]:
        collectives.append(ReduceScatter(tuple(graph.name(v) for v in scattered), bytes_of_all(scattered)))
    return tuple(collectives)


def step_of(
    phases: Sequence[Phase],
    graph: Graph,
    fetches: Sequence[tuple[str, str]],
    shards: Shards | None = None,
    ahead: int = 0,
) -> Step:
    """A step of phases, with the state that they read, and whose it is.

    Args:
        graph: of the phases before gradients are applied, as one.
        fetches: the phase and output of each.
        shards: which state lies on one rank alone.
        ahead: see ``Step``.
    """
    held = {} if shards is None else {v.name: v for v in shards.held()}
    written = {name for phase in phases for name in phase.writes}
    state: dict[str, StepState] = {}
    for phase in phases:
        for v in phase.graph.inputs:
            if v.persistable:
                state[v.name] = state_of(v, v.name in written)
                if shards is not None and v.name in held:
                    first, last = shards.own(held[v.name])
                    owner: Owner = shards.states[held[v.name]][0].rank if shards.apart else "ranges"
                    size = bytes_needed(v.dtype, (last - first,))
                    state[v.name] = state[v.name]._replace(owner=owner, bytes=state[v.name].bytes if shards.apart else size)
    return Step(tuple(phases), tuple(fetches), state, graph, ahead)


# Applying gradients ----------------------------------------------------------------------------------------------------


def make_exchanged(program: Program, turn: Turn, target: StepTarget, exchange: Travels) -> Applying:
    """The phases that apply the gradients of a program, or the sums of them, when ranks have exchanged them.

    Raises:
        ArgumentError: if the program has no optimizer, or one that reads what is fed.
    """
    return make_applying(program, cut_exchanged(program, turn), target, exchange)


def share_out(program: Program, turn: Turn, exchange: Travels) -> Shards | None:
    """Let an exchange find out which state each rank updates, before the step of a program is made."""
    return exchange.share_out(program, cut_exchanged(program, turn))


def make_applying(program: Program, cut: Cut, target: StepTarget, exchange: Travels | None = None) -> Applying:
    """The phases that apply the gradients of a cut, which all steps of the program share.

    Args:
        exchange: what ranks do with the gradients before.
    """
    shards = None if exchange is None else exchange.share_out(program, cut)
    shared, first = _make_shared(program, cut, target, shards)
    own = [states for states in cut.parts if shards is None or states[0] not in shards.states or shards.own(states[0]) != (0, 0)]
    if target.provider != "cpu":
        # Elsewhere nothing is replaced in place, so that one graph takes the least time, and one for ranges.
        ranges = set() if shards is None or shards.apart else set(shards.states)
        groups = [[v for states in own if (states[0] in ranges) is by_range for v in states] for by_range in (True, False)]
        own = [states for states in groups if states]
    parts = [_part(program, cut, number, states, target, shards) for number, states in enumerate(own, 1)]
    return Applying(cut, shared, tuple(first), tuple(parts), exchange, shards)


def _make_shared(program: Program, cut: Cut, target: StepTarget, shards: Shards | None) -> tuple[Graph | None, list[ApplyingPhase]]:
    """Compile the values that several parts share, and small state, into a graph; return it and the phases that compute it"""
    shared = _first_values(cut, shards)
    outputs, small = [*shared, *cut.small], set(cut.small)
    if not outputs:
        return None, []
    updates = {v: new for v, new in cut.updates.items() if new in small}
    # Of what a rank has its share of, norms are added up with those of the others.
    is_partial = shards is not None
    graph = compile(
        program,
        outputs,
        None if is_partial else target.provider,
        inputs=cut.gradients,
        state_as_inputs=True,
        updates=updates,
        ordered=not is_partial,
    )
    if is_partial:
        assert shards is not None
        _take_ranges(graph, shards, target)
        phases = make_stages(graph, [v for _, v in graph.outputs], target.provider, "shared")
    else:
        phases = [_phase("shared", graph)]
    names = {graph.name(v): v for v in cut.computed}
    handed = {graph.name(v) for v in shared}
    parts: list[ApplyingPhase] = []
    for phase in phases:
        takes = {name: names[name] for name in phase.feeds if name in names}
        hands = tuple(name for name, _ in phase.graph.outputs if name in handed)
        parts.append(ApplyingPhase(_writing(replace(phase, feeds={}, hands=hands), graph), takes))
    return graph, parts


def _take_ranges(graph: Graph, shards: Shards, target: StepTarget) -> None:
    """Let a graph compute with the ranges that this rank has of gradients and state"""
    inputs, held = set(graph.inputs), set(shards.held())
    read = [v for v in [*shards.gradients, *shards.states] if graph.of(v) in inputs]
    # A rank that has all of a state has it in its own shape. On the CPU gradients are given as ranges, elsewhere whole.
    is_given_whole = [v for v in read if v.persistable or (target.provider != "cpu" and not shards.apart)]
    whole = [graph.of(v) for v in is_given_whole if v not in held or _is_all(shards, v)]
    run_passes(graph, [sums_over_shares({graph.of(v): shards.own(v) for v in read}, whole)], Target())


def _is_all(shards: Shards, v: Variable) -> bool:
    """Whether this rank has all of a state or gradient"""
    return shards.own(v) == (0, prod(v.static_shape or ()))


def _first_values(cut: Cut, shards: Shards | None) -> list[Variable]:
    """The small values that are computed before all parts"""
    return [*cut.shared, *(() if shards is None else shards.norms)]


def _part(
    program: Program, cut: Cut, number: int, states: Sequence[Variable], target: StepTarget, shards: Shards | None
) -> ApplyingPhase:
    outputs, inputs = [cut.updates[v] for v in states], [*cut.gradients, *_first_values(cut, shards)]
    updates = {v: cut.updates[v] for v in states}
    size, operators = None, 0
    if target.provider == "cpu":
        graph = compile(program, outputs, inputs=inputs, state_as_inputs=True, updates=updates, ordered=True)
        size, operators = size_of_pieces(graph), len(graph.operators)
        assert size is not None or shards is None or shards.apart or states[0] not in shards.states, "ranges are updated in pieces"
        if size is not None:
            run_passes(graph, [SCALED_SUMS], Target())
    if size is None:
        graph = compile(program, outputs, target.provider, inputs=inputs, state_as_inputs=True, updates=updates, ordered=True)
    if target.provider != "cpu" and shards is not None and not shards.apart and states[0] in shards.states:
        graph, size = _part_of_ranges(program, cut, states, inputs, target, shards), None
    names = {graph.name(v): v for v in inputs}
    length = PIECE * (1 if operators > _FEW else _LONG)
    phase = Phase(
        f"apply {number}",
        graph,
        reads=tuple(v.name for v in graph.inputs if v.persistable),
        writes={v.name: graph.name(cut.updates[v]) for v in states},
        runs="once" if size is None else _pieces(size, length, states, shards),
    )
    return ApplyingPhase(phase, {v.name: names[v.name] for v in graph.inputs if not v.persistable})


def _part_of_ranges(
    program: Program, cut: Cut, states: Sequence[Variable], inputs: Sequence[Variable], target: StepTarget, shards: Shards
) -> Graph:
    """The graph that gives new values of this rank's ranges as rows; those of weights, which all hold, are no updates of it."""
    held = set(shards.held())
    outputs = [cut.updates[v] for v in states]
    graph = compile(program, outputs, inputs=inputs, state_as_inputs=True, updates=False, ordered=True)
    graph.updates = {graph.of(v): graph.of(cut.updates[v]) for v in states if v in held}
    _take_ranges(graph, shards, target)
    for v in states:
        if v in held and _is_all(shards, v) and len(v.static_shape or ()) != 1:
            build, row = stage_builder(graph, None, key="share"), graph.of(cut.updates[v])
            whole = build.Reshape(row, list(v.static_shape or ()))
            name_results(graph, build.stage or [], build.key)
            return_instead(graph, row, whole)
            graph.operators = [*graph.operators, *(build.stage or [])]
    graph.settle()
    graph.take_constants()
    return graph


def _pieces(size: int, length: int, states: Sequence[Variable], shards: Shards | None) -> Pieces:
    """The pieces of what this rank updates of some states"""
    start, stop = (0, size) if shards is None or states[0] not in shards.states else shards.own(states[0])
    return Pieces(stop - start, length, start)

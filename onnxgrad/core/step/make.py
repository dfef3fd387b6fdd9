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
from onnxgrad.core.graph_passes.scaled_sums import SCALED_SUMS, is_single
from onnxgrad.core.graph_passes.tile_updates import PIECE as ROW
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import ELEMENTWISE
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.step.cut import Cut, cut_exchanged, is_small
from onnxgrad.core.step.gather import ROWS
from onnxgrad.core.step.shards import Shards, sums_over_ranks
from onnxgrad.core.step.stages import in_steps, make_stages, sources_in
from onnxgrad.core.step.step import (
    AllReduce,
    Broadcast,
    Feed,
    Phase,
    Pieces,
    Reduce,
    Step,
    StepState,
    Then,
    bytes_of_all,
    phase_of,
    state_of,
)
from onnxgrad.core.step.synchronise import COUNTS, Synchronised, synchronised_graph

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
        rank: of this process.
        reads: what it needs of each run besides gradients: the loss and its weight.
        sends: whether gradients of ranks are put together in each run.
        synchronises: how losses of parts add up where statistics of batches are to be those of all ranks together; None where each
            rank normalises by its own.
        sharding: 0 where all ranks hold all state, 1 where each holds a shard of the optimizer's, 2 where it is given the
            gradients of its shard alone, too.
    """

    rank: int

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
        known |= {v: handed[name] for v in applying.cut.shared if (name := applying.shared.name(v)) in handed}
    phases += [_taking(part, known) for part in applying.parts]
    if applying.shards is not None and phases:
        phases[-1] = replace(phases[-1], then=(*phases[-1].then, *_broadcasts(applying.shards)))
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
        return [_phase("gradients", graph, gradients, group, _owning(applying))]
    phases: list[Phase] = []
    for group, stage in stages.items():
        known = set(groups[group])
        name, handed = f"gradients {len(phases) + 1}", [v for v in gradients if v in known]
        phase = _phase(name, stage, handed, group, _owning(applying))
        producers = {name: earlier.name for earlier in phases for name, _ in earlier.graph.outputs}
        takes = {name: (producers[name], name) for name in phase.feeds if name in producers}
        phases.append(replace(phase, feeds={name: who for name, who in phase.feeds.items() if name not in producers}, takes=takes))
    return phases


def _writing(phase: Phase, graph: Graph) -> Phase:
    """One of the phases that compute a graph, with the state that it replaces"""
    producers = sources_in(phase)
    return replace(phase, writes={v.name: producers[new.name][1] for v, new in graph.updates.items() if new.name in producers})


def _owning(applying: Applying) -> Shards | None:
    """The shards whose owners alone read their gradients; None where all ranks do"""
    exchange = applying.exchange
    return applying.shards if exchange is not None and exchange.sharding == 2 else None


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
        reduced = _put_together(graph, len(phases), gradients, _owning(applying))
        phases[-1] = replace(phases[-1], then=(*phases[-1].then, *reduced))
    return phases


def _broadcasts(shards: Shards) -> list[Broadcast]:
    """The broadcasts by which each rank gives the others the state that it has updated"""
    by_rank = [(rank, shards.spread(rank)) for rank in range(len(shards.owned))]
    return [Broadcast(tuple(v.name for v in states), rank, bytes_of_all(states)) for rank, states in by_rank if states]


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
    """The collectives on the gradients of a group: ranks add them up, each for all ranks or for the one that reads it alone"""
    owners = {} if shards is None else shards.owners
    together = [v for v in gradients if v not in owners]
    collectives: list[Then] = [AllReduce(group, tuple(graph.name(v) for v in together), bytes_of_all(together))]
    for root in sorted({owners[v] for v in gradients if v in owners}):
        own = [v for v in gradients if owners.get(v) == root]
        collectives.append(Reduce(tuple(graph.name(v) for v in own), root, bytes_of_all(own)))
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
    owners: dict[str, int] = {}
    for rank in range(0 if shards is None else len(shards.owned)):
        assert shards is not None
        owners.update((v.name, rank) for v in shards.held(rank))
    written = {name for phase in phases for name in phase.writes}
    state: dict[str, StepState] = {}
    for phase in phases:
        for v in phase.graph.inputs:
            if v.persistable:
                state[v.name] = state_of(v, v.name in written, owners.get(v.name, "all"))
    return Step(tuple(phases), tuple(fetches), state, graph, ahead)


# Applying gradients ----------------------------------------------------------------------------------------------------


def make_exchanged(program: Program, turn: Turn, target: StepTarget, exchange: Travels) -> Applying:
    """The phases that apply the gradients of a program, or the sums of them, when ranks have exchanged them.

    Raises:
        ArgumentError: if the program has no optimizer, or one that reads what is fed.
    """
    return make_applying(program, cut_exchanged(program, turn), target, exchange)


def make_applying(program: Program, cut: Cut, target: StepTarget, exchange: Travels | None = None) -> Applying:
    """The phases that apply the gradients of a cut, which all steps of the program share.

    Args:
        exchange: what ranks do with the gradients before.
    """
    shards = None if exchange is None else exchange.share_out(program, cut)
    shared, first = _make_shared(program, cut, target, exchange, shards)
    mine = None if exchange is None or shards is None else set(shards.owned[exchange.rank])
    own = [states for states in cut.parts if mine is None or states[0] in mine]
    if target.provider != "cpu" and own:
        # Elsewhere nothing is replaced in place, so that one graph takes the least time.
        own = [[v for states in own for v in states]]
    parts = [_part(program, cut, number, states, target) for number, states in enumerate(own, 1)]
    return Applying(cut, shared, tuple(first), tuple(parts), exchange, shards)


def _make_shared(
    program: Program, cut: Cut, target: StepTarget, exchange: Travels | None, shards: Shards | None
) -> tuple[Graph | None, list[ApplyingPhase]]:
    """Compile the values that several parts share, and small state, into a graph; return it and the phases that compute it"""
    outputs, small = [*cut.shared, *cut.small], set(cut.small)
    if not outputs:
        return None, []
    updates = {v: new for v, new in cut.updates.items() if new in small}
    # A rank that is given the gradients of its shard alone adds up with others what depends on those of several.
    is_partial = exchange is not None and exchange.sharding == 2
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
        assert exchange is not None and shards is not None
        owners = {graph.of(v): owner for v, owner in shards.owners.items()}
        run_passes(graph, [sums_over_ranks(owners, exchange.rank)], Target())
        phases = make_stages(graph, [v for _, v in graph.outputs], target.provider, "shared")
    else:
        phases = [_phase("shared", graph)]
    names = {graph.name(v): v for v in cut.computed}
    handed = {graph.name(v) for v in cut.shared}
    parts: list[ApplyingPhase] = []
    for phase in phases:
        takes = {name: names[name] for name in phase.feeds if name in names}
        hands = tuple(name for name, _ in phase.graph.outputs if name in handed)
        parts.append(ApplyingPhase(_writing(replace(phase, feeds={}, hands=hands), graph), takes))
    return graph, parts


def _part(program: Program, cut: Cut, number: int, states: Sequence[Variable], target: StepTarget) -> ApplyingPhase:
    outputs, inputs = [cut.updates[v] for v in states], [*cut.gradients, *cut.shared]
    updates = {v: cut.updates[v] for v in states}
    size, operators = None, 0
    if target.provider == "cpu":
        graph = compile(program, outputs, inputs=inputs, state_as_inputs=True, updates=updates, ordered=True)
        size, operators = _size_of_pieces(graph), len(graph.operators)
        if size is not None:
            run_passes(graph, [SCALED_SUMS], Target())
    if size is None:
        graph = compile(program, outputs, target.provider, inputs=inputs, state_as_inputs=True, updates=updates, ordered=True)
    names = {graph.name(v): v for v in inputs}
    length = PIECE * (1 if operators > _FEW else _LONG)
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
    produced = {v for op in graph.operators for v in op.outputs}
    return prod(shape) if all(v in produced for _, v in graph.outputs) else None

"""A training step as a value: the phases that one rank runs in order, what flows between them, and whose the state is.

A plain step is one phase. Where gradients are applied in parts, or exchanged by ranks, one phase computes gradients (or several, so
that the first travel while the last are computed), one what several parts share, and one each part of the state. ``make_step``
(``core/step/make.py``) makes a step of a program, ``core/runtime/session_cache.py`` opens its sessions, and an Executor runs it.

Tests: tests/core/step/test_step.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.ir.types import Dims
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentTypeError

__all__ = [
    "AllGather",
    "AllReduce",
    "Feed",
    "Owner",
    "Phase",
    "Pieces",
    "ReduceScatter",
    "Send",
    "Step",
    "StepState",
    "Then",
    "phase_of",
    "state_of",
]

Feed: TypeAlias = Literal["caller", "exchange", "stage before", "stage after"]
"""Who gives an input: the caller of a run; what lets ranks exchange (which part is fed, how the loss weighs); another stage of a
pipeline. Learning rates are state."""


class Pieces(NamedTuple):
    """How a phase over large tensors is run: a piece of each at a time.

    Attributes:
        size: elements of the tensors that this rank updates.
        length: of a piece.
        first: how many elements of the whole tensors lie before these, which other ranks update.
    """

    size: int
    length: int
    first: int = 0

    @property
    def number(self) -> int:
        """How many pieces there are."""
        return -(-self.size // self.length)


class AllReduce(NamedTuple):
    """A sum over ranks when a phase has ended; awaited by the first phase that takes it.

    Attributes:
        group: its number; groups travel in order, the last when all gradients are there.
        values: outputs of the phase, and of those before it.
        bytes: of all of them; None where a size is not known.
        sums: what later phases take in place of the values, in their order; empty where the sums are put where the values were.
    """

    group: int
    values: tuple[str, ...]
    bytes: int | None
    sums: tuple[Variable, ...] = ()


class ReduceScatter(NamedTuple):
    """A sum over ranks when a phase has ended, of which each rank gets its range of the elements.

    Attributes:
        values: outputs of the phase, and of those before it.
        bytes: of all of them; None where a size is not known.
    """

    values: tuple[str, ...]
    bytes: int | None


class AllGather(NamedTuple):
    """State of which each rank has replaced its range of the elements, and gives it to the others when a phase has ended.

    Attributes:
        values: names of the state.
        bytes: of all of them; None where a size is not known.
    """

    values: tuple[str, ...]
    bytes: int | None


class Send(NamedTuple):
    """A value that a stage of a pipeline sends to another when a phase has ended.

    Attributes:
        values: outputs of the phase, or what it took.
        to: the stage.
        bytes: of all of them; None where a size is not known.
    """

    values: tuple[str, ...]
    to: int
    bytes: int | None


Then: TypeAlias = AllReduce | ReduceScatter | AllGather | Send
"""What ranks do when a phase has ended."""

Owner: TypeAlias = 'Literal["all", "ranges"] | int'
"""Whose state is: of all ranks alike, of each a range, or of one."""


class StepState(NamedTuple):
    """A value that lives between runs.

    Attributes:
        shape: None where the rank is not known.
        dtype: by name.
        owner: whose it is.
        bytes: None where a size is not known.
        is_replaced: whether the step gives it a new value.
    """

    shape: Dims | None
    dtype: str
    owner: Owner
    bytes: int | None
    is_replaced: bool


@dataclass(frozen=True)
class Phase:
    """One graph of a step, run by one session.

    Attributes:
        name: unique in its step.
        graph: what is computed, in the forms of its provider.
        feeds: inputs, and who gives them.
        reads: names of the state that it reads.
        writes: the state that it replaces, and the outputs that are the new values: by a swap when it ends, or where it runs in
            pieces, in place.
        takes: inputs, and the phase and output that they are.
        hands: outputs for later phases.
        runs: once, for each micro-batch, or a piece of its tensors at a time.
        then: what ranks do when it ends.
        every: in which steps it runs: 1 for each, 4 for every fourth.
        holds: names of frozen weights that are constants of its session.
    """

    name: str
    graph: Graph
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    writes: Mapping[str, str] = field(default_factory=dict)
    takes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    hands: tuple[str, ...] = ()
    runs: Literal["once", "per micro-batch"] | Pieces = "once"
    then: tuple[Then, ...] = ()
    every: int = 1
    holds: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = len(self.graph.operators)
        runs = ""
        if isinstance(self.runs, Pieces):
            runs = f" in {_counted(self.runs.number, 'piece')} of {self.runs.length:,} elements"
        elif self.runs != "once":
            runs = f" {self.runs}"
        if self.every > 1:
            runs += f", once in {self.every} steps"
        lines = [f"{self.name}: {_counted(count, 'operator')}{runs}"]
        feeds = [name if who == "caller" else f"{name} ({who})" for name, who in self.feeds.items()]
        for label, names in (
            ("feeds", feeds),
            ("reads", self.reads),
            ("holds", self.holds),
            ("writes", list(self.writes)),
            ("hands", self.hands),
        ):
            if names:
                lines.append(f"    {label} {_listed(names)}")
        for phase in dict.fromkeys(phase for phase, _ in self.takes.values()):
            lines.append(f"    takes {_listed([name for name, source in self.takes.items() if source[0] == phase])} of {phase}")
        for each in self.then:
            values = f"{_counted(len(each.values), 'value')}, {_bytes(each.bytes)}"
            lines.append(f"    then {_verb_of(each)} {values}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Step:
    """The phases that one rank runs.

    Attributes:
        phases: in the order in which they run.
        fetches: the phase and output of each.
        state: by name.
        graph: of the phases before gradients are applied, as one.
        ahead: in a pipeline, how many micro-batches go forward before the first goes back.
    """

    phases: tuple[Phase, ...]
    fetches: tuple[tuple[str, str], ...]
    state: Mapping[str, StepState]
    graph: Graph
    ahead: int = 0

    def __copy__(self) -> Step:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Step:
        """Itself, as nothing changes it."""
        return self

    def __reduce__(self) -> Any:
        raise ArgumentTypeError("a Step is not pickled: it belongs to open sessions. Keep str(step), or save_training_step.")

    def order(self, micro_batches: int = 1) -> list[tuple[str, int]]:
        """The phases in the order in which they run, and for which micro-batch: in a pipeline one forward, one backward.

        Args:
            micro_batches: of a run. What runs once does so for the first.
        """
        inner = [phase.name for phase in self.phases if phase.runs == "per micro-batch"]
        names = [phase.name for phase in self.phases]
        begins = names.index(inner[0]) if inner else 0
        *forward, backward = inner if len(inner) > 1 else [*inner, ""]
        ahead = min(self.ahead, micro_batches)
        steps = [(name, 0) for name in names[:begins]]
        for number in range(micro_batches + ahead if inner else 0):
            if number < micro_batches:
                steps += [(name, number) for name in forward]
            if number >= ahead and backward:
                steps.append((backward, number - ahead))
        return steps + [(name, 0) for name in names[begins:] if name not in inner]

    def __str__(self) -> str:
        lines = [f"{_counted(len(self.phases), 'phase')}, fetches {_listed([name for _, name in self.fetches]) or 'nothing'}"]
        owners: dict[tuple[bool, Owner], list[int | None]] = {}
        for state in self.state.values():
            owners.setdefault((not state.is_replaced, state.owner), []).append(state.bytes)
        for (is_read, owner), sizes in sorted(owners.items(), key=str):
            total = None if None in sizes else sum(size or 0 for size in sizes)
            whose = {"all": "all ranks alike", "ranges": "this rank's ranges"}.get(str(owner), f"rank {owner}")
            lines.append(f"state that is {'read' if is_read else 'replaced'}: {len(sizes)} of {whose}, {_bytes(total)}")
        return "\n".join([*lines, *map(str, self.phases)])

    def followed_by(self, other: Step) -> Step:
        """This step and another one that goes on from the state that it leaves, as one."""
        state = dict(other.state)
        for name, one in self.state.items():
            state[name] = one._replace(is_replaced=one.is_replaced or (name in other.state and other.state[name].is_replaced))
        return Step((*self.phases, *other.phases), (*self.fetches, *other.fetches), state, self.graph)

    def passes(self) -> list[str]:
        """A line for each pass that rewrote a phase: ``"gradients: fold_alpha: 12 places, 24 operators fewer"``."""
        return [f"{phase.name}: {rewrite}" for phase in self.phases for rewrite in phase.graph.rewrites]


def _verb_of(then: Then) -> str:
    if isinstance(then, AllReduce):
        return "all ranks add up"
    if isinstance(then, ReduceScatter):
        return "each rank gets its range of the sum of"
    return "each rank gives all its range of" if isinstance(then, AllGather) else f"stage {then.to} gets"


def phase_of(
    name: str,
    graph: Graph,
    hands: Sequence[Variable] = (),
    then: Sequence[Then] = (),
    part_inputs: Collection[str] = (),
) -> Phase:
    """A phase of what a graph says of itself.

    Args:
        hands: variables of the source program whose values later phases take, of which the graph may compute some alone.
        part_inputs: inputs that say which part of a batch is fed.
    """
    outputs = {output for output, _ in graph.outputs}
    return Phase(
        name,
        graph,
        feeds={v.name: "exchange" if v.name in part_inputs else "caller" for v in graph.inputs if not v.persistable},
        reads=tuple(v.name for v in graph.inputs if v.persistable),
        writes={v.name: new.name for v, new in graph.updates.items()},
        hands=tuple(dict.fromkeys(graph.name(v) for v in hands if graph.name(v) in outputs)),
        then=tuple(then),
        holds=tuple(v.name for v in graph.initializers if v.persistable),
    )


def state_of(v: Variable, is_replaced: bool, owner: Owner = "all") -> StepState:
    """A variable as state of a step."""
    return StepState(v.dims, v.dtype.name, owner, bytes_of_all([v]), is_replaced)


def bytes_of_all(variables: Iterable[Variable]) -> int | None:
    """Bytes of several values; None where a size is not known."""
    total = 0
    for v in variables:
        if v.static_shape is None:
            return None
        total += bytes_needed(v.dtype, v.static_shape)
    return total


def _bytes(count: int | None) -> str:
    if count is None:
        return "of unknown size"
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"

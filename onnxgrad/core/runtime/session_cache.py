"""One onnxruntime session per program version, fetch list and device.

Tests: tests/core/runtime/test_executor.py, tests/core/runtime/test_shapes.py, tests/core/step/test_step.py.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NamedTuple

from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.applying import OpenApplying, joined_sessions
from onnxgrad.core.runtime.capture import host_operators, reason_against
from onnxgrad.core.runtime.frozen_weights import MOST_BYTES, HeldWeights, frozen_weights
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.core.runtime.prepared import Prepared
from onnxgrad.core.runtime.session import open_graph
from onnxgrad.core.runtime.stacks import stacks_of
from onnxgrad.core.state.inputs import FEED, as_array, is_ortvalue
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.cut import cut_step, saves_much
from onnxgrad.core.step.make import Shapes, StepTarget, is_in_stages, make_applying, make_exchanged, make_step
from onnxgrad.core.step.step import Step
from onnxgrad.errors import ArgumentError, ExecutionError
from onnxgrad.internal.processors import usable_cores

__all__ = ["Narrower", "SessionCache", "open_step", "prepare"]


class Narrower(NamedTuple):
    """A place that takes a step which another does not, and the reason."""

    place: Place
    reason: str
    warns: bool = True


def prepare(
    program: Program,
    fetches: list[Variable],
    place: Place,
    threads: int | None = None,
    saved: Path | None = None,
    shapes: Shapes = (),
    fast: bool = False,
    applying: OpenApplying | None = None,
    turn: Turn = "whole",
    frozen: Sequence[Variable] = (),
    scope: Scope | None = None,
    runs_once: bool = False,
) -> Prepared:
    """Make the step of a program for these fetches and open it, where one place does not take it on a narrower one.

    Args:
        saved: a folder of optimised graphs.
        shapes: of inputs whose dimensions are not all known; the session is then for these alone.
        fast: whether forms may round more than the operators they stand for.
        applying: what applies the gradients, if the session is only to return them.
        turn: which of the state is replaced, where gradients are added up.
        frozen: weights that the session may hold, with their values in ``scope``; on a CPUPlace.
        runs_once: whether no run follows the first one, which repays no copy of weights.

    Raises:
        ExecutionError: with onnxruntime's reason, if it refuses the graph.
        ProviderError: if the device's provider is not installed or does not start.
    """
    if place.leaves and not (_is_recent(program) and program.inputs):
        place = CPUPlace()
    if applying is not None:
        place = place.plain()
    while True:
        target = StepTarget(_provider(program, place), shapes, fast, threads or usable_cores(), tuple(frozen))
        step = make_step(program, fetches, target, None if applying is None else applying.applying, turn)
        names = {name for phase in step.phases for name in phase.holds}
        held = None if scope is None or not names else HeldWeights(scope, [v for v in frozen if v.name in names], place)
        stops_spinning = bool(shapes) or applying is not None
        result = open_step(
            step, fetches, place, threads, saved, applying, stops_spinning=stops_spinning, held=held, runs_once=runs_once
        )
        if isinstance(result, Prepared):
            return result
        if result.warns:
            warnings.warn(result.reason, stacklevel=2)
        if result.place.lowering != place.lowering:
            assert applying is None or applying.exchange is None, "a step of ranks must not go on without an exchange"
            applying = None
        place = result.place


def _is_recent(program: Program) -> bool:
    return (program.opset_version() or 1) >= OLDEST_WITH_RULES


def _provider(program: Program, place: Place) -> str | None:
    """Return the provider for whose forms the graphs of a program are compiled on a place"""
    return place.lowering if _is_recent(program) and (place.lowering != "cpu" or program.updates) else None


def open_step(
    step: Step,
    fetches: list[Variable],
    place: Place,
    threads: int | None,
    saved: Path | None,
    applying: OpenApplying | None,
    *,
    stops_spinning: bool,
    held: HeldWeights | None = None,
    runs_once: bool = False,
) -> Prepared | Narrower:
    """Open the sessions of a step before its gradients are applied, or say which narrower place takes it, and why.

    Raises:
        ExecutionError, ProviderError: as ``prepare``.
    """
    graph = step.graph
    trains_state = bool(graph.updates) or applying is not None
    left = next((op for op in graph.operators if op.type in place.leaves), None)
    if left is not None:
        reason = f"{place!r} leaves programs with {left.type} to onnxruntime's CPU provider, where this one runs as a whole."
        return Narrower(CPUPlace(), reason, trains_state)
    if place.captures and graph.updates and any(v.persistable for v in graph.inputs):
        captured = _open_captured(graph, place, threads)
        if isinstance(captured, str):
            return Narrower(place.plain(), f"this step is not replayed as a CUDA graph: {captured}. It runs plainly.")
        return Prepared(captured, step, fetches, place, captures=True)
    is_whole = applying is None and len(step.phases) == 1
    stacks = stacks_of(graph, {graph.name(v) for v in fetches}) if place.stacks_state and is_whole else []
    before = [phase for phase in step.phases if applying is None or phase.name.startswith("gradients")] if graph.outputs else []
    try:
        sessions = [
            open_graph(
                phase.graph,
                place.plain(),
                threads,
                saved=saved,
                stops_spinning=stops_spinning,
                shares_memory=len(before) > 1,
                constants=None if held is None else held.values(),
                stacks=stacks,
                runs_once=runs_once,
            )
            for phase in before
        ]
    except ExecutionError as error:
        if not place.leaves or all(v.static_shape is not None for v in graph.inputs):
            raise
        reason = f"{place!r} does not take this program with unknown sizes: it runs on onnxruntime's CPU provider. {error}"
        return Narrower(CPUPlace(), reason, trains_state)
    session = joined_sessions(sessions, before, graph, None if applying is None else applying.exchange, place)
    return Prepared(session, step, fetches, place, applying, held=held, stacks=stacks)


def _open_captured(graph: Graph, place: Place, threads: int | None) -> Any:
    """A session whose runs can be replayed, or the reason why there is none."""
    reason = reason_against(graph)
    if reason is not None:
        return reason
    try:
        session = open_graph(graph, place, threads)
    except ExecutionError as error:
        if "capture" not in str(error):
            raise
        return str(error.__cause__)
    on_host = host_operators(session)
    if on_host is None:
        return "onnxruntime is too old to report where its operators run"
    return f"{on_host[0]} runs on the host" if on_host else session


class _Sessions:
    """The sessions of one version of a program."""

    def __init__(self, program: Program, place: Place, shapes: int, holds: Literal["all", "some", "none"]) -> None:
        self.version = program.version
        self.exchange = program.plan.exchange
        self.prepared: dict[Any, Prepared] = {}
        self.cuts: dict[tuple[Place, int | None, Turn], OpenApplying | None] = {}
        # Sums over all ranks cut a graph into stages, which are written for any size.
        is_staged = self.exchange is not None and is_in_stages(program, self.exchange.synchronises)
        self.dynamic = [] if is_staged else _dynamic_inputs(program, place)
        """Inputs whose shapes make a training step faster when they are known."""
        # Each shape has a session of its own; what these hold must not depend on which comes first, as a run may be resumed.
        room = None if holds == "all" else MOST_BYTES // (shapes + 1 if self.dynamic else 1)
        self.frozen = [] if holds == "none" or is_staged else frozen_weights(program, room)
        """Weights that the sessions may hold."""
        self._changes = 0

    def drop_outdated(self, prepared: Prepared | None, scope: Scope) -> bool:
        """Whether a session holds frozen weights that a scope has no more; all that hold some are then dropped.

        Values that change once more are those of inputs from then on: opening a session takes longer than what it gains.
        """
        if prepared is None or prepared.held is None or prepared.held.are_in(scope):
            return False
        self.prepared = {key: other for key, other in self.prepared.items() if other.held is None}
        self._changes += 1
        if self._changes > 1:
            self.frozen = []
        return True

    def steps(self) -> list[tuple[Place, Step]]:
        """The open steps and their devices."""
        applying = [prepared.step for (key, _), prepared in self.prepared.items() if key[-1] == "apply"]
        steps = []
        for (key, _), prepared in self.prepared.items():
            if key[-1] == "run" and applying:
                steps.append((prepared.place, prepared.step.followed_by(applying[0])))
            elif key[-1] != "apply":
                steps.append((prepared.place, prepared.step))
        return steps

    def shapes_of(self, feed: dict[str, Any]) -> Shapes:
        """The shapes of these inputs; none if one is an OrtValue, or does not fit its declaration, which is found later.

        Raises:
            FeedError: if a value gives no array.
        """
        shapes = []
        for v in self.dynamic:
            value, dims = feed.get(v.name, 0), v.dims or ()
            shape = () if is_ortvalue(value) else as_array(value, v.name, FEED).shape
            if len(shape) != len(dims) or not all(n == d for n, d in zip(shape, dims, strict=True) if isinstance(d, int)):
                return ()
            shapes.append((v.name, tuple(map(int, shape))))
        return tuple(shapes)


def _dynamic_inputs(program: Program, place: Place) -> list[Variable]:
    """Inputs with unknown dimensions, where the place wants to know them, or the program trains on an unknown number of images."""
    wanted = place.wants_shapes
    if not wanted and place.lowering == "cpu" and program.updates:
        ops = program.global_block().ops
        wanted = any(op.type == "Conv" and not op.domain and _has_unknown_batch(op.inputs[0]) for op in ops)
    return [v for v in program.inputs if v.dims is not None and v.static_shape is None] if wanted else []


def _has_unknown_batch(v: Variable | None) -> bool:
    dims = None if v is None else v.dims
    return dims is not None and len(dims) == 4 and not isinstance(dims[0], int)


class SessionCache:
    """Sessions of one Executor, which threads may share; sessions of an older version of a program are dropped.

    Args:
        runs_once: whether no run follows the first one of a session, which then copies no weights.
    """

    def __init__(
        self,
        saved: Path | None = None,
        shapes: int = 0,
        fast: bool = False,
        memory: str | None = None,
        runs_once: bool = False,
    ) -> None:
        self.saved, self.runs_once = saved, runs_once
        self.fast, self.memory = fast, memory
        self.shapes = shapes
        self._lock = RLock()
        self._by_program: weakref.WeakKeyDictionary[Program, _Sessions] = weakref.WeakKeyDictionary()

    def get(
        self,
        program: Program,
        fetches: list[Variable],
        place: Place,
        threads: int | None,
        feed: dict[str, Any],
        turn: Turn = "whole",
        scope: Scope | None = None,
    ) -> Prepared:
        """The session for these fetches; for the first few shapes of the feed one each, where that makes it faster.

        Args:
            scope: whose frozen weights the session may hold, if the caller has its lock until the run has read them.
        """
        with self._lock:
            sessions = self._by_program.get(program)
            if sessions is None or sessions.version != program.version or sessions.exchange is not program.plan.exchange:
                sessions = self._by_program[program] = _Sessions(program, place, self.shapes, self._holds(place))
            key = (tuple(map(id, fetches)), place, turn)
            shapes = sessions.shapes_of(feed) if self.shapes else ()
            if shapes and (key, shapes) not in sessions.prepared:
                own = sum(other == key and bool(known) for other, known in sessions.prepared)
                shapes = shapes if own < self.shapes else ()
            prepared = sessions.prepared.get((key, shapes))
            if prepared is None or (scope is not None and sessions.drop_outdated(prepared, scope)):
                is_cut = program.updates and (self.memory is not None or program.plan.exchange_of(turn) is not None)
                applying = self._applying(sessions, program, place, threads, turn) if is_cut else None
                frozen = sessions.frozen if scope is not None else ()
                prepared = prepare(
                    program, fetches, place, threads, self.saved, shapes, self.fast, applying, turn, frozen, scope, self.runs_once
                )
                if not prepared.begins:
                    # A startup program runs once; kept, its session and what it holds would live as long as the training.
                    sessions.prepared[key, shapes] = prepared
            return prepared

    def _holds(self, place: Place) -> Literal["all", "some", "none"]:
        """How many frozen weights sessions hold; the graphs that are kept in a folder would hold them too"""
        if place.lowering != "cpu" or self.memory == "low" or self.saved is not None:
            return "none"
        return "all" if self.memory is None else "some"

    def _applying(
        self, sessions: _Sessions, program: Program, place: Place, threads: int | None, turn: Turn
    ) -> OpenApplying | None:
        key = (place, threads, turn)
        if key not in sessions.cuts:
            sessions.cuts[key] = self._cut(program, place, threads, turn)
        return sessions.cuts[key]

    def _cut(self, program: Program, place: Place, threads: int | None, turn: Turn) -> OpenApplying | None:
        exchange = program.plan.exchange_of(turn)
        target = StepTarget(place.lowering, threads=threads or usable_cores())
        if exchange is not None:
            if place.leaves:
                message = f"{place!r} may leave a step to another provider than other ranks"
                raise ArgumentError(f"{message}. Train on a CPUPlace() or a CUDAPlace().")
            return OpenApplying(program, make_exchanged(program, turn, target, exchange), place.plain(), threads)
        is_asked = self.memory == "low"
        if not is_asked and (place.lowering != "cpu" or not saves_much(program, turn)):
            return None
        cut = cut_step(program, turn)
        if cut is None or not (is_asked or saves_much(program, turn, cut)):
            return None
        opened = OpenApplying(program, make_applying(program, cut, target), place, threads)
        # What is computed whole and then copied gains no time by it.
        return opened if is_asked or opened.takes_pieces else None

    def steps(self) -> list[tuple[Place, Step]]:
        """The steps that are open, and where; of a program that adds gradients up, with what applies them if that is open."""
        with self._lock:
            return [step for one in self._by_program.values() for step in one.steps()]

    def clear(self) -> None:
        with self._lock:
            self._by_program.clear()

"""One onnxruntime session per program version, fetch list and device.

Tests: tests/core/runtime/test_executor.py, tests/core/runtime/test_shapes.py, tests/core/step/test_step.py.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import count
from math import prod
from pathlib import Path
from threading import Lock, RLock
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.application import Rooms, open_parts
from onnxgrad.core.runtime.binding import DoubleBinding, StateOutput
from onnxgrad.core.runtime.capture import CapturedBinding, host_operators, reason_against
from onnxgrad.core.runtime.exchange import Exchange
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.core.runtime.runner import added_up
from onnxgrad.core.runtime.session import begins, open_graph, open_part, trains
from onnxgrad.core.runtime.staged import StagedSession
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import array_of
from onnxgrad.core.step.cut import Cut, cut_step, saves_much
from onnxgrad.core.step.make import Applying, Shapes, StepTarget, make_applying, make_step
from onnxgrad.core.step.step import AllReduce, Phase, Step
from onnxgrad.errors import ArgumentError, ExecutionError

__all__ = ["CutStep", "Narrower", "Prepared", "SessionCache", "open_step", "prepare"]

_SMALL = COSTS.count("session_cache.smallest_large_fetch")
_PLAIN = ("float32", "float64", "float16", "int32", "int64")


def _size(v: Variable) -> int:
    """Elements of a tensor of known shape whose type numpy has; 0 for any other."""
    shape = v.static_shape
    return prod(shape) if shape is not None and v.dtype.name in _PLAIN else 0


def _has_memory(v: Variable) -> bool:
    """Whether an OrtValue of such elements can be made before the run."""
    return v.dtype.bits >= 8 and v.dtype.name not in ("string", "complex64", "complex128")


class Prepared:
    """A session, what flows in and out of it, and how it is bound to scopes.

    Attributes:
        session: None if there is nothing to compute but what ``rest`` does.
        step: what is run.
        feeds: inputs that are fed.
        state: names and variables of the inputs that a scope holds.
        replaces, replaced: the state that a run gives new values; names and outputs of it.
        fetch_names, names: the output of each fetch, in order and by variable.
        takes_turns: whether it is a training step, which reads state and replaces it.
        begins: whether it makes state from nothing, as a startup program does.
        flushes: whether denormal numbers are zero in it.
        place: where it runs, which a program may be left to by another.
        reused: outputs whose memory the next run but one writes over.
        slots: outputs that are computed into memory of the program's exchange.
        captures: whether its runs are captured and replayed.
        turn: held by a run where no other may be under way.
        rest: what applies the gradients, which are its last fetches, if it does not.
    """

    def __init__(
        self,
        session: Any,
        step: Step,
        fetches: list[Variable],
        place: Place,
        rest: CutStep | None = None,
        captures: bool = False,
    ) -> None:
        self.session = session
        self.step, graph = step, step.graph
        self.rest = rest
        self.captures = captures
        self.feeds = [v for v in graph.inputs if not v.persistable]
        self.state = [v for v in graph.inputs if v.persistable]
        fetches = [*fetches, *(rest.cut.computed if rest is not None else ())]
        self.fetch_names = [graph.name(v) for v in fetches]
        self.names = dict(zip(fetches, self.fetch_names, strict=True))
        own = graph.own_shapes
        self.replaces = [
            StateOutput(v.name, new.name, own.get(v, own.get(new, v.static_shape)) if _has_memory(v) else None, v.dtype.numpy)
            for v, new in graph.updates.items()
        ]
        self._rows = {v.name: v.static_shape or () for v in own}
        self.replaced = [(output.name, output.output) for output in self.replaces]
        self.takes_turns = bool(self.state and self.replaces)
        self.begins = begins(graph)
        self.flushes = trains(graph)
        state_names = {output.output for output in self.replaces}
        fetched = {graph.name(v): graph.of(v) for v in fetches}
        self.slots: dict[str, Any] = {}
        if rest is not None and rest.exchange is not None:
            slots = rest.exchange.slots(rest.cut.computed)
            self.slots = {graph.name(v): slots[v] for v in reversed(rest.cut.computed) if v in slots}
            if state_names & self.slots.keys():
                name = min(state_names & self.slots.keys())
                raise ArgumentError(f"{name} is a gradient and new state at once, which ranks cannot exchange. Copy it.")
        small = (v for name, v in fetched.items() if name not in state_names and (captures or 0 < _size(v) < _SMALL))
        self._small = [v for v in small if v.name not in self.slots]
        # Between the activations of convolutions they would stand in the way: 7 % of a ResNet's peak.
        gradients = (
            [graph.of(v) for v in rest.cut.computed] if rest is not None and rest.exchange is None and _convolves(graph) else []
        )
        seen = {*state_names, *self.fetch_names[: len(fetches) - len(gradients)]}
        large = [v for v in gradients if _size(v) >= _SMALL and v.name not in seen]
        self._apart = [(v.name, v.static_shape or (), v.dtype.numpy) for v in large]
        self.reused = {v.name for v in self._small} | self.slots.keys() if self.takes_turns else set(self.slots)
        self._outputs = [name for name, _ in graph.outputs] if session is not None else []
        self.place = place
        self._bindings: weakref.WeakKeyDictionary[Scope, DoubleBinding] = weakref.WeakKeyDictionary()
        self._rooms: weakref.WeakKeyDictionary[Scope, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._numbers = count(1)
        # Graphs that are replayed share the memory of what they compute on the way.
        self.turn: AbstractContextManager[Any] = Lock() if captures else nullcontext()

    def binding(self, scope: Scope) -> DoubleBinding:
        """That of a training step on a scope; a new one for anything else, so that threads may share it."""
        found = self._bindings.get(scope) if self.takes_turns else None
        if found is None:
            names, small = [v.name for v in self.state], self._small if self.takes_turns else ()
            if self._apart and scope not in self._rooms:
                self._rooms[scope] = {name: self.place.room(shape, dtype) for name, shape, dtype in self._apart}
            rooms = self.slots or self._rooms.get(scope)
            if self.captures:
                found = CapturedBinding(self.session, names, self._outputs, self.replaces, small, self.place, self._numbers)
            else:
                found = DoubleBinding(self.session, names, self._outputs, self.replaces, small, self.place, rooms, self._rows)
            if self.takes_turns:
                self._bindings[scope] = found
        return found

    def unbind(self, scope: Scope) -> None:
        """Forget how it is bound to a scope."""
        self._bindings.pop(scope, None)


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
    rest: CutStep | None = None,
    turn: Turn = "whole",
) -> Prepared:
    """Make the step of a program for these fetches and open it, where one place does not take it on a narrower one.

    Args:
        saved: a folder of optimised graphs.
        shapes: of inputs whose dimensions are not all known; the session is then for these alone.
        fast: whether forms may round more than the operators they stand for.
        rest: what applies the gradients, if the session is only to return them.
        turn: which of the state is replaced, where gradients are added up.

    Raises:
        ExecutionError: with onnxruntime's reason, if it refuses the graph.
        ProviderError: if the device's provider is not installed or does not start.
    """
    if place.leaves and not (_is_recent(program) and program.inputs):
        place = CPUPlace()
    while True:
        target = StepTarget(_provider(program, place), shapes, fast, threads or os.cpu_count() or 1)
        step = make_step(program, fetches, target, None if rest is None else rest.applying, turn)
        found = open_step(step, fetches, place, threads, saved, rest, stops_spinning=bool(shapes) or rest is not None)
        if isinstance(found, Prepared):
            return found
        if found.warns:
            warnings.warn(found.reason, stacklevel=2)
        if found.place.lowering != place.lowering:
            rest = None
        place = found.place


def _is_recent(program: Program) -> bool:
    return (program.opset_version() or 1) >= OLDEST_WITH_RULES


def _provider(program: Program, place: Place) -> str | None:
    """Whose forms the graphs of a program take on a place"""
    return place.lowering if _is_recent(program) and (place.lowering != "cpu" or program.updates) else None


def open_step(
    step: Step,
    fetches: list[Variable],
    place: Place,
    threads: int | None,
    saved: Path | None,
    rest: CutStep | None,
    *,
    stops_spinning: bool,
) -> Prepared | Narrower:
    """Open the sessions of a step before its gradients are applied, or say which narrower place takes it, and why.

    Raises:
        ExecutionError, ProviderError: as ``prepare``.
    """
    graph = step.graph
    trains_state = bool(graph.updates) or rest is not None
    left = next((op for op in graph.operators if op.type in place.leaves), None)
    if left is not None:
        reason = f"{place!r} leaves programs with {left.type} to onnxruntime's CPU provider, where this one runs as a whole."
        return Narrower(CPUPlace(), reason, trains_state)
    if place.captures and graph.updates and any(v.persistable for v in graph.inputs):
        captured = _open_captured(graph, place, threads)
        if isinstance(captured, str):
            return Narrower(place.plain(), f"this step is not replayed as a CUDA graph: {captured}. It runs plainly.")
        return Prepared(captured, step, fetches, place, captures=True)
    before = [phase for phase in step.phases if rest is None or phase.name.startswith("gradients")] if graph.outputs else []
    try:
        sessions = [
            open_graph(
                phase.graph,
                place.plain(),
                threads,
                saved=saved,
                stops_spinning=stops_spinning,
                shares_memory=len(before) > 1,
            )
            for phase in before
        ]
    except ExecutionError as error:
        if not place.leaves or all(v.static_shape is not None for v in graph.inputs):
            raise
        reason = f"{place!r} does not take this program with unknown sizes: it runs on onnxruntime's CPU provider. {error}"
        return Narrower(CPUPlace(), reason, trains_state)
    return Prepared(_joined(sessions, before, graph, None if rest is None else rest.exchange), step, fetches, place, rest)


def _joined(sessions: list[Any], phases: list[Phase], graph: Graph, exchange: Exchange | None) -> Any:
    """The sessions of phases that compute a graph, as one; None where there are none"""
    sums = [[total.name for each in _reductions(phase) for total in each.sums] for phase in phases]
    if len(sessions) < 2 and not any(sums):
        return sessions[0] if sessions else None
    assert exchange is not None
    groups = [[each.group for each in _reductions(phase) if not each.sums] for phase in phases]
    names = {v: graph.name(v) for v in exchange.reads}

    def between(number: int, values: Mapping[str, Any]) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for each in _reductions(phases[number]):
            if each.sums:
                found.update(added_up(each, values, exchange.transport))
        # Gradients of the last one are exchanged after the run.
        for group in groups[number] if number < len(phases) - 1 else ():
            exchange.send(group, {v: array_of(values[name]) for v, name in names.items()} if number == 0 else {})
        return found

    return StagedSession(sessions, [name for name, _ in graph.outputs], between, exchange.stop, sums)


def _reductions(phase: Phase) -> list[AllReduce]:
    return [each for each in phase.then if isinstance(each, AllReduce)]


class CutStep:
    """The sessions that apply the gradients of a program in parts."""

    def __init__(self, program: Program, applying: Applying, place: Place, threads: int | None, turn: Turn) -> None:
        self.applying, self.cut = applying, applying.cut
        self.exchange: Exchange | None = program.plan.exchange_of(turn)
        self.first: Prepared | None = None
        self.read: dict[str, Variable] = {}
        if applying.shared is not None:
            phases = [phase for phase, _ in applying.first]
            for _, takes in applying.first:
                self.read.update(takes)
            sessions = [open_graph(phase.graph, place, threads, stops_spinning=True, is_training=True) for phase in phases]
            session = _joined(sessions, phases, applying.shared, self.exchange)
            self.first = Prepared(session, Step(tuple(phases), (), {}, applying.shared), applying.cut.shared, place)
            self.first.flushes = True
        self.parts = open_parts(applying, partial(open_part, place=place, threads=threads))
        self._threads = threads or os.cpu_count() or 1
        variables = program.global_block().vars
        names = dict.fromkeys(name for part in self.parts for _, name in [*part.state, *part.replaces])
        self.state = [variables[name] for name in names]
        self._rooms: weakref.WeakKeyDictionary[Scope, Rooms] = weakref.WeakKeyDictionary()

    def rooms(self, scope: Scope) -> Rooms:
        return self._rooms.setdefault(scope, Rooms(self._threads))


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
        return "onnxruntime is too old to say where its operators run"
    return f"{on_host[0]} runs on the host" if on_host else session


def _convolves(graph: Graph) -> bool:
    return any(op.type == "Conv" and not op.domain for op in graph.operators)


def _check_exchange(cut: Cut | None, place: Place) -> None:
    """Raise ArgumentError unless gradients can be exchanged before they are applied."""
    if place.lowering != "cpu":
        raise ArgumentError(f"ranks exchange gradients in main memory. Train on a CPUPlace(), not {place!r}.")
    if cut is None:
        raise ArgumentError("the optimizer of this program reads what is fed, so its step cannot be cut. Compute it there.")


class _Sessions:
    """The sessions of one version of a program."""

    def __init__(self, program: Program, place: Place) -> None:
        self.version = program.version
        self.exchanges = _exchanges(program)
        self.prepared: dict[Any, Prepared] = {}
        self.cuts: dict[tuple[Place, int | None, Turn], CutStep | None] = {}
        self.dynamic = _dynamic_inputs(program, place)
        """Inputs whose shapes make a training step faster when they are known."""

    def steps(self) -> list[tuple[Place, Step]]:
        """What is open, and where."""
        applying = [found.step for (key, _), found in self.prepared.items() if key[-1] == "apply"]
        steps = []
        for (key, _), found in self.prepared.items():
            if key[-1] == "run" and applying:
                steps.append((found.place, found.step.followed_by(applying[0])))
            elif key[-1] != "apply":
                steps.append((found.place, found.step))
        return steps

    def shapes_of(self, feed: dict[str, Any]) -> Shapes:
        """The shapes of these inputs; none if one does not fit its declaration, which is an error that is found later."""
        found = []
        for v in self.dynamic:
            shape, dims = np.asarray(feed.get(v.name, 0)).shape, v.dims or ()
            if len(shape) != len(dims) or not all(n == d for n, d in zip(shape, dims, strict=True) if isinstance(d, int)):
                return ()
            found.append((v.name, tuple(map(int, shape))))
        return tuple(found)


def _exchanges(program: Program) -> list[Exchange | None]:
    """What ranks exchange in a run, and before sums are applied"""
    return [program.plan.exchange_of("run"), program.plan.exchange_of("apply")]


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
    """Sessions of one Executor, which threads may share; those of an older version of a program are dropped."""

    def __init__(self, saved: Path | None = None, shapes: int = 0, fast: bool = False, memory: str | None = None) -> None:
        self.saved = saved
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
    ) -> Prepared:
        """The session for these fetches; for the first few shapes of the feed one each, where that makes it faster."""
        with self._lock:
            sessions = self._by_program.get(program)
            if sessions is None or sessions.version != program.version or sessions.exchanges != _exchanges(program):
                sessions = self._by_program[program] = _Sessions(program, place)
            key = (tuple(map(id, fetches)), place, turn)
            shapes = sessions.shapes_of(feed) if self.shapes else ()
            if shapes and (key, shapes) not in sessions.prepared:
                own = sum(other == key and bool(known) for other, known in sessions.prepared)
                shapes = shapes if own < self.shapes else ()
            found = sessions.prepared.get((key, shapes))
            if found is None:
                is_cut = program.updates and (self.memory is not None or program.plan.exchange_of(turn) is not None)
                rest = self._rest(sessions, program, place, threads, turn) if is_cut else None
                found = prepare(program, fetches, place, threads, self.saved, shapes, self.fast, rest, turn)
                if not found.begins:
                    # A startup program runs once; kept, its session and what it holds would live as long as the training.
                    sessions.prepared[key, shapes] = found
            return found

    def _rest(self, sessions: _Sessions, program: Program, place: Place, threads: int | None, turn: Turn) -> CutStep | None:
        key = (place, threads, turn)
        if key not in sessions.cuts:
            sessions.cuts[key] = self._cut(program, place, threads, turn)
        return sessions.cuts[key]

    def _cut(self, program: Program, place: Place, threads: int | None, turn: Turn) -> CutStep | None:
        exchange = program.plan.exchange_of(turn)
        asked = self.memory == "low" or exchange is not None
        if not asked and (place.lowering != "cpu" or not saves_much(program, turn)):
            return None
        # What ranks exchange of sums they do where these lie.
        sums = program.plan.accumulation.sums if exchange is not None and turn == "apply" and program.plan.accumulation else []
        cut = cut_step(program, turn, always=exchange is not None, sums=sums)
        if exchange is not None:
            _check_exchange(cut, place)
        if cut is None or not (asked or saves_much(program, turn, cut)):
            return None
        target = StepTarget(place.lowering, threads=threads or os.cpu_count() or 1)
        step = CutStep(program, make_applying(program, cut, target, turn), place, threads, turn)
        # What is computed whole and then copied gains no time by it.
        return step if asked or all(part.size is not None for part in step.parts) else None

    def steps(self) -> list[tuple[Place, Step]]:
        """The steps that are open, and where; of a program that adds gradients up, with what applies them if that is open."""
        with self._lock:
            return [found for one in self._by_program.values() for found in one.steps()]

    def clear(self) -> None:
        with self._lock:
            self._by_program.clear()

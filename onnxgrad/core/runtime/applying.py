"""Apply gradients: the sessions of the phases that do, and a step of them.

On the CPU each part of the state is replaced in place, a piece at a time where that is possible; on other devices as any state is:
new values are written to other memory.

Tests: tests/core/runtime/test_low_memory.py, tests/distributed/test_sharded.py, tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.application import Application, ApplyBuffers, open_parts
from onnxgrad.core.runtime.exchange import Exchange
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.prepared import Prepared, on_device
from onnxgrad.core.runtime.runner import added_up
from onnxgrad.core.runtime.session import open_graph, open_part
from onnxgrad.core.runtime.staged import BetweenError, StagedSession
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import array_of, value_on, view_of
from onnxgrad.core.step.make import Applying
from onnxgrad.core.step.step import AllReduce, Phase, Step
from onnxgrad.internal.processors import usable_cores

__all__ = ["OpenApplying", "joined_sessions"]


class OpenApplying:
    """The sessions that apply the gradients of a program in parts.

    Args:
        program: whose state it is.
        applying: the phases.
        place: where they run.
        threads: of each session; None for onnxruntime's choice.

    Attributes:
        cut: of the program.
        exchange: what ranks do with gradients before; None where there are no others.
        parts: what is replaced in place.
        takes_pieces: whether each large part is replaced a piece at a time.
    """

    def __init__(self, program: Program, applying: Applying, place: Place, threads: int | None) -> None:
        shards = applying.shards
        self.applying, self.cut, self.place = applying, applying.cut, place
        self.exchange: Exchange | None = applying.exchange  # type: ignore[assignment]
        # Elsewhere the graphs take their ranges of whole gradients.
        in_place = place.lowering == "cpu" or (shards is not None and shards.apart)
        self._shares = {v: shards.own(v) for v in shards.gradients} if shards is not None and in_place else {}
        self._gathers_rows = shards is not None and not in_place
        self._first: Prepared | None = None
        self._read: dict[str, Variable] = {}
        if applying.shared is not None:
            phases = [phase for phase, _ in applying.first]
            for _, takes in applying.first:
                self._read.update(takes)
            sessions = [open_graph(phase.graph, place, threads, stops_spinning=True, is_training=True) for phase in phases]
            session = joined_sessions(sessions, phases, applying.shared, self.exchange, place)
            self._first = self._opened(session, phases, applying.shared, applying.first_values)
        self._wholes: list[tuple[Prepared, Mapping[str, Variable], list[Variable]]] = []
        """Sessions, what they take, and the weights of which they compute this rank's ranges"""
        if place.lowering == "cpu":
            self.parts = open_parts(applying, partial(open_part, place=place, threads=threads))
        else:
            self.parts = []
            for phase, takes in applying.parts:
                session = open_graph(phase.graph, place, threads, is_training=True)
                replaced = {v.name for v in phase.graph.updates}
                weights = [v for v in self.cut.updates if v.name in phase.writes and v.name not in replaced]
                opened = self._opened(session, [phase], phase.graph, [self.cut.updates[v] for v in weights])
                self._wholes.append((opened, takes, weights))
        self.takes_pieces = all(part.size is not None for part in self.parts) and not self._wholes
        self._threads = threads or usable_cores()
        variables = program.global_block().vars
        names = dict.fromkeys(name for part in self.parts for _, name in [*part.state, *part.replaces])
        self._state = [variables[name] for name in names]
        self._apply_buffers: weakref.WeakKeyDictionary[Scope, ApplyBuffers] = weakref.WeakKeyDictionary()

    def _opened(self, session: Any, phases: Sequence[Phase], graph: Graph, outputs: list[Variable]) -> Prepared:
        prepared = Prepared(session, Step(tuple(phases), (), {}, graph), outputs, self.place)
        prepared.flushes = True
        return prepared

    def apply(
        self,
        scope: Scope,
        values: Mapping[Variable, Any],
        others: Sequence[tuple[str, Buffer]] = (),
        bindings: Sequence[object] = (),
    ) -> None:
        """Compute new values of the state and leave it to the scope to put them in place, by pieces where there are some.

        Args:
            scope: whose state it is; its lock is held.
            values: gradients of the whole batch, as OrtValues.
            others: further new values of state.
            bindings: whatever the values' memory belongs to: up to onnxruntime 1.28 what a binding returns is the binding's.

        Raises:
            ExecutionError: if onnxruntime fails.
        """
        values, others, bindings = dict(values), list(others), list(bindings)
        try:
            # Where the rest is applied later, ranks may exchange something else before.
            if self._wholes:
                self._wait(None)
            elif self._first is not None:
                self._wait([v.name for v in self._first.state])
        except BetweenError as error:
            raise error.error from error.error.__cause__
        if self._first is not None:
            own = {**values, **{v: self._own(v, values[v]) for v in self._read.values() if v in self._shares}}
            shared, small = self._run(self._first, self._read, own, scope, others, bindings)
            for v, name in zip(self.applying.first_values, self._first.fetch_names, strict=True):
                values[v] = shared[name] if name in shared else small[name].value
        ranges: Mapping[Variable, Any] = {}
        if self._gathers_rows:
            # Also where this rank has none, as it gets those of others.
            assert self.exchange is not None
            ranges = self.exchange.targets(scope)
        for prepared, takes, weights in self._wholes:
            prepared.slots = {prepared.names[self.cut.updates[v]]: ranges[v] for v in weights}
            self._run(prepared, takes, values, scope, others, bindings)
        buffers = {v.name: on_device(scope, v, self.place) for v in self._state}
        apply_buffers = self._apply_buffers.setdefault(scope, ApplyBuffers(self._threads))
        settled: Callable[[], Mapping[str, Buffer]] = dict
        applied = None
        if self.exchange is not None:
            settled, applied = partial(self.exchange.settled, scope), partial(self.exchange.applied, scope)
        application = Application(self.parts, buffers, values, others, scope, apply_buffers, self._wait, settled, applied)
        application.bindings = bindings
        scope.defer(application)

    def _own(self, v: Variable, value: Any) -> Any:
        """The elements of a gradient that this rank reads, as a row"""
        start, stop = self._shares[v]
        return value_on(view_of(value).reshape(-1)[start:stop])

    def _wait(self, names: Collection[str] | None) -> None:
        """Wait until the sums among this state are complete over all ranks"""
        if self.exchange is not None:
            self.exchange.wait(names)

    @staticmethod
    def _run(
        prepared: Prepared,
        takes: Mapping[str, Variable],
        values: Mapping[Variable, Any],
        scope: Scope,
        others: list[tuple[str, Buffer]],
        bindings: list[object],
    ) -> tuple[dict[str, Any], dict[str, Buffer]]:
        """Run what is computed whole, and note its new state"""
        bound = prepared.bind(scope, return_numpy=False)
        bindings.append(bound)
        fetched, state = prepared.run(bound, [(name, values[v]) for name, v in takes.items()], scope)
        prepared.unbind(scope)
        others += [(name, state[output]) for name, output in prepared.replaced]
        return fetched, state


def joined_sessions(sessions: list[Any], phases: list[Phase], graph: Graph, exchange: Exchange | None, place: Place) -> Any:
    """The sessions of phases that compute a graph on a place, as one; None where there are none"""
    sums = [[total.name for each in _reductions(phase) for total in each.sums] for phase in phases]
    if len(sessions) < 2 and not any(sums):
        return sessions[0] if sessions else None
    assert exchange is not None
    groups = [[each.group for each in _reductions(phase) if not each.sums] for phase in phases]
    names = {v: graph.name(v) for v in exchange.reads}

    def between(number: int, values: Mapping[str, Any]) -> Mapping[str, Any]:
        outputs: dict[str, Any] = {}
        for each in _reductions(phases[number]):
            if each.sums:
                outputs.update(added_up(each, values, exchange.transport))
        # Gradients of the last one are exchanged after the run.
        for group in groups[number] if number < len(phases) - 1 else ():
            exchange.send(group, {v: array_of(values[name]) for v, name in names.items()} if number == 0 else {})
        return outputs

    return StagedSession(sessions, [name for name, _ in graph.outputs], between, exchange.stop, sums, (place.device, place.index))


def _reductions(phase: Phase) -> list[AllReduce]:
    return [each for each in phase.then if isinstance(each, AllReduce)]

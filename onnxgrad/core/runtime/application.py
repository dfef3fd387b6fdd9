"""Applying gradients in parts, so that one copy of the state is held: ``Executor(memory="low")``.

A part is a pure function of the state before the step, of gradients and of a few shared values. What it gives is copied over the
state once it is there, so a part that fails has changed nothing, and can be computed again. A part of elementwise operators is
computed a piece of its tensors at a time, by one graph for all tensors that are treated alike; threads take the pieces of all such
parts from one queue, so that none waits for another after each operator.

Tests: tests/core/runtime/test_low_memory.py, tests/training/test_low_memory.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto

from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.denormals import FloatingPointMode
from onnxgrad.core.runtime.staged import BetweenError
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of, value_on, view_of
from onnxgrad.core.step.cut import is_small
from onnxgrad.core.step.make import Applying
from onnxgrad.core.step.step import Pieces
from onnxgrad.errors import ExecutionError

__all__ = ["Application", "ApplyBuffers", "StatePart", "open_parts"]


class StatePart(NamedTuple):
    """How one part of the state is replaced.

    Attributes:
        session: of onnxruntime, which parts that are alike share.
        state: inputs and names of the state that it reads.
        values: inputs, and the gradients and shared values that they take.
        outputs: their names and numpy types.
        replaces: indices of outputs, and names of the state whose new values they are.
        whole: inputs that are bound whole, where the others are bound in pieces.
        runs: how the tensors that are bound in pieces are cut; None if all are bound whole.
    """

    session: Any
    state: list[tuple[str, str]]
    values: list[tuple[str, Variable]]
    outputs: list[tuple[str, Any]]
    replaces: list[tuple[int, str]]
    whole: frozenset[str]
    runs: Pieces | None

    @property
    def size(self) -> int | None:
        """Elements of the tensors that are bound in pieces"""
        return None if self.runs is None else self.runs.size

    @property
    def length(self) -> int:
        """Elements of a piece"""
        return 0 if self.runs is None else self.runs.length

    @property
    def pieces(self) -> int:
        return 1 if self.runs is None else self.runs.number

    def own(self, tensor: Any) -> Any:
        """The elements that this rank updates, of an array of all of them, or of these alone."""
        flat, runs = tensor.reshape(-1), self.runs
        return flat if runs is None or flat.size == runs.size else flat[runs.first : runs.first + runs.size]


def open_parts(applying: Applying, opened: Callable[..., Any]) -> list[StatePart]:
    """The parts of a step, with a session for each kind.

    Args:
        opened: opens a session as ``open_part`` does, on a place.
    """
    sessions: dict[bytes, Any] = {}
    parts = []
    for phase, takes in applying.parts:
        graph = phase.graph
        message = write_model(graph, embeds=True)
        names = _anonymous(message)
        runs = phase.runs if isinstance(phase.runs, Pieces) else None
        in_pieces = runs is not None
        whole = frozenset(names[v.name] for v in graph.inputs if not in_pieces or is_small(v))
        if in_pieces:
            _open_dimensions(message, whole)
        key = message.SerializeToString(deterministic=True)
        if key not in sessions:
            sessions[key] = opened(message, graph, in_pieces=in_pieces)
        indices = {name: index for index, (name, _) in enumerate(graph.outputs)}
        parts.append(
            StatePart(
                sessions[key],
                [(names[name], name) for name in phase.reads],
                [(names[name], v) for name, v in takes.items()],
                [(names[name], v.dtype.numpy) for name, v in graph.outputs],
                [(indices[output], name) for name, output in phase.writes.items()],
                whole,
                runs,
            )
        )
    return parts


def _anonymous(message: ModelProto) -> dict[str, str]:
    """Number the names of a message, so that graphs which compute the same are equal; gives the new names."""
    graph = message.graph
    if any(attribute.HasField("g") or attribute.graphs for node in graph.node for attribute in node.attribute):
        return _Same()
    names: dict[str, str] = {"": ""}

    def renamed(name: str) -> str:
        return names.setdefault(name, f"v{len(names)}")

    for info in (*graph.input, *graph.initializer):
        info.name = renamed(info.name)
    for node in graph.node:
        node.name = node.doc_string = ""
        node.ClearField("metadata_props")
        for field in (node.input, node.output):
            field[:] = [renamed(name) for name in field]
    for info in graph.output:
        info.name = renamed(info.name)
    del graph.value_info[:]
    message.ClearField("metadata_props")
    for info in (*graph.input, *graph.output):
        info.doc_string = ""
    return names


class _Same(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name


def _open_dimensions(message: ModelProto, whole: frozenset[str]) -> None:
    """Let the tensors of a graph be a row of any length, except tensors that are bound whole"""
    for info in (*message.graph.input, *message.graph.output):
        if info.name not in whole:
            del info.type.tensor_type.shape.dim[:]
            info.type.tensor_type.shape.dim.add(dim_value=1)
            info.type.tensor_type.shape.dim.add(dim_param="n")


# One step ------------------------------------------------------------------------------------------------------------------


class ApplyBuffers:
    """The bindings of the parts on one scope, which are kept from step to step.

    Args:
        threads: that apply pieces.
    """

    def __init__(self, threads: int) -> None:
        self.desks = [_Desk() for _ in range(threads)]
        self._bound: dict[int, _BoundPart] = {}

    def bound(self, part: StatePart, buffers: Mapping[str, Buffer], values: Mapping[Variable, Any]) -> None:
        """See to it that the pieces of a part are bound to the present memory of its state, and set its small inputs."""
        bound = self._bound.setdefault(id(part), _BoundPart(part.pieces))
        memory = [buffers[state] for name, state in part.state if name not in part.whole]
        if [ref() for ref in bound.memory] != memory:
            bound.pieces, bound.small = [None] * part.pieces, {}
            bound.memory = [weakref.ref(buffer) for buffer in memory]
        given = {name: buffers[state].value for name, state in part.state if name in part.whole}
        given |= {name: values[v] for name, v in part.values if name in part.whole}
        for name, value in given.items():
            numbers = view_of(value)
            if name not in bound.small:
                bound.small[name] = numbers.copy()
            # Bound once: the numbers of each step go to where those of the last one were.
            bound.small[name][...] = numbers
        gradients = {name: values[v] for name, v in part.values if name not in part.whole}
        addresses = [value.data_ptr() for value in gradients.values()]
        if addresses != bound.addresses:
            bound.gradients = {name: part.own(view_of(value)) for name, value in gradients.items()}
            bound.addresses = addresses

    def piece(self, desk: _Desk, part: StatePart, number: int, buffers: Mapping[str, Buffer]) -> _BoundPiece:
        """The binding of a piece, with the outputs of the thread that computes it."""
        bound = self._bound[id(part)]
        piece = bound.pieces[number]
        start = number * part.length
        assert part.size is not None
        if piece is None:
            piece = _BoundPiece(part.session.io_binding())
            for name, numbers in bound.small.items():
                piece.binding.bind_ortvalue_input(name, value_on(numbers))
            for name, state in part.state:
                if name not in part.whole:
                    flat = part.own(view_of(buffers[state].value))
                    piece.binding.bind_ortvalue_input(name, value_on(flat[None, start : start + part.length]))
            bound.pieces[number] = piece
        if piece.addresses is not bound.addresses:
            for name, flat in bound.gradients.items():
                piece.binding.bind_ortvalue_input(name, value_on(flat[None, start : start + part.length]))
            piece.addresses = bound.addresses
        if piece.desk is not desk:
            piece.desk, piece.outputs = None, desk.outputs(part, min(part.length, part.size - start))
            for (name, _), value in zip(part.outputs, piece.outputs.values, strict=True):
                piece.binding.bind_ortvalue_output(name, value)
            piece.desk = desk
        return piece


class _BoundPart:
    """What the pieces of a part are bound to.

    Attributes:
        memory: the state that is bound in pieces, which others may replace, and then free.
        small: inputs that are bound whole, as arrays of their own.
        gradients: as arrays of rank 1.
        addresses: where they lie; the same list as long as they lie there, as what onnxruntime allocates does in most steps.
        pieces: None for those that are not bound yet.
    """

    def __init__(self, pieces: int) -> None:
        self.memory: list[weakref.ref[Buffer]] = []
        self.small: dict[str, Any] = {}
        self.gradients: dict[str, Any] = {}
        self.addresses: list[int] = []
        self.pieces: list[_BoundPiece | None] = [None] * pieces


class _BoundPiece:
    """The binding of one piece.

    Attributes:
        addresses: of the gradients that it is bound to, as the part's.
        desk: whose buffers its outputs are bound to; None while they are not.
        outputs: those buffers.
    """

    __slots__ = ("addresses", "binding", "desk", "outputs")

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.addresses: list[int] | None = None
        self.desk: _Desk | None = None
        self.outputs = _Arrays([], [])


class _Desk:
    """The output buffers of one thread, and its bindings of parts that are computed whole."""

    def __init__(self) -> None:
        self._bindings: dict[int, Any] = {}
        self._buffers: dict[int, list[Any]] = {}
        self._new_values: dict[tuple[int, int], _Arrays] = {}

    def binding(self, part: StatePart) -> Any:
        binding = self._bindings.get(id(part.session))
        if binding is None:
            binding = self._bindings[id(part.session)] = part.session.io_binding()
        return binding

    def outputs(self, part: StatePart, length: int) -> _Arrays:
        """Return the buffers for the new values of a piece: of shorter ones the beginning of those of the others."""
        key = (id(part.session), length)
        if key not in self._new_values:
            buffers = self._buffers.setdefault(id(part.session), [])
            if not buffers or buffers[0].size < length:
                buffers[:] = [np.empty(length, dtype) for _, dtype in part.outputs]
            arrays = [buffer[:length] for buffer in buffers]
            self._new_values[key] = _Arrays(arrays, [value_on(array[None]) for array in arrays])
        return self._new_values[key]

    def clear(self) -> None:
        """Let go of what is bound whole."""
        for binding in self._bindings.values():
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()


class _Arrays(NamedTuple):
    """New values as arrays of rank 1, and the OrtValues whose memory they are."""

    arrays: list[Any]
    values: Sequence[Any]


class _Unit(NamedTuple):
    """A unit of work: a piece of a part, or all of it."""

    number: int
    part: StatePart
    piece: int


class Application:
    """The rest of one step. It may be interrupted anywhere, and gone on with.

    Args:
        parts: of the step.
        buffers: the state before the step, by name.
        values: gradients and shared values.
        others: further new values of state, which are put in place last.
        scope: whose state it is.
        apply_buffers: of this scope.
        wait: called before a part is computed, with the names of the state that it reads: its sums may still travel.
        settled: called before anything is put in place; gives state, by name, that lies elsewhere from then on.
        applied: called when all is in place.

    Attributes:
        has_begun: whether anything is in place.
        bindings: whatever the values' memory belongs to.
    """

    def __init__(
        self,
        parts: Sequence[StatePart],
        buffers: dict[str, Buffer],
        values: Mapping[Variable, Any],
        others: list[tuple[str, Buffer]],
        scope: Scope,
        apply_buffers: ApplyBuffers,
        wait: Callable[[Collection[str]], None],
        settled: Callable[[], Mapping[str, Buffer]] = dict,
        applied: Callable[[], None] | None = None,
    ) -> None:
        self._wait_for, self._settled, self._applied = wait, settled, applied
        self._parts, self._buffers, self._values, self._others = parts, buffers, values, others
        self._scope, self._apply_buffers = scope, apply_buffers
        pieces = [(part, piece) for part in parts for piece in range(part.pieces)]
        self._units = [_Unit(number, *piece) for number, piece in enumerate(pieces)]
        self._done = bytearray(len(self._units))
        # For each thread the unit that it has computed, and its new values and what they belong to, until they are in place.
        self._new: list[tuple[_Unit, _Arrays] | None] = [None] * len(apply_buffers.desks)
        # The elements of state, as arrays of rank 1.
        self._written: dict[str, Any] = {}
        self._lock, self._small_lock = Lock(), Lock()
        # Parts whose small inputs are set, and whose sums have come.
        self._ready: set[int] = set()
        self._helpers: list[Thread] = []
        self._errors: list[BaseException] = []
        self._stops = False
        self.has_begun = False
        self.bindings: Sequence[object] = ()

    def finish(self) -> None:
        """Compute what is left and put it in place; called by the scope, which is then this one's alone.

        Raises:
            ExecutionError: if onnxruntime fails.
        """
        try:
            with FloatingPointMode(flushes=True):
                self._apply()
        except BetweenError as error:
            raise error.error from error.error.__cause__
        except Exception as error:
            done = "is applied in part; the rest is applied before the state is read" if self.has_begun else "is not applied"
            raise ExecutionError(f"onnxruntime failed while applying gradients: {error}. The step {done}.") from error
        self.has_begun = True
        self._scope.swap(self._others)
        if self._applied is not None:
            self._applied()
            self._applied = None

    def _apply(self) -> None:
        """Apply all units that are not done, whole ones first: their operators take all threads."""
        self._wait()
        self._errors, self._stops = [], False
        self._ready.clear()
        self._buffers.update(self._settled())
        for part in self._parts:
            for _, name in part.replaces:
                self._take(part, name)
        for worker in range(len(self._new)):
            self._put(worker)
        left = [unit for unit in self._units if not self._done[unit.number]]
        pieces = [unit for unit in left if unit.part.size is not None]
        units = iter(pieces)
        try:
            self._work(0, iter([unit for unit in left if unit.part.size is None]))
            self._helpers = [Thread(target=self._help, args=(n, units)) for n in range(1, min(len(self._new), len(pieces)))]
            with suppress(RuntimeError):  # where there are no more threads to be had
                for helper in self._helpers:
                    helper.start()
            self._work(0, units)
        except BaseException:
            self._stops = True
            raise
        finally:
            self._wait()
        if self._errors:
            raise self._errors.pop()

    def _wait(self) -> None:
        """Until no other thread is at work. Nothing stays bound whole."""
        try:
            for helper in self._helpers:
                if helper.ident is not None:
                    helper.join()
        except BaseException:
            self.has_begun = True  # as far as anybody can tell
            raise
        self._helpers = []
        for desk in self._apply_buffers.desks:
            desk.clear()

    def _help(self, worker: int, units: Iterator[_Unit]) -> None:
        try:
            with FloatingPointMode(flushes=True):
                self._work(worker, units)
        except BaseException as error:
            self._errors, self._stops = [error], True

    def _work(self, worker: int, units: Iterator[_Unit]) -> None:
        """Compute units and put them in place until there are no more, or another thread has failed."""
        while not self._stops:
            with self._lock:
                unit = next(units, None)
            if unit is None:
                return
            # From here on it is copied again after an interruption, and before it computed again: each gives the same.
            self._new[worker] = unit, self._computed(self._apply_buffers.desks[worker], unit)
            self._put(worker)

    def _put(self, worker: int) -> None:
        """Copy what a thread has computed over the state."""
        new = self._new[worker]
        if new is None:
            return
        unit, (arrays, _) = new
        self.has_begun = True
        start = unit.piece * unit.part.length
        for output, name in unit.part.replaces:
            np.copyto(self._written[name][start : start + arrays[output].size], arrays[output])
        self._done[unit.number] = True
        self._new[worker] = None

    def _take(self, part: StatePart, name: str) -> None:
        """See to it that nobody else holds the memory of a state, which is written over."""
        buffer = self._buffers[name]
        is_present = self._scope.stored(name) is buffer
        if not buffer.is_held_by(is_present):
            self._buffers[name] = Buffer(value_of(view_of(buffer.value)))
            if is_present:
                self._scope.put(name, self._buffers[name])
        self._buffers[name].origin = None
        self._written[name] = part.own(view_of(self._buffers[name].value))
        self._scope.drop_spare(name)

    def _computed(self, desk: _Desk, unit: _Unit) -> _Arrays:
        part = unit.part
        if part.size is None:
            return self._computed_whole(desk.binding(part), part)
        with self._small_lock:
            if id(part) not in self._ready:
                self._wait_for([state for _, state in part.state])
                self._apply_buffers.bound(part, self._buffers, self._values)
                self._ready.add(id(part))
        piece = self._apply_buffers.piece(desk, part, unit.piece, self._buffers)
        part.session.run_with_iobinding(piece.binding)
        return piece.outputs

    def _computed_whole(self, binding: Any, part: StatePart) -> _Arrays:
        self._wait_for([state for _, state in part.state])
        for name, state in part.state:
            binding.bind_ortvalue_input(name, self._buffers[state].value)
        for name, v in part.values:
            binding.bind_ortvalue_input(name, self._values[v])
        for name, _ in part.outputs:
            binding.bind_output(name)
        part.session.run_with_iobinding(binding)
        values = binding.get_outputs()
        return _Arrays([view_of(value).reshape(-1) for value in values], values)

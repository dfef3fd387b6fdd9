"""Sessions that are ready to run: what flows in and out of them, and how they are bound to the state of a scope.

Tests: tests/core/runtime/test_executor.py, tests/core/runtime/test_low_memory.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from math import prod
from threading import Lock
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.traits import CONTROL_FLOW, MOVES
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable, present_value
from onnxgrad.core.runtime.binding import DoubleBinding, StateOutput
from onnxgrad.core.runtime.capture import CapturedBinding
from onnxgrad.core.runtime.denormals import FloatingPointMode
from onnxgrad.core.runtime.exchange import Exchange
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.session import is_startup, trains_state
from onnxgrad.core.runtime.stacks import Stack, stacked
from onnxgrad.core.runtime.staged import BetweenError
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import array_of, copy_into, device_of, room_of, shares_memory, value_of, value_on
from onnxgrad.core.step.cut import Cut
from onnxgrad.core.step.step import Step
from onnxgrad.errors import ArgumentError, ExecutionError

__all__ = ["Prepared", "in_memory", "on_device"]

_SMALL = COSTS.count("prepared.smallest_large_fetch")
_PLAIN = ("float32", "float64", "float16", "int32", "int64")


def _size(v: Variable) -> int:
    """Elements of a tensor of known shape whose type numpy has; 0 for any other."""
    shape = v.static_shape
    return prod(shape) if shape is not None and v.dtype.name in _PLAIN else 0


def _has_memory(v: Variable) -> bool:
    """Whether an OrtValue of such elements can be made before the run."""
    return v.dtype.bits >= 8 and v.dtype.name not in ("string", "complex64", "complex128")


class AppliesGradients(Protocol):
    """The part of a step after its gradients: ``core.runtime.applying.OpenApplying``."""

    cut: Cut
    exchange: Exchange | None

    def apply(
        self,
        scope: Scope,
        values: Mapping[Variable, Any],
        others: Sequence[tuple[str, Buffer]] = (),
        bindings: Sequence[object] = (),
    ) -> None: ...


class HoldsWeights(Protocol):
    """Frozen weights that a session holds: ``core.runtime.frozen_weights.HeldWeights``."""

    def are_in(self, scope: Scope) -> bool: ...


class Prepared:
    """A session, what flows in and out of it, and how it is bound to scopes.

    Attributes:
        session: None if there is nothing to compute but what ``applying`` does.
        step: what is run.
        feeds: inputs that are fed.
        labels: where among these are labels, to be checked.
        state: the inputs that a scope holds.
        stacks: of further state, which is read and replaced as one tensor each.
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
        applying: what applies the gradients, which are its last fetches, if it does not.
        held: the frozen weights that are constants of the session.
    """

    def __init__(
        self,
        session: Any,
        step: Step,
        fetches: list[Variable],
        place: Place,
        applying: AppliesGradients | None = None,
        captures: bool = False,
        held: HoldsWeights | None = None,
        stacks: Sequence[Stack] = (),
    ) -> None:
        self.session = session
        self.step, graph = step, step.graph
        self.applying = applying
        self.captures = captures
        self.held = held
        self.feeds = [v for v in graph.inputs if not v.persistable]
        self.stacks = stacks
        in_stacks = {v for stack in stacks for v in stack.state}
        self.state = [v for v in graph.inputs if v.persistable and v not in in_stacks]
        places = {v.name: at for at, v in enumerate(self.feeds)}
        self.labels = [(places[label.name], label) for label in graph.labels]
        fetches = [*fetches, *(applying.cut.computed if applying is not None else ())]
        self.fetch_names = [graph.name(v) for v in fetches]
        self.names = dict(zip(fetches, self.fetch_names, strict=True))
        own = graph.own_shapes
        self.replaces = [
            StateOutput(v.name, new.name, own.get(v, own.get(new, v.static_shape)) if _has_memory(v) else None, v.dtype.numpy)
            for v, new in graph.updates.items()
            if v not in in_stacks
        ]
        self._rows = {v.name: v.static_shape or () for v in own}
        self.replaced = [(v.name, new.name) for v, new in graph.updates.items()]
        self.takes_turns = bool(self.replaced and (self.state or stacks))
        self.begins = is_startup(graph)
        self.flushes = trains_state(graph)
        state_names = {output for _, output in self.replaced}
        fetched = {graph.name(v): graph.of(v) for v in fetches}
        self.slots: dict[str, Any] = {}
        if applying is not None and applying.exchange is not None:
            slots = applying.exchange.slots(applying.cut.computed)
            self.slots = {graph.name(v): slots[v] for v in reversed(applying.cut.computed) if v in slots}
            if state_names & self.slots.keys():
                name = min(state_names & self.slots.keys())
                raise ArgumentError(
                    f"{name} is a gradient and new state at once, which ranks would exchange twice. Give one of them a name of its "
                    "own: paddle.assign(gradient)."
                )
        small = (v for name, v in fetched.items() if name not in state_names and (captures or 0 < _size(v) < _SMALL))
        self._small = [v for v in small if v.name not in self.slots]
        # Between the activations of convolutions they would stand in the way: 7 % of a ResNet's peak.
        gradients = (
            [graph.of(v) for v in applying.cut.computed]
            if applying is not None and applying.exchange is None and _convolves(graph)
            else []
        )
        seen = {*state_names, *self.fetch_names[: len(fetches) - len(gradients)]}
        large = [v for v in gradients if _size(v) >= _SMALL and v.name not in seen]
        self._apart = [(v.name, v.static_shape or (), v.dtype.numpy) for v in large]
        self.reused = {v.name for v in self._small} | self.slots.keys() if self.takes_turns else set(self.slots)
        apart = {new for stack in stacks for new in stack.new}
        outputs = [*(stack.output for stack in stacks), *(name for name, _ in graph.outputs if name not in apart)]
        self._outputs = outputs if session is not None else []
        separate = {*state_names, *self.reused, *self.slots}
        self._sources = {name: sources for name, v in fetched.items() if name not in separate and (sources := _sources(graph, v))}
        self.place = place
        self._bindings: weakref.WeakKeyDictionary[Scope, DoubleBinding] = weakref.WeakKeyDictionary()
        self._slots_of: weakref.WeakKeyDictionary[Scope, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._numbers = count(1)
        # Graphs that are replayed share the memory of what they compute on the way.
        self.turn: AbstractContextManager[Any] = Lock() if captures else nullcontext()

    def binding(self, scope: Scope) -> DoubleBinding:
        """The binding of a training step on a scope; a new one for anything else, so that threads may share it."""
        binding = self._bindings.get(scope) if self.takes_turns else None
        if binding is None:
            names, small = [v.name for v in self.state], self._small if self.takes_turns else ()
            if self._apart and scope not in self._slots_of:
                self._slots_of[scope] = {name: self.place.room(shape, dtype) for name, shape, dtype in self._apart}
            slots = self.slots or self._slots_of.get(scope)
            if self.captures:
                binding = CapturedBinding(self.session, names, self._outputs, self.replaces, small, self.place, self._numbers)
            else:
                binding = DoubleBinding(
                    self.session, names, self._outputs, self.replaces, small, self.place, slots, self._rows, self.stacks
                )
            if self.takes_turns:
                self._bindings[scope] = binding
        return binding

    def unbind(self, scope: Scope) -> None:
        """Forget how it is bound to a scope."""
        self._bindings.pop(scope, None)

    def bind(self, scope: Scope, return_numpy: bool) -> DoubleBinding:
        """The binding of a run, with its state bound."""
        bound = self.binding(scope)
        bound.swap()
        for index in bound.outdated(scope):
            bound.read(index, on_device(scope, self.state[index], self.place))
        for stack in bound.outdated_stacks(scope):
            bound.read_stack(stack, stacked(scope, stack, self.place))
        bound.bind_outputs(scope if self.takes_turns else _NO_SCOPE, return_numpy)
        return bound

    def run(self, bound: DoubleBinding, feeds: Iterable[tuple[str, Any]], scope: Scope) -> tuple[dict[str, Any], dict[str, Buffer]]:
        """Fetches and new state, by output.

        Raises:
            ExecutionError: if onnxruntime fails; or what has failed between two sessions.
        """
        try:
            for name, value in feeds:
                bound.feed(name, value)
            with self.turn, FloatingPointMode(flushes=self.flushes):
                self.session.run_with_iobinding(bound.binding, bound.run_options())
            fetched, state = bound.results()
            return self._own(fetched, dict(feeds), scope) if self._sources else fetched, state
        except BetweenError as error:
            self.unbind(scope)
            raise error.error from error.error.__cause__
        except Exception as error:
            self.unbind(scope)
            # LSTM, GRU and RNN load with float64 operands, and say so when they run.
            advice = ". Cast its operands to float32 and its results back" if "does not support double" in str(error) else ""
            raise ExecutionError(f"onnxruntime failed while running the program: {error}{advice}") from error

    def _own(self, fetched: Mapping[str, Any], feeds: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
        """The fetches, with copies of those that onnxruntime computed by giving out the memory of an input"""
        own = dict(fetched)
        for name, sources in self._sources.items():
            value = own[name]
            if not value.has_value() or not value.is_tensor() or value.data_type() == "tensor(string)":
                continue
            for source in sources:
                given = feeds[source.name] if source.name in feeds else scope.stored(source.name)
                if shares_memory(value, given.value if isinstance(given, Buffer) else given):
                    array = array_of(value)
                    # In memory of onnxruntime's, which lives as long as the array that a caller is given on it.
                    own[name] = room_of(array.shape, array.dtype, *device_of(value))
                    copy_into(own[name], array)
                    break
        return own


_NO_SCOPE = Scope()


def _sources(graph: Graph, result: Variable) -> list[Variable]:
    """The inputs whose memory may become a result's: through operators that may have nothing to do, as Identity or Mul by 1"""
    seen, stack, inputs = {result}, [result], set(graph.inputs)
    sources: list[Variable] = []
    while stack:
        v = stack.pop()
        if v in inputs:
            sources.append(v)
        if v.op is None or not isinstance(v.type, TensorType):
            continue
        moves = v.op.type in MOVES or v.op.type in CONTROL_FLOW
        for x in v.op.operands():
            if x is None or x in seen or not isinstance(x.type, TensorType) or x.dtype != v.dtype:
                continue
            if moves or x.dims is None or v.dims is None or x.dims == v.dims:
                seen.add(x)
                stack.append(x)
    return sources


def in_memory(buffer: Buffer) -> Buffer:
    """A value in main memory, which may be written over: the same where it lies there. A run moves it to its device."""
    return buffer if buffer.value.device_name() == "cpu" else Buffer(value_of(array_of(buffer.value)))


def on_device(scope: Scope, v: Variable, place: Place) -> Buffer:
    """The value of a state variable in memory of a device."""
    held = scope.present(v.name)
    if isinstance(held, Buffer):
        if device_of(held.value) == (place.device, place.index) and held.memory == place.memory:
            return held
        held = array_of(held.value)
    array = held if held is not None else present_value(scope, v)
    place.check(v.name, array)
    if held is None and (place.device, place.lowering) == ("cpu", "cpu") and not array.flags.writeable:
        return in_program(scope, v, array, place)
    buffer = Buffer(place.value(array), v.value if held is None else None, place.memory)
    scope.put(v.name, buffer)
    return buffer


def in_program(scope: Scope, v: Variable, array: np.ndarray[Any, Any], place: Place) -> Buffer:
    """The value of a constant in the memory that the program has it in, such as the pages of a file: held for good, so that
    nobody writes over it."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C")
    buffer = Buffer(value_on(array), v.value, place.memory).hold()
    scope.put(v.name, buffer)
    return buffer


def _convolves(graph: Graph) -> bool:
    return any(op.type == "Conv" and not op.domain for op in graph.operators)

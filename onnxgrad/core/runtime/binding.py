"""The double-buffered binding of a training step: what is bound stays bound, as binding anew costs as much as a small step.

Tests: tests/core/runtime/test_buffers.py, tests/core/runtime/test_executor.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.core.runtime.stacks import Stack, parts_in, room_for
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import array_of, device_of, is_plain, value_of, value_on, view_of
from onnxgrad.dtypes import dtype_of

__all__ = ["DoubleBinding", "StateOutput"]


_HOST = CPUPlace()


class StateOutput(NamedTuple):
    """A state variable that a run replaces: its name, and the output with its new value.

    ``shape`` is None where it is not known, or where no memory can be had for such an element type.
    """

    name: str
    output: str
    shape: tuple[int, ...] | None
    dtype: Any


class _Side:
    """One binding of onnxruntime, and what is bound to it."""

    __slots__ = ("binding", "outputs", "read", "small", "stacked", "written")

    def __init__(self, binding: Any, inputs: int) -> None:
        self.binding = binding
        self.read: list[Any] = [None] * inputs
        self.stacked: dict[str, tuple[Buffer, ...]] = {}
        """By input and output: the parts of the stack that it is bound to."""
        self.written: dict[str, Buffer] = {}
        self.small: dict[str, Any] = {}
        self.outputs: dict[str, None] = {}
        """Outputs in the order of their first binding, in which onnxruntime gives them."""


def _copied_inputs(session: Any, inputs: Sequence[str], place: Place) -> frozenset[int]:
    """Which inputs onnxruntime copies when they are bound, as it reads them elsewhere: a later run would read the old copy."""
    if place.device == "cpu":
        return frozenset()
    infos = getattr(session, "get_input_memory_infos", None)
    if infos is None:  # of an onnxruntime that does not say where
        return frozenset(range(len(inputs)))
    device = {entry.name: info.name.lower() for entry, info in zip(session.get_inputs(), infos(), strict=True)}
    return frozenset(index for index, name in enumerate(inputs) if not device[name].startswith(place.device))


class DoubleBinding:
    """Binds the runs of one session on one scope.

    Two sides take turns: the state that one writes is what the other reads next. Each run writes to the memory that held the state
    before the last one, which the scope says is free; where somebody still holds it, to new memory. So there are two copies of the
    state in a scope, whichever sessions run on it.

    Args:
        session: of onnxruntime.
        inputs: names of the state that it reads.
        outputs: names of all that it returns.
        replaced: the state that it replaces.
        small: fetches, by output, that are copied for the caller and written over in the next run of the same side.
        place: where state lives.
        slots: outputs that are computed into memory of somebody else.
        rows: the shapes in which inputs and outputs take state whose own shape is another.
        stacks: of state that is neither among ``inputs`` nor in ``replaced``.
    """

    def __init__(
        self,
        session: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        replaced: Sequence[StateOutput],
        small: Sequence[Variable],
        place: Place,
        slots: Mapping[str, Any] | None = None,
        rows: Mapping[str, tuple[int, ...]] | None = None,
        stacks: Sequence[Stack] = (),
    ) -> None:
        self._inputs, self._outputs, self._replaced = inputs, outputs, replaced
        self._place, self._small, self._slots, self._rows = place, small, slots or {}, rows or {}
        self._stacks = stacks
        self._state = {output.output for output in replaced}
        self._sides = [_Side(session.io_binding(), len(inputs)) for _ in range(2)]
        self._copied = _copied_inputs(session, inputs, place)

    @property
    def binding(self) -> Any:
        """The binding of the side whose turn it is."""
        return self._sides[0].binding

    def swap(self) -> None:
        """Go to the other side."""
        self._sides.reverse()

    def outdated(self, scope: Scope) -> list[int]:
        """Which inputs are bound to another value than the present one, or to none."""
        read, present, copied = self._sides[0].read, scope.all_present(), self._copied
        return [
            index
            for index, name in enumerate(self._inputs)
            if read[index] is None or present.get(name) is not read[index] or index in copied
        ]

    def read(self, index: int, buffer: Buffer) -> None:
        """Bind an input to a value of the state."""
        side = self._sides[0]
        side.binding.bind_ortvalue_input(self._inputs[index], self._in_rows(self._inputs[index], buffer.value))
        side.read[index] = buffer

    def outdated_stacks(self, scope: Scope) -> list[Stack]:
        """Which stacks are bound to other values than the present ones, or to none."""
        bound, present = self._sides[0].stacked, scope.all_present() if self._stacks else {}
        return [
            stack
            for stack in self._stacks
            if stack.input not in bound
            or any(present.get(v.name) is not part for v, part in zip(stack.state, bound[stack.input], strict=True))
        ]

    def read_stack(self, stack: Stack, parts: tuple[Buffer, ...]) -> None:
        """Bind a stack that is read to the parts that are its state."""
        side, whole = self._sides[0], parts[0].whole
        assert whole is not None
        side.binding.bind_ortvalue_input(stack.input, whole.value)
        side.stacked[stack.input] = parts

    def feed(self, name: str, value: Any) -> None:
        """Bind what is fed: an array or an OrtValue."""
        if not isinstance(value, np.ndarray):
            self.binding.bind_ortvalue_input(name, value)
        elif is_plain(value):
            self.binding.bind_cpu_input(name, value)
        else:
            self.binding.bind_ortvalue_input(name, value_of(value))

    def run_options(self) -> Any:
        """The run options of the next run."""
        return None

    def present(self) -> list[Buffer]:
        """The values to which the inputs are bound."""
        side = self._sides[0]
        parts = [part for stack in self._stacks for part in side.stacked.get(stack.input, ())]
        return [buffer for buffer in [*side.read, *parts] if buffer is not None]

    def bind_outputs(self, scope: Scope, return_numpy: bool) -> None:
        """Bind the outputs: state to free memory of the scope, small fetches to their own, the others to what is allocated."""
        side = self._sides[0]
        for state in self._replaced:
            spare, bound = scope.spare(state.name), side.written.get(state.output)
            if spare is not None and spare is bound:
                continue
            if spare is not None and not self._fits(spare, state):
                spare = None
            if spare is None and state.shape is not None:
                # Allocated within the run it would stand between activations for good: 3 % of a decoder's peak. And what
                # onnxruntime up to 1.28 allocates is not ours: it gives references to what the binding returns last.
                spare = Buffer(self._place.room(state.shape, state.dtype), memory=self._place.memory)
            if spare is None:
                side.written.pop(state.output, None)
            else:
                side.binding.bind_ortvalue_output(state.output, self._in_rows(state.output, spare.value))
                side.written[state.output] = spare
                side.outputs[state.output] = None
        for stack in self._stacks:
            self._bind_stack(side, stack, scope)
        self._bind_small(side, return_numpy)
        for name, value in self._slots.items():
            side.binding.bind_ortvalue_output(name, value)
            side.outputs[name] = None
        for name in self._outputs:
            if name not in side.written and name not in side.small and name not in self._slots and name not in side.stacked:
                device = (self._place.device, self._place.index) if name in self._state or not return_numpy else ("cpu", 0)
                side.binding.bind_output(name, *device)
                side.outputs[name] = None

    def _bind_stack(self, side: _Side, stack: Stack, scope: Scope) -> None:
        """Bind the output of a stack to its free memory, if all of it is, or to new memory."""
        spares, bound = [scope.spare(v.name) for v in stack.state], side.stacked.get(stack.output)
        parts = None if None in spares else parts_in(stack, spares, self._place)
        if parts is not None and parts == bound:
            return
        parts = room_for(stack, self._place) if parts is None else parts
        whole = parts[0].whole
        assert whole is not None
        side.binding.bind_ortvalue_output(stack.output, whole.value)
        side.stacked[stack.output] = parts
        side.outputs[stack.output] = None

    def _fits(self, buffer: Buffer, state: StateOutput) -> bool:
        value = buffer.value
        equal = tuple(value.shape()) == state.shape and value.element_type() == dtype_of(state.dtype).number
        at = (self._place.device, self._place.index)
        return equal and device_of(value) == at and buffer.memory == self._place.memory

    def _in_rows(self, name: str, value: Any) -> Any:
        """A value in the shape in which an input or output takes it, on the same memory."""
        shape = self._rows.get(name)
        return value if shape is None else value_on(view_of(value).reshape(shape))

    def _own(self, value: Any) -> Any:
        """A copy of what onnxruntime has allocated."""
        return self._place.value(array_of(value))

    def _bind_small(self, side: _Side, return_numpy: bool) -> None:
        if not return_numpy:
            side.small.clear()
        elif not side.small:
            for v in self._small:
                side.small[v.name] = _HOST.room(v.static_shape or (), v.dtype.numpy)
                side.binding.bind_ortvalue_output(v.name, side.small[v.name])
                side.outputs[v.name] = None

    def results(self) -> tuple[dict[str, Any], dict[str, Buffer]]:
        """After the run: fetches that are no state by output, and the new state by output."""
        side = self._sides[0]
        fetched, state = {**side.small, **self._slots} if self._slots else side.small, side.written
        if self._stacks:
            state = state | {new: part for one in self._stacks for new, part in zip(one.new, side.stacked[one.output], strict=True)}
        if len(fetched) + len(side.written) + len(self._stacks) < len(self._outputs):
            fetched, state = dict(fetched), dict(state)
            for name, value in zip(side.outputs, side.binding.get_outputs(), strict=True):
                if name in self._state:
                    if name not in state:
                        state[name] = Buffer(self._own(value), memory=self._place.memory)
                elif name not in side.stacked:
                    fetched.setdefault(name, value)
        return fetched, state

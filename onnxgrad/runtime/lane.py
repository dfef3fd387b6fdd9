"""One of the two bindings of a training step: it keeps what is bound, as binding anew costs as much as a small step."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Lane"]


class Lane:
    """Inputs and outputs of a run. Two lanes take turns: the state that one writes is what the other reads next.

    A lane writes over the values that it wrote two runs ago, but only over those that nobody holds any more: not the scope,
    not another scope or session, not the user. Fetches are new, but for small ones that the caller copies.
    """

    __slots__ = ("_bound", "_given", "_holds", "_inputs", "_kept", "_outputs", "_read", "_small", "_state", "_written", "binding")

    def __init__(self, binding: Any, inputs: list[str], outputs: list[str], state: set[str], kept: set[str]) -> None:
        self.binding = binding
        self._inputs, self._outputs = inputs, outputs
        self._state, self._kept = state, kept
        self._read: list[Any] = [None] * len(inputs)
        self._bound: dict[str, None] = {}
        """Outputs in the order of their first binding, in which the binding gives them."""
        self._written: dict[str, Any] = {}
        self._given: dict[str, int] = {}
        """How many references the binding keeps to a value that was bound as output."""
        self._small: dict[str, Any] = {}
        """Fetches that are copied, and written over in the next run of this lane."""
        self._holds = 0
        """How many references onnxruntime's binding keeps to a value bound as input; versions differ."""

    def outdated(self, values: dict[str, Any]) -> list[int]:
        """Which inputs are bound to another value than this one of the state, or to none."""
        read = self._read
        return [i for i, name in enumerate(self._inputs) if read[i] is None or values.get(name) is not read[i]]

    def read(self, place: int, value: Any) -> None:
        """Bind an input to a value of the state."""
        before = sys.getrefcount(value)
        self.binding.bind_ortvalue_input(self._inputs[place], value)
        self._holds = sys.getrefcount(value) - before
        self._read[place] = value

    def make_room(self, state_device: tuple[str, int], fetch_device: tuple[str, int], small: dict[str, Any] | None) -> None:
        """Bind the outputs that cannot be written over to memory to be allocated, but for ``small`` fetches: to these values."""
        if small is not None:
            for name, value in small.items():
                if name not in self._small:
                    self.binding.bind_ortvalue_output(name, value)
                    self._bound[name] = None
                    self._small[name] = value
        else:
            self._small.clear()
        for name in self._outputs:
            if name not in self._small and (name not in self._kept or self._is_held(name)):
                self._written.pop(name, None)
                self._given.pop(name, None)
                self._bound[name] = None
                self.binding.bind_output(name, *(state_device if name in self._state else fetch_device))

    def _is_held(self, name: str) -> bool:
        """Whether anyone but this lane, and the other one as its former input, holds the value last written there."""
        value = self._written.get(name)
        # The references: the variable ``value``, the argument, ``_written`` here, ``_read`` of the other lane, its binding.
        return value is None or sys.getrefcount(value) > 4 + self._holds + self._given.get(name, 0)

    def write_to(self, values: dict[str, Any]) -> None:
        """Write these outputs that replace state to these values, which nobody holds any more."""
        for name, value in values.items():
            before = sys.getrefcount(value)
            self.binding.bind_ortvalue_output(name, value)
            self._given[name] = sys.getrefcount(value) - before
            self._bound[name] = None
            self._written[name] = value

    def left_behind(self, places: dict[str, int]) -> dict[str, Any]:
        """The state that this lane read in its last run, by the output that replaced it, as far as nobody else holds it.

        ``places`` says where it stands among the inputs.
        """
        found = {}
        for name, place in places.items():
            value = self._read[place]
            # The references: the variable ``value``, the argument, ``_read``, the binding.
            if name in self._kept and value is not None and sys.getrefcount(value) == 3 + self._holds:
                found[name] = value
        return found

    def results(self) -> dict[str, Any]:
        """The outputs by name, after the run."""
        if len(self._written) + len(self._small) < len(self._outputs):
            found = dict(zip(self._bound, self.binding.get_outputs(), strict=True))
            for name in self._kept:
                self._written.setdefault(name, found[name])
            return found | self._written | self._small
        return self._written | self._small

"""State of which each rank holds a share: what one has updated goes to all that read it, and all comes together for those who ask.

Tests: tests/distributed/test_sharded.py, tests/distributed/test_trainer_shares.py, tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import LEARNING_RATE, Variable, present_value, set_values
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_on, view_of
from onnxgrad.core.step.cut import is_small
from onnxgrad.core.step.shards import Shards
from onnxgrad.distributed.buckets import Slot
from onnxgrad.distributed.memory import Memory
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import TrainingError

__all__ = ["FlatWeights", "FollowedRates", "SharedState", "copied_range", "copy_state"]

Array = np.ndarray[Any, Any]


class SharedState:
    """The state of a program that ranks share out. A scope has a rank's share of a state that it holds alone as a row.

    Args:
        transport: between the ranks, which call each method together.
        shards: who updates what.
    """

    def __init__(self, transport: Transport, shards: Shards) -> None:
        self.transport, self.shards = transport, shards
        self._held = set(shards.held())

    def shared_out(self) -> list[Variable]:
        """The state that ranks hold shares of."""
        return self.shards.held()

    def own_rows(self, scope: Scope) -> dict[Variable, tuple[int, Array]]:
        """This rank's shares of a scope, as rows, and how many elements of the whole lie before each."""
        rows: dict[Variable, tuple[int, Array]] = {}
        for v in self.shared_out():
            start, stop = self.shards.own(v)
            flat = present_value(scope, v).reshape(-1)
            if stop > start:
                rows[v] = start, flat if flat.size == stop - start else flat[start:stop]
        return rows

    def keep_own(self, v: Variable, read: Callable[[int, int], Array], scope: Scope) -> bool:
        """Keep this rank's share of a state in a scope; False where it holds all of it, which is left to the caller.

        Args:
            v: the state.
            read: gives a copy of the elements from one number to before another.
            scope: that gets the share; of a pipeline zeros stand for the state of others, which take no memory.
        """
        start, stop = self.shards.own(v) if v in self._held else (0, 0)
        if v not in self._held or (start, stop) == (0, prod(v.static_shape or ())):
            return False
        scope.drop_spare(v.name)
        if self.shards.apart:
            scope.put(v.name, np.broadcast_to(np.zeros((), v.dtype.numpy), v.static_shape or ()))
        else:
            own = read(start, stop)
            scope.put(v.name, Buffer(value_on(own)) if own.size else own)
        return True

    def is_own_part(self, v: Variable, scope: Scope) -> bool:
        """Whether a scope has this rank's share of a state already.

        Raises:
            TrainingError: if it has another share.
        """
        value = scope.present(v.name)
        shape = None if value is None else tuple(value.value.shape() if isinstance(value, Buffer) else value.shape)
        if v not in self._held or shape in (None, v.static_shape):
            return False
        start, stop = self.shards.own(v)
        if shape != (stop - start,):
            raise TrainingError(
                f"this rank has another range of {v.name} than it is to update. Gather all state before, or load it."
            )
        return True

    def gather(self, scope: Scope, into: Scope | None, only: Collection[str] | None = None) -> None:
        """Write what ranks hold alone to a scope on each; to another one than the rank's own, all other state too.

        Args:
            scope: where the state of this rank is.
            into: where all of it shall be, perhaps the same; None on a rank that gives its shares alone.
            only: names of what is wanted; None for all.
        """
        for v in self.shared_out():
            if only is not None and v.name not in only:
                continue
            whole = None if into is None else np.empty(prod(v.static_shape or ()), v.dtype.numpy)
            for rank, start, stop in self.shards.states[v]:
                part = np.empty(stop - start, v.dtype.numpy) if whole is None else whole[start:stop]
                if rank == self.transport.rank:
                    mine = present_value(scope, v).reshape(-1)
                    np.copyto(part, mine[start:stop] if mine.size > part.size else mine)
                self.transport.broadcast_(part.view(np.uint8), rank)
            if into is not None and whole is not None:
                into.put(v.name, whole.reshape(v.static_shape or ()))
        if into is not None and into is not scope:
            copy_state(self.shards.program, scope, into, only, self._held)

    def forget(self, scope: Scope, but: Collection[str] = ()) -> None:
        """Let go of what other ranks hold; small state stays.

        Args:
            but: names of what this rank reads, too.
        """
        kept = set(but)
        for v in self.shared_out():
            if v.name in kept or is_small(v) or self.is_own_part(v, scope):
                continue
            held = scope.present(v.name)
            whole = view_of(held.value) if isinstance(held, Buffer) else present_value(scope, v)
            self.keep_own(v, partial(copied_range, whole), scope)


def copied_range(array: Array, start: int, stop: int) -> Array:
    """A copy of some elements of an array, in the order in which they lie."""
    return array.reshape(-1)[start:stop].copy()


class _Flat(NamedTuple):
    """Weights of one bucket: its flat array, and the buffers on it by name."""

    array: Any
    buffers: dict[str, Buffer]


class FlatWeights:
    """Weights that lie in flat arrays as their gradients do, so that a rank's range of an array is what it has updated of all.

    Ranges are updated in place, or into a second array, whose turn it then is.

    Args:
        memory: where the arrays lie.
        shards: who updates what.
        buckets: for each array its element type, its length, and where each weight lies in it.
    """

    def __init__(self, memory: Memory, shards: Shards, buckets: Sequence[tuple[Any, int, Mapping[Variable, Slot]]]) -> None:
        self._memory, self._shards, self._buckets = memory, shards, buckets
        self._sent = 0
        """How many arrays have been given to all in a step under way."""
        self._flats: WeakKeyDictionary[Scope, list[_Flat]] = WeakKeyDictionary()
        """The arrays in which the weights of a scope are, or become in a step under way"""
        self._others: WeakKeyDictionary[Scope, list[_Flat]] = WeakKeyDictionary()

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(np.dtype(dtype).itemsize * length for dtype, length, _ in self._buckets)

    def _made(self, number: int) -> _Flat:
        dtype, length, slots = self._buckets[number]
        array = self._memory.zeros(length, dtype)
        return _Flat(array, {v.name: Buffer(self._memory.value(array, slot.start, slot.shape)) for v, slot in slots.items()})

    def settle(self, scope: Scope) -> dict[str, Buffer]:
        """Move the weights of a scope to the arrays, where they are not there or somebody else has a handle on them; by name."""
        flats = self._flats.setdefault(scope, [_Flat(None, {}) for _ in self._buckets])
        for number, (_, _, slots) in enumerate(self._buckets):
            buffers = flats[number].buffers
            if buffers and all(scope.stored(name) is buffer and buffer.is_held_by(1) for name, buffer in buffers.items()):
                continue
            flats[number] = self._made(number)
            for v in slots:
                held = scope.stored(v.name)
                value = view_of(held.value) if isinstance(held, Buffer) else present_value(scope, v)
                np.copyto(view_of(flats[number].buffers[v.name].value), value)
            for name, buffer in flats[number].buffers.items():
                scope.put(name, buffer)
                scope.drop_spare(name)
        return {name: buffer for flat in flats for name, buffer in flat.buffers.items()}

    def targets(self, scope: Scope) -> dict[Variable, Any]:
        """OrtValues for the new values of this rank's ranges, as rows: in arrays that nobody reads any more."""
        flats = self._others.pop(scope, None) or [_Flat(None, {}) for _ in self._buckets]
        for number, flat in enumerate(flats):
            if not flat.buffers or not all(buffer.is_held_by(0) for buffer in flat.buffers.values()):
                flats[number] = self._made(number)
        present = self._flats.get(scope)
        if present is not None:
            self._others[scope] = present
        self._flats[scope] = flats
        rows: dict[Variable, Any] = {}
        for (_, _, slots), flat in zip(self._buckets, flats, strict=True):
            for v, slot in slots.items():
                start, stop = self._shards.own(v)
                if start < stop:
                    rows[v] = self._memory.value(flat.array, slot.start + start, (stop - start,))
        return rows

    def spread(self, scope: Scope) -> None:
        """Give all ranks the weights that each has updated; once more called after an interruption, it goes on."""
        flats = self._flats[scope]
        with self._memory.turn():
            for number in range(self._sent, len(flats)):
                self._memory.transport.all_gather_(flats[number].array)
                self._sent = number + 1
        self._sent = 0
        moved = [(name, buffer) for flat in flats for name, buffer in flat.buffers.items() if scope.stored(name) is not buffer]
        if moved:
            scope.swap(moved)
            for name, _ in moved:
                scope.drop_spare(name)  # the arrays take turns themselves


def copy_state(
    program: Program, scope: Scope, into: Scope, only: Collection[str] | None = None, but: Collection[Variable] = ()
) -> None:
    """Copy the state of a program to another scope.

    Args:
        only: names of what is wanted; None for all.
        but: what is left out.
    """
    left_out = set(but)
    copied = (v for v in program.list_vars() if v.persistable and v not in left_out and (only is None or v.name in only))
    set_values(((v, v.get_value(scope)) for v in copied), into)


class FollowedRates:
    """Learning rates that ``set_lr`` sets in the scope of a program, for a step whose state is in another one.

    Args:
        program: whose rates these are. Those that a schedule gives are set by whoever runs the step.
        scope: of the step.
    """

    def __init__(self, program: Program, scope: Scope) -> None:
        self._scope = scope
        scheduled = {v.name for v, _ in program.plan.schedulers}
        is_elsewhere = scope is not program.active_scope()
        rates = [v for v in program.list_vars() if v.persistable and v.doc == LEARNING_RATE and v.name not in scheduled]
        self._known = {v: float(v.get_value()) for v in rates} if is_elsewhere else {}

    def take(self) -> None:
        """Set the values that have changed since the last time."""
        for v, known in self._known.items():
            rate = float(v.get_value())
            if rate != known:
                self._known[v] = rate
                self._scope.set(v.name, np.asarray(rate, v.dtype.numpy))

"""Values of persistable variables by name: what lives between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from onnxgrad.core.state.buffers import BUFFER_OF, LOCK, Buffer
from onnxgrad.core.state.inputs import Door, Given, as_array, converted
from onnxgrad.core.state.values import array_of, view_of
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentError, ArgumentTypeError

__all__ = ["PendingUpdates", "Scope", "ScopeTensor", "ScopeVariable"]

T = TypeVar("T")
Value: TypeAlias = "np.ndarray[Any, Any] | Buffer"


_STATE = Door("the value of", "the variable", ArgumentError)


class Like(Protocol):
    """What says how a value looks: a variable."""

    @property
    def static_shape(self) -> tuple[int, ...] | None: ...

    @property
    def dtype(self) -> DType: ...


class PendingUpdates(Protocol):
    """What is left of a step whose new values are put in place one after another.

    Attributes:
        has_begun: whether it must be gone on with; what has not begun is dropped where it fails.
    """

    has_begun: bool

    def finish(self) -> None:
        """Put in place what is not; called by the scope alone, and again where it was interrupted."""


Now: TypeAlias = "tuple[dict[str, Value], dict[str, Buffer], tuple[PendingUpdates, ...], tuple[PendingUpdates, ...], int, Any]"
"""All that a scope knows: present values, spares, updates that are applied before anybody reads, those that follow when the
outermost ``Scope.change`` ends, how many of these are under way, and what is put back if the updates cannot begin.

A plain tuple is made and stored as a whole: what the handler of a signal raises comes where functions are called."""


class Scope:
    """Weights, optimizer state and running statistics by name. The Executor keeps them on its device; reading gives numpy.

    Several threads may use one scope: a run that replaces state has it for itself, others wait.

    What changes several values does so by one store, so whatever interrupts it leaves all of the old or all of the new ones.

    Attributes:
        lock: held by whoever replaces values.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self._now: Now = ({}, {}, (), (), 0, None)
        self._kept: tuple[Mapping[str, Value], ...] = ()
        """The present values from before each ``change`` that is under way, which holds them."""

    def get(self, name: str) -> np.ndarray[Any, Any] | None:
        """The value as a numpy array of its own, or None when there is none."""
        with self.lock:
            value = self.present(name)
            if value is None:
                return None
            return array_of(value.value) if isinstance(value, Buffer) else value.copy()

    @contextmanager
    def viewed(self, name: str) -> Iterator[np.ndarray[Any, Any] | None]:
        """Yield the value of ``get`` for the length of a ``with`` block, without a copy if it is in main memory."""
        with self.lock:
            value = self.present(name)
            if isinstance(value, Buffer):
                value.hold()
        try:
            yield view_of(value.value) if isinstance(value, Buffer) else value
        finally:
            if isinstance(value, Buffer):
                value.release()

    def set(self, name: str, value: Given, like: Like | None = None) -> None:
        """Store a value.

        Args:
            name: of the value.
            value: an array, a number, or nested lists.
            like: the variable whose shape and element type it is to have.

        Raises:
            ArgumentError: if it does not have the shape of the variable ``like``, or the variable's type does not hold it.
        """
        self.put(name, _as_value(name, value, like))

    def set_all(self, values: Iterable[tuple[str, Given, Like | None]]) -> None:
        """Store several values at once: names, values as for ``set``, and variables. If one is refused, none is stored.

        Args:
            values: (name, value, variable or None) for each.

        Raises:
            ArgumentError: if one does not have the shape of its variable.
        """
        self.put_all({name: _as_value(name, value, like) for name, value, like in values})

    def find_var(self, name: str) -> ScopeVariable | None:
        """Handle of a value, or None when the scope holds none of that name."""
        return ScopeVariable(self, name) if name in self._now[0] else None

    def var(self, name: str) -> ScopeVariable:
        """Handle of a value, which need not exist yet."""
        return ScopeVariable(self, name)

    def local_var_names(self) -> list[str]:
        return list(self._now[0])

    @property
    def values(self) -> _Values:
        """The values as they are: arrays, and OrtValues where the Executor has them on its device.

        An OrtValue that is taken from here keeps its content for as long as the caller has it.
        """
        return _Values(self)

    def copy(self) -> Scope:
        """Another scope with the same values; no memory is copied."""
        other = Scope()
        with self.lock:
            self.finish()
            other.put_all(self._now[0])
        return other

    def take(self, other: Scope) -> None:
        """Make the values of another scope the present ones, all at once; no memory is copied.

        Args:
            other: the other scope, which stays as it is.
        """
        with other.lock, self.lock:
            other.finish()
            self.finish()
            present, spare, queue, follows, depth, back = self._now
            values = other._now[0].copy()
            for value in values.values():
                if isinstance(value, Buffer):
                    value.hold()
            self._now = (values, spare, queue, follows, depth, back)
            _release(present.values())

    def __copy__(self) -> Scope:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Scope:
        """Another scope with the same values, which change apart from these."""
        return self.copy()

    def __reduce__(self) -> Any:
        message = "a Scope is not pickled: its values lie on a device"
        raise ArgumentTypeError(f"{message}. Write them with static.save or Trainer.save, or pickle Program.state_dict().")

    def change(self, change: Callable[[], T]) -> T:
        """Call a function that changes values in several steps, so that all of it happens or, if it raises anything, nothing.

        Updates that runs queue are applied when it ends, so that nothing need be copied to be put back.

        Args:
            change: takes nothing; what it returns is returned.

        Returns:
            What it returns.
        """
        with self.lock:
            self.finish()
            kept = self._now
            present, spare, _, follows, depth, _ = kept
            held = [value for value in present.values() if isinstance(value, Buffer)]
            with LOCK:
                for value in held:
                    value._holds += 1
            kept_before = self._kept
            try:
                self._kept = (*kept_before, present)
                self._now = (present.copy(), spare.copy(), (), follows, depth + 1, None)
                result = change()
                changed, spare, queue, follows, _, _ = self._now
                if depth:
                    self._now = (changed, spare, queue, follows, depth, None)
                else:
                    self._now = (changed, spare, queue + follows, (), 0, kept if queue else None)
            except BaseException:
                changed = self._now[0]
                self._now = kept
                # What was replaced is the scope's no more, so that it goes on to be held here.
                _release(value for name, value in present.items() if changed.get(name) is value)
                _release(value for name, value in changed.items() if present.get(name) is not value)
                raise
            finally:
                self._kept = kept_before
            if depth:
                _release(held)
                return result
            try:
                _release(held)
                self.finish()
            except KeyboardInterrupt:
                self.finish()  # before anybody reads
                raise
        return result

    def clear(self) -> None:
        """Forget all values."""
        with self.lock:
            present, _, _, _, depth, _ = self._now
            self._now = ({}, {}, (), (), depth, None)
            _release(present.values())

    # What runs do ----------------------------------------------------------------------------------------------------

    def present(self, name: str) -> Value | None:
        """The value as it is stored, once the queued updates are applied."""
        if self._now[2]:
            self.finish()
        return self._now[0].get(name)

    def all_present(self) -> Mapping[str, Value]:
        """All values as they are stored, once the queued updates are applied."""
        if self._now[2]:
            self.finish()
        return self._now[0]

    def stored(self, name: str) -> Value | None:
        """The value as it is stored now."""
        return self._now[0].get(name)

    @property
    def changes(self) -> bool:
        """Whether a ``change`` is under way, for whose end updates wait."""
        return self._now[4] > 0

    @property
    def waits(self) -> bool:
        """Whether updates are queued."""
        return bool(self._now[2])

    def defer(self, updates: PendingUpdates) -> None:
        """Queue the updates of a step. They are applied now or at the end of a ``change``, and before any value is read.

        Args:
            updates: of one step.
        """
        with self.lock:
            present, spare, queue, follows, depth, back = self._now
            self._now = (present, spare, (*queue, updates), follows, depth, back)
            if not depth:
                self.finish()

    def follow(self, owner: object, **attributes: object) -> None:
        """Set attributes of an object together with the values of a ``change``: counters, which stand where the values do.

        Args:
            owner: the object.
            attributes: their new values, by name.
        """
        with self.lock:
            present, spare, queue, follows, depth, back = self._now
            follows = (*follows, _Follows(owner, attributes))
            if depth:
                self._now = (present, spare, queue, follows, depth, back)
            else:
                self._now = (present, spare, queue + follows, (), 0, back)
                self.finish()

    def finish(self) -> None:
        """Apply the queued updates. Where that fails, they stay queued if some are in place already, and are dropped otherwise."""
        if not self._now[2]:
            return
        with self.lock:
            present, spare, queue, follows, depth, back = self._now
            try:
                self._now = (present, spare, (), follows, depth, None)
                for updates in queue:
                    updates.finish()
            except BaseException:
                # All are gone on with: what was finished gives the same again.
                present, spare, _, _, _, _ = self._now
                self._now = (present, spare, queue, follows, depth, back)
                if not queue[0].has_begun:
                    self._drop(back or (present, spare, (), follows, depth, None))
                raise

    def _drop(self, back: Now) -> None:
        """Go back to what was there before the queued updates"""
        before, present = back[0], self._now[0]
        for name, value in before.items():
            if isinstance(value, Buffer) and present.get(name) is not value:
                value.hold()
        self._now = back
        _release(value for name, value in present.items() if before.get(name) is not value)

    def drop_spare(self, name: str) -> None:
        """Free the memory that the last run but one wrote a value to."""
        self._now[1].pop(name, None)

    def put(self, name: str, value: Value) -> None:
        """Make a value the present one.

        Args:
            name: of the value.
            value: an array, or a buffer of the Executor's.
        """
        with self.lock:
            present = self._now[0]
            before = present.get(name)
            present[name] = value.hold() if isinstance(value, Buffer) else value
            if isinstance(before, Buffer):
                before.release()

    def put_all(self, values: Mapping[str, Value]) -> None:
        """Make several values the present ones, all at once.

        Args:
            values: arrays, or buffers of the Executor's, by name.
        """
        with self.lock:
            present, spare, queue, follows, depth, back = self._now
            new = {**present, **values}
            for value in values.values():
                if isinstance(value, Buffer):
                    value.hold()
            self._now = (new, spare, queue, follows, depth, back)
            _release(present.get(name) for name in values)

    def swap(self, written: Sequence[tuple[str, Buffer]]) -> None:
        """Make the results of a run the present values; the next run may overwrite the replaced values.

        Args:
            written: (name, buffer) for each.
        """
        with self.lock, LOCK:
            before, spare, queue, follows, depth, back = self._now
            present, replaced, at = before.copy(), [], id(self)
            for name, value in written:
                # What is counted once too often is not written over, whatever interrupts this.
                value._holds += 1
                old = before.get(name)
                present[name] = value
                if old.__class__ is Buffer:
                    old.origin = None
                    old.spare_of = (at, name)  # one name's, if several began with it
                    spare[name] = old  # and held, until it is replaced
                    replaced.append(old)
            self._now = (present, spare, queue, follows, depth, back)
            for old in replaced:
                old._holds -= 1

    def is_alone(self, name: str, buffer: Buffer) -> bool:
        """Return whether nobody but this scope holds a present value.

        Args:
            name: of the value.
            buffer: the present value.
        """
        return buffer.is_held_by(1 + sum(kept.get(name) is buffer for kept in self._kept))

    def spare(self, name: str) -> Buffer | None:
        """The memory that the last run but one wrote this value to, if nobody holds it."""
        buffer = self._now[1].get(name)
        return buffer if buffer is not None and buffer._holds == 0 and buffer.spare_of == (id(self), name) else None

    def __del__(self) -> None:
        now = getattr(self, "_now", None)  # none where its making was interrupted
        if now is not None:
            _release(now[0].values())


class _Follows:
    """Attributes of an object that are set once values are the present ones."""

    has_begun = True

    def __init__(self, owner: object, attributes: dict[str, Any]) -> None:
        self._owner, self._attributes = owner, attributes

    def finish(self) -> None:
        vars(self._owner).update(self._attributes)


class _Values(MutableMapping[str, Any]):
    """``Scope.values``: reading an OrtValue lends it out."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __getitem__(self, name: str) -> Any:
        with self._scope.lock:
            self._scope.finish()
            value = self._scope._now[0][name]
            return value.lend() if isinstance(value, Buffer) else value

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            value = BUFFER_OF.get(value) or _owned_by_caller(value)
        self._scope.put(name, value)

    def __delitem__(self, name: str) -> None:
        with self._scope.lock:
            value = self._scope._now[0].pop(name)
            if isinstance(value, Buffer):
                value.release()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._scope._now[0]))

    def __len__(self) -> int:
        return len(self._scope._now[0])


def _as_value(name: str, value: Any, like: Like | None) -> np.ndarray[Any, Any]:
    """An array of the scope's own"""
    array = as_array(value, name, _STATE)
    if like is not None:
        shape = like.static_shape
        if shape is not None and array.shape != shape:
            raise ArgumentError(f"{name} has shape {list(shape)}, the new value has {list(array.shape)}.")
        array = converted(array, like.dtype, name, _STATE)
    return array.copy()


def _release(values: Iterable[Any]) -> None:
    with LOCK:
        for value in values:
            if isinstance(value, Buffer):
                value._holds -= 1


def _owned_by_caller(value: Any) -> Buffer:
    """An OrtValue that a caller made: it is never written over."""
    return Buffer(value).hold()


class ScopeVariable:
    """One entry of a Scope."""

    def __init__(self, scope: Scope, name: str) -> None:
        self.scope = scope
        self.name = name

    def get_tensor(self) -> ScopeTensor:
        return ScopeTensor(self.scope, self.name)


class ScopeTensor:
    """View of a value in a Scope: ``np.array(t)`` reads it, ``t.set(array, place)`` writes it."""

    def __init__(self, scope: Scope, name: str) -> None:
        self.scope = scope
        self.name = name

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = np.asarray(self.scope.get(self.name))
        return value if dtype is None else value.astype(dtype)

    def set(self, array: Any, place: Any = None) -> None:
        self.scope.set(self.name, array)

    def shape(self) -> list[int]:
        return list(np.asarray(self.scope.get(self.name)).shape)

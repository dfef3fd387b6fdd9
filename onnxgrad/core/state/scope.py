"""Values of persistable variables by name: what lives between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.state.buffers import BUFFER_OF, LOCK, Buffer
from onnxgrad.core.state.inputs import Door, as_array, converted
from onnxgrad.core.state.values import array_of, view_of
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentError

__all__ = ["PendingUpdates", "Scope", "ScopeTensor", "ScopeVariable", "fitted"]


_STATE = Door("the value of", "the variable", ArgumentError)


class Like(Protocol):
    """What says how a value looks: a variable."""

    @property
    def static_shape(self) -> tuple[int, ...] | None: ...

    @property
    def dtype(self) -> DType: ...


class PendingUpdates(Protocol):
    """What is left of a step whose new values are put in place one after another."""

    has_begun: bool

    def finish(self) -> None:
        """Put in place what is not; called by the scope alone."""


def fitted(name: str, value: Any, like: Like) -> np.ndarray[Any, Any]:
    """Convert the new value of a variable into an array of its element type.

    Raises:
        ArgumentError: if it does not have the variable's shape, or the variable's type does not hold it.
    """
    array, shape = as_array(value, name, _STATE), like.static_shape
    if shape is not None and array.shape != shape:
        raise ArgumentError(f"{name} has shape {list(shape)}, the new value has {list(array.shape)}.")
    return converted(array, like.dtype, name, _STATE)


class Scope:
    """Weights, optimizer state and running statistics by name. The Executor keeps them on its device; reading gives numpy.

    Several threads may use one scope: a run that replaces state has it for itself, others wait.

    Attributes:
        lock: held by whoever replaces values.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self._present: dict[str, np.ndarray[Any, Any] | Buffer] = {}
        self._spare: dict[str, Buffer] = {}
        self._pending: PendingUpdates | None = None
        self._transactions = 0

    def get(self, name: str) -> Any:
        """The value as a numpy array of its own, or None when there is none."""
        with self.lock:
            value = self.present(name)
            if value is None:
                return None
            return array_of(value.value) if isinstance(value, Buffer) else value.copy()

    @contextmanager
    def viewed(self, name: str) -> Iterator[Any]:
        """What ``get`` gives, without a copy where it lies in main memory, for the length of a ``with`` block."""
        with self.lock:
            value = self.present(name)
            if isinstance(value, Buffer):
                value.hold()
        try:
            yield view_of(value.value) if isinstance(value, Buffer) else value
        finally:
            if isinstance(value, Buffer):
                value.release()

    def set(self, name: str, value: Any, like: Like | None = None) -> None:
        """Store a value.

        Raises:
            ArgumentError: if it does not have the shape of the variable ``like``, or the variable's type does not hold it.
        """
        self.put(name, (as_array(value, name, _STATE) if like is None else fitted(name, value, like)).copy())

    def find_var(self, name: str) -> ScopeVariable | None:
        """Handle of a value, or None when the scope holds none of that name."""
        return ScopeVariable(self, name) if name in self._present else None

    def var(self, name: str) -> ScopeVariable:
        """Handle of a value, which need not exist yet."""
        return ScopeVariable(self, name)

    def local_var_names(self) -> list[str]:
        return list(self._present)

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
            for name, value in self._present.items():
                other.put(name, value)
        return other

    @contextmanager
    def transaction(self) -> Iterator[Callable[[], None]]:
        """Keep the present values as they are inside a ``with`` block; yields a function that puts them back.

        Updates that runs queue are applied when the block ends, so that nothing need be copied to be put back.
        """
        kept = self.copy()
        self._transactions += 1

        def restore() -> None:
            with self.lock:
                self._pending = None
                for name in set(self._present) - set(kept._present):
                    del self.values[name]
                for name, value in kept._present.items():
                    self.put(name, value)

        try:
            yield restore
        finally:
            self._transactions -= 1
            kept.clear()
        self.finish()

    def clear(self) -> None:
        """Forget all values."""
        with self.lock:
            present, self._present, self._spare, self._pending = self._present, {}, {}, None
            for value in present.values():
                if isinstance(value, Buffer):
                    value.release()

    # What runs do ----------------------------------------------------------------------------------------------------

    def present(self, name: str) -> np.ndarray[Any, Any] | Buffer | None:
        """The value as it is stored, once the queued updates are applied."""
        if self._pending is not None:
            self.finish()
        return self._present.get(name)

    def stored(self, name: str) -> np.ndarray[Any, Any] | Buffer | None:
        """The value as it is stored now."""
        return self._present.get(name)

    @property
    def defers(self) -> bool:
        """Whether updates wait for the end of a transaction."""
        return self._transactions > 0

    def defer(self, updates: PendingUpdates) -> None:
        """Queue the updates of a step. They are applied now or at the end of a ``transaction``, and before any value is read."""
        with self.lock:
            self._pending = updates
            if not self._transactions:
                self.finish()

    def finish(self) -> None:
        """Apply the queued updates. Where that fails, they stay queued if some are in place already, and are dropped otherwise."""
        with self.lock:
            updates, self._pending = self._pending, None
            if updates is None:
                return
            try:
                updates.finish()
            except BaseException:
                self._pending = updates if updates.has_begun else None
                raise

    def drop_spare(self, name: str) -> None:
        """Free the memory that the last run but one wrote a value to."""
        self._spare.pop(name, None)

    def put(self, name: str, value: np.ndarray[Any, Any] | Buffer) -> None:
        """Make a value the present one."""
        with self.lock:
            before = self._present.get(name)
            self._present[name] = value.hold() if isinstance(value, Buffer) else value
            if isinstance(before, Buffer):
                before.release()

    def swap(self, written: Iterable[tuple[str, Buffer]]) -> None:
        """Make what a run wrote the present values; what they replace may be written over in the next run."""
        with self.lock, LOCK:
            for name, value in written:
                before = self._present.get(name)
                self._present[name] = value
                value._holds += 1
                if isinstance(before, Buffer):
                    before._holds -= 1
                    before.origin = None
                    before.spare_of = (id(self), name)  # one name's, if several began with it
                    self._spare[name] = before

    def spare(self, name: str) -> Buffer | None:
        """The memory that the last run but one wrote this value to, if nobody holds it."""
        buffer = self._spare.get(name)
        return buffer if buffer is not None and buffer._holds == 0 and buffer.spare_of == (id(self), name) else None

    def __del__(self) -> None:
        self.clear()


class _Values(MutableMapping[str, Any]):
    """``Scope.values``: reading an OrtValue lends it out."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __getitem__(self, name: str) -> Any:
        with self._scope.lock:
            self._scope.finish()
            value = self._scope._present[name]
            return value.lend() if isinstance(value, Buffer) else value

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            value = BUFFER_OF.get(value) or _owned_by_caller(value)
        self._scope.put(name, value)

    def __delitem__(self, name: str) -> None:
        with self._scope.lock:
            value = self._scope._present.pop(name)
            if isinstance(value, Buffer):
                value.release()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._scope._present))

    def __len__(self) -> int:
        return len(self._scope._present)


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

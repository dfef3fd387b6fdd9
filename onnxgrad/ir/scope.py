"""Values of persistable variables by name: what lives between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.errors import ArgumentError

if TYPE_CHECKING:
    from onnxgrad.ir.variable import Variable

__all__ = ["Scope", "ScopeTensor", "ScopeVariable"]


class Scope:
    """Weights, optimizer state and running statistics. The Executor keeps them on its device; reading gives numpy."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The value as a numpy array, or None when there is none."""
        value = self.values.get(name)
        if value is None or isinstance(value, np.ndarray):
            return value
        # OrtValue.numpy() is a view of memory that goes with the OrtValue.
        return np.array(value.numpy())

    def set(self, name: str, value: Any, like: Variable | None = None) -> None:
        """Store a value.

        Raises:
            ArgumentError: if it does not have the shape of the variable ``like``.
        """
        array = np.asarray(value)
        if like is not None:
            shape = like.static_shape
            if shape is not None and array.shape != shape:
                raise ArgumentError(f"{name} has shape {list(shape)}, the new value has {list(array.shape)}.")
            array = array.astype(like.dtype.numpy, copy=False)
        self.values[name] = array.copy()

    def find_var(self, name: str) -> ScopeVariable | None:
        """Handle of a value, or None when the scope holds none of that name."""
        return ScopeVariable(self, name) if name in self.values else None

    def var(self, name: str) -> ScopeVariable:
        """Handle of a value, which need not exist yet."""
        return ScopeVariable(self, name)

    def local_var_names(self) -> list[str]:
        return list(self.values)


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

"""Values of weights and constants: in memory, or read when somebody looks.

Tests: tests/core/interop/test_external_layouts.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import OutOfMemory

__all__ = ["TensorValue"]


class TensorValue:
    """A constant array.

    ``origin`` is the message it was read from. The exporter writes that message back unchanged, which keeps the storage
    (raw, typed or external) of an untouched weight; nobody else looks at it.
    """

    __slots__ = ("_array", "_keeps", "_load", "dtype", "origin", "shape")

    def __init__(
        self,
        dtype: DType,
        shape: tuple[int, ...],
        array: np.ndarray[Any, Any] | None = None,
        load: Callable[[], np.ndarray[Any, Any]] | None = None,
        origin: Any = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.origin = origin
        self._array = array
        self._load = load
        self._keeps = True

    @classmethod
    def of(cls, value: Any, dtype: DType | None = None) -> TensorValue:
        """Wrap an array, or what numpy makes one from; Python floats become float32."""
        if dtype is None and not isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            if array.dtype == np.float64:
                array = array.astype(np.float32)
        else:
            array = np.asarray(value, None if dtype is None else dtype.numpy)
        return cls(dtype_of(array.dtype), array.shape, array)

    @classmethod
    def computed(cls, dtype: DType, shape: tuple[int, ...], compute: Callable[[], np.ndarray[Any, Any]]) -> TensorValue:
        """Wrap a function that gives the elements, which is called anew at each look: of many such weights one is in memory."""
        value = cls(dtype, shape, None, compute)
        value._keeps = False
        return value

    @property
    def size(self) -> int:
        return prod(self.shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements. A weight in an external file is read anew at each call and not kept."""
        if self._array is not None:
            return self._array
        assert self._load is not None
        try:
            array = self._load()
        except MemoryError as error:
            raise OutOfMemory(f"no memory for a tensor of shape {list(self.shape)}. Free some, or use a larger machine.") from error
        if self._keeps and not getattr(self.origin, "external_data", None):
            self._array = array
        return array

    def __repr__(self) -> str:
        return f"Tensor({self.dtype.name}, {list(self.shape)})"

"""Memory of flat arrays that ranks exchange: main memory here, that of a device in ``distributed.device_memory``.

A flat array is one of numpy here and a tensor of torch there. Both take slices, ``flat[...] = other``, ``flat += other`` and
``flat *= number``; the rest is what this page names.

Tests: tests/distributed/test_programs.py, tests/distributed/test_device_memory.py.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import AbstractContextManager, nullcontext
from mmap import mmap
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of, value_on, view_of
from onnxgrad.distributed.transport import Transport, reused_buffer

__all__ = ["MainMemory", "Memory", "aligned_zeros", "give_back"]

Array = np.ndarray[Any, Any]


class Memory(Protocol):
    """Where flat arrays lie.

    Attributes:
        transport: whose collectives take them.
        name: of the device.
    """

    transport: Any
    name: str

    def place(self, place: Place) -> Place:
        """The place of the sessions that compute into this memory and read it, beside what is exchanged.

        Args:
            place: that was asked for.

        Raises:
            ArgumentError: if it does not reach this memory.
        """

    def turn(self) -> AbstractContextManager[Any]:
        """The context in which flat arrays are computed with."""

    def wait(self) -> None:
        """Wait until what was computed and exchanged is there for whoever reads it otherwise than by a session or by this."""

    def zeros(self, size: int, dtype: np.dtype[Any]) -> Any:
        """A flat array of zeros, whose memory is given back to the system when it is let go of."""

    def scratch(self, size: int, dtype: np.dtype[Any]) -> Any:
        """A flat array of anything, until the next one of this element type is asked for."""

    def taken(self, array: Array) -> Any:
        """A copy of an array of rank 1."""

    def array(self, flat: Any) -> Array:
        """A flat array as one in main memory, which may be the same."""

    def copy(self, flat: Any) -> Any:
        """A copy of a flat array."""

    def value(self, flat: Any, start: int, shape: tuple[int, ...]) -> Any:
        """An OrtValue on the elements from ``start`` on."""

    def state(self, scope: Scope, v: Variable) -> Any:
        """The elements of a state here, which nobody else holds, to be written over."""

    def scale(self, flat: Any, factor: float | None) -> None:
        """Multiply a flat array; None for zeros, whatever it holds."""

    def is_finite(self, flat: Any) -> bool:
        """Whether all numbers are."""

    def drop_infinite(self, flat: Any) -> None:
        """Set what is not finite to 0."""


class MainMemory:
    """Flat arrays of numpy in main memory.

    Args:
        transport: between the ranks.
    """

    name = "cpu"

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def place(self, place: Place) -> Place:
        return place

    def turn(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def wait(self) -> None:
        """Main memory is waited for by each exchange."""

    def zeros(self, size: int, dtype: np.dtype[Any]) -> Array:
        return aligned_zeros(size, dtype)

    def scratch(self, size: int, dtype: np.dtype[Any]) -> Array:
        return reused_buffer(size, dtype)

    def taken(self, array: Array) -> Array:
        return array.copy()

    def array(self, flat: Array) -> Array:
        return flat

    def copy(self, flat: Array) -> Array:
        return flat.copy()

    def value(self, flat: Array, start: int, shape: tuple[int, ...]) -> Any:
        size = int(np.prod(shape, dtype=np.int64))
        return value_on(flat[start : start + size].reshape(shape))

    def state(self, scope: Scope, v: Variable) -> Array:
        buffer = scope.present(v.name)
        if not isinstance(buffer, Buffer) or not buffer.is_held_by(1) or buffer.value.device_name() != "cpu":
            buffer = Buffer(value_of(v.get_value(scope)))
            scope.put(v.name, buffer)
        buffer.origin = None
        return view_of(buffer.value).reshape(-1)

    def scale(self, flat: Array, factor: float | None) -> None:
        if factor is None:
            flat.fill(0)
        elif factor != 1:
            np.multiply(flat, flat.dtype.type(factor), out=flat)

    def is_finite(self, flat: Array) -> bool:
        return bool(np.isfinite(flat).all())

    def drop_infinite(self, flat: Array) -> None:
        is_finite = np.isfinite(flat)
        if not is_finite.all():
            flat[~is_finite] = 0


def aligned_zeros(size: int, dtype: Any) -> Array:
    """A flat array of zeros that begins at a page of the system's, which has all of its memory back when the array is let go."""
    dtype = np.dtype(dtype)
    memory = mmap(-1, max(size * dtype.itemsize, 1))
    return np.frombuffer(memory, np.uint8, size * dtype.itemsize).view(dtype)


def give_back() -> None:
    """Let the system have the memory back that was freed, and that the C library keeps, as glibc does with arrays below 32 MB."""
    trim = None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

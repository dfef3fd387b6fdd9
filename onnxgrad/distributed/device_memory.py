"""Flat arrays in the memory of a GPU that ranks exchange there: the host touches none of them.

A step computes gradients into memory that the transport has allocated, on the transport's stream. What adds them up, and what
applies them, follows on the same stream. The host sees the loss and its weight alone; with 16-bit numbers also a byte that says
whether all are finite. The largest elements alone (top-k) are found on the host, so these gradients go by way of main memory.

Tests: tests/distributed/test_device_memory.py, tests/cuda_stub/test_residency.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import CUDAPlace, Place
from onnxgrad.core.runtime.prepared import on_device
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.distributed.memory import MainMemory, Memory
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import ArgumentError

__all__ = ["DeviceMemory", "DeviceTransport", "device_of_transport", "memory_of"]

Array = np.ndarray[Any, Any]


class DeviceTransport(Transport, Protocol):
    """A transport whose collectives also take what lies in the memory of a device, as those of ``TorchTransport`` over NCCL do.

    Attributes:
        device: its name and number.
        stream: the address of the CUDA stream on which it exchanges; 0 for none.
    """

    device: tuple[str, int] | None
    stream: int

    def on_stream(self) -> AbstractContextManager[Any]:
        """The context in which tensors are computed with on the stream."""

    def wait(self) -> None:
        """Wait until what is on the stream is done."""

    def room(self, size: int, dtype: np.dtype[Any]) -> Any:
        """Allocate a tensor of zeros of rank 1 on the device."""

    def taken(self, array: Array) -> Any:
        """Copy an array of rank 1 to the device."""

    def value(self, tensor: Any) -> Any:
        """An OrtValue on the memory of a tensor."""

    def view(self, value: Any) -> Any:
        """A tensor of rank 1 on the memory of an OrtValue."""


def device_of_transport(transport: Any) -> DeviceTransport | None:
    """Return the transport that exchanges in the memory of a device, under the watch of others; None where there is none."""
    while not isinstance(getattr(transport, "device", None), tuple):
        if not hasattr(transport, "transport"):
            return None
        transport = transport.transport
    engine: DeviceTransport = transport
    return engine


def memory_of(transport: Transport, strategy: Strategy) -> Memory:
    """The memory in which ranks exchange gradients: of the transport's device, or main memory.

    Args:
        transport: between the ranks.
        strategy: how gradients travel. What is largest of them (``compress="top-k"``) is found in main memory.

    Raises:
        ArgumentError: if gradients are to travel on the way, which they do not on a device.
    """
    engine = device_of_transport(transport)
    if engine is None or strategy.compress == "top-k":
        return MainMemory(transport)
    if (strategy.overlap or 1) > 1:
        message = "gradients that are exchanged on a device follow the step on its stream"
        raise ArgumentError(f"overlap={strategy.overlap}: {message}. Leave overlap out.")
    return DeviceMemory(engine)


class DeviceMemory:
    """Flat tensors on a device.

    Args:
        transport: that allocates and exchanges them.
    """

    def __init__(self, transport: DeviceTransport) -> None:
        assert transport.device is not None
        self.transport, self.name = transport, transport.device[0]
        self._place: Place | None = None

    def place(self, place: Place) -> Place:
        """The place with the transport's stream.

        Raises:
            ArgumentError: if it is another device than the transport's.
        """
        if (place.device, place.index) != self.transport.device:
            name, index = self.transport.device or ("", 0)
            action = f"Train on CUDAPlace({index})" if name == "cuda" else f"Train on {name}"
            message = f"ranks exchange gradients in the memory of {name}:{index}, and the step runs on {place!r}"
            raise ArgumentError(f"{message}. {action}, or exchange by another backend, as 'gloo'.")
        if isinstance(place, CUDAPlace) and self.transport.stream:
            place = place.on_stream(self.transport.stream)
        self._place = place.plain()
        return place

    def turn(self) -> AbstractContextManager[Any]:
        return self.transport.on_stream()

    def wait(self) -> None:
        self.transport.wait()

    def zeros(self, size: int, dtype: np.dtype[Any]) -> Any:
        return self.transport.room(size, np.dtype(dtype))

    def scratch(self, size: int, dtype: np.dtype[Any]) -> Any:
        return self.transport.room(size, np.dtype(dtype))

    def taken(self, array: Array) -> Any:
        return self.transport.taken(array)

    def array(self, flat: Any) -> Array:
        return np.array(flat.cpu())

    def copy(self, flat: Any) -> Any:
        return flat.clone()

    def value(self, flat: Any, start: int, shape: tuple[int, ...]) -> Any:
        size = int(np.prod(shape, dtype=np.int64))
        return self.transport.value(flat[start : start + size].view(shape))

    def state(self, scope: Scope, v: Variable) -> Any:
        assert self._place is not None, "a step is opened before its state is exchanged"
        buffer = on_device(scope, v, self._place)
        if not buffer.is_held_by(1):
            copy = self.copy(self.transport.view(buffer.value))
            buffer = Buffer(self.value(copy, 0, v.static_shape or ()), memory=self._place.memory)
            scope.put(v.name, buffer)
        buffer.origin = None
        return self.transport.view(buffer.value)

    def scale(self, flat: Any, factor: float | None) -> None:
        if factor is None:
            flat[...] = 0
        elif factor != 1:
            flat *= factor

    def is_finite(self, flat: Any) -> bool:
        return bool(flat.isfinite().all())

    def drop_infinite(self, flat: Any) -> None:
        flat.nan_to_num_(0.0, 0.0, 0.0)

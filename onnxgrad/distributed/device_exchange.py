"""The exchange of gradients in the memory of a GPU: the host touches none of them.

A step computes them into memory that the transport has allocated, on the transport's stream; the sums over ranks are there for the
update, which reads them on the same stream. The host sees the loss and its weight alone.

Tests: tests/distributed/test_device_exchange.py, tests/cuda_stub/test_residency.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.ir.plan import LossTerm
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import CUDAPlace, Place
from onnxgrad.distributed.buckets import ALIGNMENT
from onnxgrad.distributed.exchange import GradientExchange, part_sent
from onnxgrad.distributed.part_weights import PartWeights
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Operation, Transport
from onnxgrad.errors import ArgumentError

__all__ = ["DeviceExchange", "DeviceTransport", "device_of_transport"]


class DeviceTransport(Transport, Protocol):
    """A transport that also exchanges what lies in the memory of a device, as ``TorchTransport`` over NCCL.

    Attributes:
        device: its name and number.
        stream: the address of the CUDA stream on which it exchanges; 0 for none.
    """

    device: tuple[str, int] | None
    stream: int

    def room(self, shapes: Sequence[Sequence[int]], dtype: np.dtype[Any], alignment: int) -> tuple[Any, list[Any]]:
        """Allocate memory on the device, and the OrtValues of these shapes in it.

        Args:
            shapes: of the values.
            dtype: of all of them.
            alignment: bytes of which each value begins at a multiple.
        """

    def all_reduce_room_(self, flat: Any, factor: float | None, op: Operation = "sum") -> None:
        """Multiply memory of ``room`` by a factor, and replace it by the sum over all ranks, in place.

        Args:
            flat: what ``room`` has returned first.
            factor: None to count as zeros.
            op: as for ``all_reduce_``.
        """


def device_of_transport(transport: Any) -> DeviceTransport | None:
    """Return the transport that exchanges in the memory of a device, under the watch of others; None where there is none."""
    while getattr(transport, "device", None) is None:
        if not hasattr(transport, "transport"):
            return None
        transport = transport.transport
    engine: DeviceTransport = transport
    return engine


class DeviceExchange(GradientExchange):
    """``Program.exchange`` of a program whose gradients are exchanged where they are computed, on a device.

    Args:
        transport: between the ranks, over one with a device.
        loss, terms, part_weights, synchronises: as for ``GradientExchange``.
        strategy: how gradients travel: whole, in one session, and every rank holds all state.

    Raises:
        ArgumentError: if the strategy says otherwise.
    """

    def __init__(
        self,
        transport: Transport,
        loss: Variable,
        terms: Sequence[LossTerm],
        strategy: Strategy,
        *,
        synchronises: bool = False,
        part_weights: PartWeights | None = None,
    ) -> None:
        if (strategy.overlap or 1) > 1:
            message = "gradients that are exchanged on a device follow the step on its stream"
            raise ArgumentError(f"overlap={strategy.overlap}: {message}. Leave overlap out.")
        engine = device_of_transport(transport)
        assert engine is not None
        self._engine = engine
        self._rooms: list[Any] = []
        self._room_values: dict[Variable, Any] = {}
        super().__init__(transport, loss, terms, replace(strategy, overlap=1), synchronises=synchronises, part_weights=part_weights)

    @staticmethod
    def takes(strategy: Strategy, sends: bool) -> bool:
        """Return whether gradients that travel so stay on their device; others go by way of main memory."""
        return sends and strategy.sharding == 0 and strategy.compress is None

    def place(self, place: Place) -> Place:
        """Return the place with the transport's stream.

        Raises:
            ArgumentError: if it is another device than the transport's.
        """
        if (place.device, place.index) != self._engine.device:
            name, index = self._engine.device or ("", 0)
            action = f"Train on CUDAPlace({index})" if name == "cuda" else f"Train on {name}"
            message = f"ranks exchange gradients in the memory of {name}:{index}, and the step runs on {place!r}"
            raise ArgumentError(f"{message}. {action}, or exchange by another backend, as 'gloo'.")
        return place.on_stream(self._engine.stream) if isinstance(place, CUDAPlace) and self._engine.stream else place

    def slots(self, gradients: Sequence[Variable]) -> Mapping[Variable, Any]:
        """Memory of the gradients on the device; statistics, which are small, lie in main memory."""
        self._allot(gradients)
        return {**self._room_values, **self._statistics.values}

    def _allot_buckets(self, limit: int) -> None:
        super()._allot_buckets(limit)
        self._rooms, self._room_values = [], {}
        for (dtype, _), members in zip(self._buckets.sizes, self._buckets.members(), strict=True):
            room, values = self._engine.room([v.static_shape or () for v in members], dtype, ALIGNMENT)
            self._rooms.append(room)
            self._room_values.update(zip(members, values, strict=True))

    def _begun_with(self, fetched: Mapping[Variable, Any]) -> tuple[float, float | None]:
        return self._weigh(fetched)

    def _reduce_bucket(self, number: int, factor: float | None) -> None:
        dtype, size = self._buckets.sizes[number]
        if dtype.kind == "b":
            self._engine.all_reduce_room_(self._rooms[number], 1.0, "max")
            return
        self._engine.all_reduce_room_(self._rooms[number], factor)
        self.traffic.bytes += 2 * part_sent(self.transport, size * dtype.itemsize)

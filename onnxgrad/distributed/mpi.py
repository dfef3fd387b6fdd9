"""The transport of MPI, by mpi4py: ``pip install onnxgrad[mpi]``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from onnxgrad.distributed.transport import OPERATIONS, Operation, own_range, writable_buffer
from onnxgrad.errors import ArgumentError, ProviderError

__all__ = ["MpiTransport"]

_HALVES = {np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)}


class MpiTransport:
    """Ranks that ``mpiexec`` started.

    Args:
        communicator: of mpi4py; None for all ranks. It is duplicated, so nothing else can meet its messages.

    Attributes:
        library: the name and version of the MPI that mpi4py has loaded.

    Raises:
        ProviderError: if mpi4py is not installed.
    """

    def __init__(self, communicator: Any = None) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise ProviderError(f"MPI cannot be used ({error}). Install it with: pip install 'onnxgrad[mpi]'.") from error
        self._mpi = MPI
        self.communicator = (MPI.COMM_WORLD if communicator is None else communicator).Dup()
        self.rank, self.world_size = self.communicator.rank, self.communicator.size
        self.any_thread: bool = MPI.Query_thread() >= MPI.THREAD_SERIALIZED
        self.library: str = " ".join(MPI.Get_library_version().split(",")[0].splitlines()[0].strip("\0").split())
        self._sent: list[tuple[Any, Any]] = []
        self._operations: dict[Any, Any] = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN}

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        sent = _sendable(writable_buffer(buffer, op))
        operation = self._half(op, buffer.dtype) if buffer.dtype in _HALVES else self._operations[op]
        self.communicator.Allreduce(self._mpi.IN_PLACE, sent, operation)

    def reduce_scatter_(self, buffer: np.ndarray[Any, Any]) -> None:
        own = own_range(self, writable_buffer(buffer))
        operation = self._half("sum", buffer.dtype) if buffer.dtype in _HALVES else self._operations["sum"]
        self.communicator.Reduce_scatter_block(self._mpi.IN_PLACE, _sendable(buffer), operation)
        if self.rank:
            np.copyto(own, buffer[: own.size])  # MPI leaves it in the first range

    def all_gather_(self, buffer: np.ndarray[Any, Any]) -> None:
        own_range(self, writable_buffer(buffer))
        self.communicator.Allgather(self._mpi.IN_PLACE, _sendable(buffer))

    def all_to_all_(self, buffer: np.ndarray[Any, Any]) -> None:
        own_range(self, writable_buffer(buffer))
        self.communicator.Alltoall(self._mpi.IN_PLACE, _sendable(buffer))

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        self.communicator.Bcast(_sendable(writable_buffer(buffer)), root)

    def barrier(self) -> None:
        self.communicator.Barrier()

    def send(self, buffer: np.ndarray[Any, Any], to: int) -> None:
        array = _sendable(writable_buffer(buffer))
        under_way = []
        sent = None
        for request, kept in self._sent:
            if not request.Test():
                under_way.append((request, kept))
            elif sent is None and (kept.size, kept.dtype) == (array.size, array.dtype):
                sent = kept  # memory that is new takes as long as what is sent
        sent = np.empty_like(array) if sent is None else sent
        np.copyto(sent, array)
        self._sent = [*under_way, (self.communicator.Isend(sent, to), sent)]

    def receive_(self, buffer: np.ndarray[Any, Any], source: int) -> None:
        self.communicator.Recv(_sendable(writable_buffer(buffer)), source)

    def abort(self, code: int) -> None:
        """End all ranks."""
        self._mpi.COMM_WORLD.Abort(code)

    def _half(self, op: Operation, dtype: np.dtype[Any]) -> Any:
        """The operation on 16-bit numbers, which MPI has no type for."""
        if (op, dtype) not in self._operations:
            operation = OPERATIONS[op]

            def combine(operand: Any, into: Any, _: Any) -> None:
                result = np.frombuffer(into, dtype)
                operation(np.frombuffer(operand, dtype), result, out=result)

            self._operations[op, dtype] = self._mpi.Op.Create(combine, commute=True)
        return self._operations[op, dtype]


def _sendable(buffer: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same memory in a type that MPI knows."""
    if buffer.dtype in _HALVES:
        return buffer.view(np.uint16)
    if buffer.dtype.kind not in "biuf":
        raise ArgumentError(f"ranks exchange numbers, not {buffer.dtype}.")
    return buffer.view(np.uint8) if buffer.dtype.kind == "b" else buffer

"""Transport: what an exchange between ranks needs of an engine, and the engine for one process."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.internal.arguments import checked

__all__ = [
    "OPERATIONS",
    "Alone",
    "LocalTransport",
    "Operation",
    "PointToPoint",
    "ReduceOp",
    "Transport",
    "add_up_on",
    "hosts",
    "reused_buffer",
    "run_local",
    "sent_to",
    "writable_buffer",
]

T = TypeVar("T")

Operation: TypeAlias = Literal["sum", "max", "min"]
OPERATIONS: dict[Operation, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
"""What may be done with the buffers of all ranks, element by element."""


class ReduceOp:
    """Paddle's names of the operations."""

    SUM: Literal["sum"] = "sum"
    MAX: Literal["max"] = "max"
    MIN: Literal["min"] = "min"


class Transport(Protocol):
    """An engine that connects ranks. All ranks call the same methods in the same order, each from one thread at a time.

    Attributes:
        rank: of this process, from 0.
        world_size: number of ranks.

    One more may be missing: ``any_thread``, False if only the thread that made it may call it.
    """

    rank: int
    world_size: int

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        """Replace a buffer, in place, by the sum (``"max"``, ``"min"``) over all ranks; all get the same bits.

        Args:
            buffer: flat and contiguous; of one length and dtype on all ranks.
        """

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        """Replace a buffer, in place, by the buffer of the rank ``root``.

        Args:
            buffer: flat and contiguous; of one length and dtype on all ranks.
            root: the rank whose buffer all get.
        """

    def barrier(self) -> None:
        """Return when all ranks have called."""


class PointToPoint(Transport, Protocol):
    """A transport whose ranks can also send to one another, as stages of a pipeline do."""

    def send(self, buffer: np.ndarray[Any, Any], to: int) -> None:
        """Send the elements of a buffer to a rank without waiting; the buffer may be overwritten when this returns.

        Args:
            buffer: flat and contiguous.
        """

    def receive_(self, buffer: np.ndarray[Any, Any], source: int) -> None:
        """Replace a buffer, in place, by the next one that the rank ``source`` has sent here, of the same length and dtype.

        Args:
            buffer: flat and contiguous, of the length and dtype that is sent.
            source: the rank that sends it.
        """


def writable_buffer(buffer: np.ndarray[Any, Any], op: Operation = "sum") -> np.ndarray[Any, Any]:
    """A buffer that a transport may write to.

    Raises:
        ArgumentError: if it is not flat, contiguous and writable, or the operation is unknown.
    """
    if op not in OPERATIONS:
        raise ArgumentError(f"op is one of {', '.join(OPERATIONS)}, not {op!r}.")
    if buffer.ndim != 1 or not buffer.flags.c_contiguous or not buffer.flags.writeable:
        raise ArgumentError("a transport works in place: give a flat, contiguous array that may be written to.")
    return buffer


def hosts(transport: Transport) -> np.ndarray[Any, Any]:
    """The name of each rank's machine: 64 bytes, filled up with 0; called by all ranks."""
    names = np.zeros((transport.world_size, 64), np.uint8)
    own = socket.gethostname().encode()[:64]
    names[transport.rank, : len(own)] = np.frombuffer(own, np.uint8)
    transport.all_reduce_(names.reshape(-1))
    return names


def sent_to(owner: int, transport: Any, buffer: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Give one rank the buffers of all, in the order of ranks, each until the next one is asked for; the others send theirs.

    Args:
        owner: the rank that gets them.
        transport: a ``PointToPoint``; one that cannot send does where there is one rank.
        buffer: flat and contiguous; of one length and dtype on all ranks.
    """
    if transport.rank != owner:
        transport.send(buffer, owner)
        return
    other = reused_buffer(buffer, "received")
    for rank in range(transport.world_size):
        if rank == owner:
            yield buffer
        else:
            transport.receive_(other, rank)
            yield other


_ROOMS = threading.local()
"""Where a thread receives what others send, from one step to the next: memory that is new takes as long as what is sent."""


def reused_buffer(buffer: np.ndarray[Any, Any], purpose: str) -> np.ndarray[Any, Any]:
    """Memory of this thread for an array like another one; the next one for the same purpose is written to it as well."""
    buffers: dict[str, np.ndarray[Any, Any]] = _ROOMS.__dict__
    if purpose not in buffers or buffers[purpose].nbytes < buffer.nbytes:
        buffers[purpose] = np.empty(buffer.nbytes, np.uint8)
    return buffers[purpose][: buffer.nbytes].view(buffer.dtype)


def add_up_on(owner: int, transport: Any, buffer: np.ndarray[Any, Any], total: np.ndarray[Any, Any]) -> None:
    """Let one rank add up the buffers of all, in the order of ranks and in the type of ``total``, which the sum is written to."""
    for number, part in enumerate(sent_to(owner, transport, buffer)):
        if number == 0:
            np.copyto(total, part)
        else:
            np.add(total, part, out=total, dtype=total.dtype)


class Alone:
    """One rank, which has nobody to exchange anything with."""

    rank, world_size = 0, 1

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        """Replace a buffer, in place, by the result over all ranks.

        Args: as for ``Transport.all_reduce_``.
        """
        writable_buffer(buffer, op)

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        """Replace a buffer, in place, by the buffer of one rank.

        Args: as for ``Transport.broadcast_``.
        """
        writable_buffer(buffer)

    def barrier(self) -> None:
        pass


_PATIENCE = 0.2
"""Seconds after which a rank that waits looks whether the others have failed."""

_Lost = threading.BrokenBarrierError


class _Group:
    """The buffers, barrier and mailboxes that the threads of one process share."""

    def __init__(self, world_size: int, timeout: float | None) -> None:
        self.buffers: list[Any] = [None] * world_size
        self.barrier = threading.Barrier(world_size, timeout=timeout)
        self.timeout = timeout
        self.groups: dict[tuple[tuple[int, ...], int], _Group] = {}
        self.lock = threading.Lock()
        self.mail: dict[tuple[int, int], queue.SimpleQueue[Any]] = {
            (source, to): queue.SimpleQueue() for source in range(world_size) for to in range(world_size)
        }

    def next(self, source: int, to: int) -> Any:
        """The next buffer between two ranks"""
        waited = 0.0
        while not self.barrier.broken and (self.timeout is None or waited < self.timeout):
            try:
                return self.mail[source, to].get(timeout=_PATIENCE)
            except queue.Empty:
                waited += _PATIENCE
        raise TrainingError("another rank has failed, or did not send within the timeout. See its message.") from _Lost()

    def group(self, ranks: tuple[int, ...], serial: int) -> _Group:
        """The group of some ranks, which is the same for each that asks for it the so many-th time"""
        with self.lock:
            subgroup = self.groups.setdefault((ranks, serial), _Group(len(ranks), self.timeout))
        if self.barrier.broken:
            subgroup.abort()
        return subgroup

    def abort(self) -> None:
        """Let nobody wait here, or in the groups within, any more"""
        self.barrier.abort()
        with self.lock:
            subgroups = list(self.groups.values())
        for subgroup in subgroups:
            subgroup.abort()

    def meet(self) -> None:
        try:
            self.barrier.wait()
        except threading.BrokenBarrierError as error:
            raise TrainingError("another rank has failed, or did not come within the timeout. See its message.") from error


class LocalTransport:
    """Ranks that are threads of one process, for tests: see ``run_local``.

    Args:
        rank: of this thread.
        group: what the threads share.
    """

    @checked
    def __init__(self, rank: int, group: _Group) -> None:
        self.rank, self.world_size, self._group = rank, len(group.buffers), group
        self._groups: dict[tuple[int, ...], int] = {}

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        """Replace a buffer, in place, by the result over all ranks.

        Args: as for ``Transport.all_reduce_``.
        """
        operation = OPERATIONS.get(op, np.add)
        self._group.buffers[self.rank] = writable_buffer(buffer, op)
        self._group.meet()
        total = self._group.buffers[0].copy()
        for other in self._group.buffers[1:]:
            if other.shape != total.shape or other.dtype != total.dtype:
                self._group.barrier.abort()
                raise ArgumentError(f"ranks reduce {total.dtype}{list(total.shape)} and {other.dtype}{list(other.shape)}.")
            operation(total, other, out=total)
        self._group.meet()
        buffer[...] = total

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        """Replace a buffer, in place, by the buffer of one rank.

        Args: as for ``Transport.broadcast_``.
        """
        self._group.buffers[self.rank] = writable_buffer(buffer)
        self._group.meet()
        sent = self._group.buffers[root].copy()
        self._group.meet()
        buffer[...] = sent

    def barrier(self) -> None:
        self._group.meet()

    def group(self, ranks: list[int]) -> LocalTransport:
        """The transport between some ranks, of which this is one; all of them call it.

        Args:
            ranks: the members, in ascending order.
        """
        key = tuple(ranks)
        self._groups[key] = self._groups.get(key, -1) + 1
        return LocalTransport(ranks.index(self.rank), self._group.group(key, self._groups[key]))

    def send(self, buffer: np.ndarray[Any, Any], to: int) -> None:
        """Send a buffer to another rank.

        Args: as for ``PointToPoint.send``.
        """
        self._group.mail[self.rank, to].put(writable_buffer(buffer).copy())

    def receive_(self, buffer: np.ndarray[Any, Any], source: int) -> None:
        """Replace a buffer, in place, by the buffer that another rank sends.

        Args: as for ``PointToPoint.receive_``.
        """
        sent = self._group.next(source, self.rank)
        if sent.shape != writable_buffer(buffer).shape or sent.dtype != buffer.dtype:
            raise ArgumentError(
                f"rank {source} sent {sent.dtype}{list(sent.shape)}, rank {self.rank} takes {buffer.dtype}{list(buffer.shape)}."
            )
        buffer[...] = sent


@checked
def run_local(world_size: int, function: Callable[[Transport], T], timeout: float | None = 60) -> list[T]:
    """Run a function in one thread for each rank and return the results by rank.

    Args:
        function: called with the transport of its rank.
        timeout: seconds that a rank waits for the others in one call.

    Raises:
        Exception: what a rank raised; one that is not about other ranks is preferred.

    Example:
        >>> def total(transport):
        ...     mine = np.full(2, transport.rank + 1.0)
        ...     transport.all_reduce_(mine)
        ...     return mine.tolist()
        >>> run_local(3, total)
        [[6.0, 6.0], [6.0, 6.0], [6.0, 6.0]]
    """
    group = _Group(world_size, timeout)

    def one(rank: int) -> T:
        try:
            return function(LocalTransport(rank, group))
        except BaseException:
            group.abort()
            raise

    with ThreadPoolExecutor(world_size) as pool:
        futures = [pool.submit(one, rank) for rank in range(world_size)]
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error.__cause__, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]

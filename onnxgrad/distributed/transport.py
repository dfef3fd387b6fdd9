"""Transport: what an exchange between ranks needs of an engine, and the engine for one process."""

from __future__ import annotations

import hashlib
import os
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
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
    "all_gather_by_pairs",
    "all_to_all_by_pairs",
    "hosts",
    "own_range",
    "part_sent",
    "reduce_scatter_by_pairs",
    "reused_buffer",
    "run_local",
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

    def reduce_scatter_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Replace this rank's range of a buffer, in place, by its sum over all ranks; the other ranges hold anything afterwards.

        A rank sends (n - 1)/n of the bytes of the buffer, for n ranks.

        Args:
            buffer: flat and contiguous; of one length and dtype on all ranks, whose length is a multiple of the number of ranks
                (``own_range``).
        """

    def all_gather_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Replace each range of a buffer, in place, by that of the rank whose it is; a rank sends (n - 1)/n of its bytes.

        Args:
            buffer: as for ``reduce_scatter_``.
        """

    def all_to_all_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Send each range of a buffer to the rank whose it is, and replace it by this rank's range there, in place.

        A rank sends (n - 1)/n of the bytes of the buffer.

        Args:
            buffer: as for ``reduce_scatter_``.
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


def own_range(transport: Any, buffer: Any, rank: int | None = None) -> Any:
    """The range of a buffer that belongs to a rank: the n-th part of it, for n ranks.

    Args:
        transport: says how many ranks there are, and which this is.
        buffer: flat, an array or a tensor.
        rank: whose range; None for this one's.

    Raises:
        ArgumentError: if the length of the buffer is no multiple of the number of ranks.
    """
    length, rest = divmod(len(buffer), transport.world_size)
    if rest:
        raise ArgumentError(f"{len(buffer)} elements are no equal ranges of {transport.world_size} ranks. Fill the buffer up.")
    first = (transport.rank if rank is None else rank) * length
    return buffer[first : first + length]


def part_sent(transport: Any, size: int) -> int:
    """What a rank sends when ranges of a buffer of so many bytes are gathered, exchanged, or added up."""
    return size * int(transport.world_size - 1) // int(transport.world_size)


def reduce_scatter_by_pairs(transport: Any, buffer: np.ndarray[Any, Any]) -> None:
    """``Transport.reduce_scatter_`` of a transport that can send, in the order of ranks; what an engine without one calls."""
    own = own_range(transport, writable_buffer(buffer))
    others = [rank for rank in range(transport.world_size) if rank != transport.rank]
    for rank in others:
        transport.send(own_range(transport, buffer, rank), rank)
    mine, part = own.copy(), np.empty_like(own)
    for rank in range(transport.world_size):
        received = mine
        if rank != transport.rank:
            transport.receive_(part, rank)
            received = part
        np.copyto(own, received) if rank == 0 else np.add(own, received, out=own)


def all_gather_by_pairs(transport: Any, buffer: np.ndarray[Any, Any]) -> None:
    """``Transport.all_gather_`` of a transport that can send."""
    own = own_range(transport, writable_buffer(buffer))
    others = [rank for rank in range(transport.world_size) if rank != transport.rank]
    for rank in others:
        transport.send(own, rank)
    for rank in others:
        transport.receive_(own_range(transport, buffer, rank), rank)


def all_to_all_by_pairs(transport: Any, buffer: np.ndarray[Any, Any]) -> None:
    """``Transport.all_to_all_`` of a transport that can send."""
    others = [rank for rank in range(transport.world_size) if rank != transport.rank]
    for rank in others:
        transport.send(own_range(transport, writable_buffer(buffer), rank), rank)
    for rank in others:
        transport.receive_(own_range(transport, buffer, rank), rank)


def hosts(transport: Transport) -> np.ndarray[Any, Any]:
    """The machine of each rank: 16 digits and its name, 64 bytes, filled up with 0; called by all ranks.

    Containers of one machine may have one name, and machines too, so the digits tell apart what has another network or processes.
    """
    names = np.zeros((transport.world_size, 64), np.uint8)
    name, marks = socket.gethostname(), []
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/net", "/proc/self/ns/pid"):  # where there is no Linux, none
        with suppress(OSError):
            marks.append(os.readlink(path) if os.path.islink(path) else Path(path).read_text())
    digits = hashlib.blake2b("\0".join([name, *marks]).encode(), digest_size=8).hexdigest()
    own = f"{digits}{name}".encode()[:64]
    names[transport.rank, : len(own)] = np.frombuffer(own, np.uint8)
    transport.all_reduce_(names.reshape(-1))
    return names


_ROOMS = threading.local()
"""Where a thread puts together what it sends, from one step to the next: memory that is new takes as long as what is sent."""


def reused_buffer(length: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Memory of this thread for an array; the next one of its element type is written to it as well."""
    buffers: dict[str, np.ndarray[Any, Any]] = _ROOMS.__dict__
    name = np.dtype(dtype).name
    if name not in buffers or buffers[name].size < length:
        buffers[name] = np.empty(length, dtype)
    return buffers[name][:length]


class Alone:
    """One rank, which has nobody to exchange anything with."""

    rank, world_size = 0, 1

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        """Replace a buffer, in place, by the result over all ranks.

        Args: as for ``Transport.all_reduce_``.
        """
        writable_buffer(buffer, op)

    def reduce_scatter_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Replace this rank's range, which is the whole buffer, by its sum over all ranks.

        Args: as for ``Transport.reduce_scatter_``.
        """
        writable_buffer(buffer)

    def all_gather_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Replace each range of a buffer by that of the rank whose it is.

        Args: as for ``Transport.all_gather_``.
        """
        writable_buffer(buffer)

    def all_to_all_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Send each range of a buffer to the rank whose it is.

        Args: as for ``Transport.all_to_all_``.
        """
        writable_buffer(buffer)

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
        buffers = self._shown(writable_buffer(buffer, op))
        total = buffers[0].copy()
        for other in buffers[1:]:
            operation(total, other, out=total)
        self._group.meet()
        buffer[...] = total

    def _shown(self, buffer: np.ndarray[Any, Any]) -> list[Any]:
        """The buffers of all ranks, which show them to each other, and do not write to them until they meet again"""
        self._group.buffers[self.rank] = buffer
        self._group.meet()
        first, *others = self._group.buffers
        for other in others:
            if other.shape != first.shape or other.dtype != first.dtype:
                self._group.barrier.abort()
                raise ArgumentError(f"ranks reduce {first.dtype}{list(first.shape)} and {other.dtype}{list(other.shape)}.")
        return [first, *others]

    def reduce_scatter_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Replace this rank's range of a buffer, in place, by its sum over all ranks, in the order of ranks.

        Args: as for ``Transport.reduce_scatter_``.
        """
        own = own_range(self, writable_buffer(buffer))
        first, *others = [own_range(self, other) for other in self._shown(buffer)]
        total = first.copy()
        for other in others:
            np.add(total, other, out=total)
        self._group.meet()
        own[...] = total

    def all_gather_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Replace each range of a buffer, in place, by that of the rank whose it is.

        Args: as for ``Transport.all_gather_``.
        """
        own_range(self, writable_buffer(buffer))
        for rank, other in enumerate(self._shown(buffer)):
            if rank != self.rank:
                own_range(self, buffer, rank)[...] = own_range(self, other, rank)
        self._group.meet()

    def all_to_all_(self, buffer: np.ndarray[Any, Any]) -> None:
        """Send each range of a buffer to the rank whose it is, and replace it by this rank's range there, in place.

        Args: as for ``Transport.all_to_all_``.
        """
        own_range(self, writable_buffer(buffer))
        received = np.concatenate([own_range(self, other) for other in self._shown(buffer)])
        self._group.meet()
        buffer[...] = received

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

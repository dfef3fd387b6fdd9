"""Groups of ranks: a grid of stages and replicas has a transport of its own along each axis.

Tests: tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onnxgrad.distributed.mpi import MpiTransport
from onnxgrad.distributed.torch_transport import TorchTransport
from onnxgrad.distributed.transport import Alone, LocalTransport, Operation, PointToPoint, Transport
from onnxgrad.distributed.watch import WatchedTransport
from onnxgrad.errors import ArgumentError

__all__ = ["Grid", "grid_of", "group_of"]


class Grid(NamedTuple):
    """The position of a rank in a grid, and its neighbours.

    Attributes:
        stage, replica: of this rank; ranks count through the stages of the first replica, then of the second.
        replicas: how many there are.
        pipeline: between the stages of this replica, by stage.
        beside: between the ranks of this stage, by replica.
    """

    stage: int
    replica: int
    replicas: int
    pipeline: PointToPoint
    beside: Transport


def grid_of(transport: Transport, stages: int) -> Grid:
    """The ranks as replicas of a pipeline; called by all of them.

    Args:
        transport: between all ranks.
        stages: of the pipeline.

    Raises:
        ArgumentError: if the number of ranks is no multiple of that of stages, or the transport cannot send or make groups.
    """
    count = transport.world_size
    if stages < 1 or count % stages:
        raise ArgumentError(f"{count} ranks cannot hold replicas of {stages} stages. Start a multiple of {stages} ranks.")
    if stages > 1 and not hasattr(transport, "send"):
        raise ArgumentError("this transport cannot send from one rank to another, as a pipeline must. Use MPI or torch.")
    replica, stage = divmod(transport.rank, stages)
    rows = [[first + number for number in range(stages)] for first in range(0, count, stages)]
    pipeline: Any = group_of(transport, rows)
    return Grid(stage, replica, len(rows), pipeline, group_of(transport, [list(column) for column in zip(*rows, strict=True)]))


def group_of(transport: Transport, groups: list[list[int]]) -> Transport:
    """The transport between the ranks of that group which this rank is in; called by all ranks with the same groups.

    Args:
        transport: between all ranks.
        groups: ranks, each in one group, in the order that they have there.

    Raises:
        ArgumentError: if the transport can make no groups.

    Example:
        >>> from onnxgrad.distributed import run_local
        >>> def total(transport):
        ...     mine = np.array([transport.rank])
        ...     group_of(transport, [[0, 2], [1, 3]]).all_reduce_(mine)
        ...     return mine.item()
        >>> run_local(4, total)
        [2, 4, 2, 4]
    """
    mine = next(number for number, group in enumerate(groups) if transport.rank in group)
    group = groups[mine]
    if len(groups) == 1 and group == list(range(transport.world_size)):
        return transport
    if isinstance(transport, WatchedTransport):
        return _WatchedGroup(group_of(transport.transport, groups), transport.watch)
    if isinstance(transport, MpiTransport):
        split = transport.communicator.Split(mine, group.index(transport.rank))
        subgroup = MpiTransport(split)
        split.Free()
        return subgroup
    if isinstance(transport, TorchTransport):
        return transport.groups(groups)
    if isinstance(transport, LocalTransport):
        return transport.group(group)
    if len(group) == 1:
        return Alone()
    raise ArgumentError(f"{type(transport).__name__} can make no groups of ranks, which rows of a pipeline need. Use MPI or torch.")


class _WatchedGroup(WatchedTransport):
    """Not counted, as groups exchange in different numbers."""

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        with self.watch.waiting(counts=False):
            self.transport.all_reduce_(buffer, op)

    def reduce_scatter_(self, buffer: np.ndarray[Any, Any]) -> None:
        self.transport.reduce_scatter_(buffer)

    def all_gather_(self, buffer: np.ndarray[Any, Any]) -> None:
        self.transport.all_gather_(buffer)

    def all_to_all_(self, buffer: np.ndarray[Any, Any]) -> None:
        self.transport.all_to_all_(buffer)

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        with self.watch.waiting(counts=False):
            self.transport.broadcast_(buffer, root)

    def barrier(self) -> None:
        with self.watch.waiting(counts=False):
            self.transport.barrier()

"""The transport of torch's gloo, where torch is installed: several machines without MPI."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.distributed.transport import (
    Operation,
    all_gather_by_pairs,
    all_to_all_by_pairs,
    reduce_scatter_by_pairs,
    writable_buffer,
)
from onnxgrad.errors import ProviderError

__all__ = ["GlooTransport"]

_ON_THE_WAY = 256
"""Sends that are waited for when there are more: torch may not say which have ended."""


class GlooTransport:
    """Ranks that torch connects, by the environment variables that ``torchrun`` sets.

    Args:
        group: of torch; None for all ranks.
        options: of torch's ``init_process_group``.

    Raises:
        ProviderError: if torch is not installed.
    """

    def __init__(self, group: Any = None, **options: Any) -> None:
        try:
            import torch
            from torch import distributed
        except ImportError as error:
            raise ProviderError("gloo is a part of torch, which is not installed. Use MPI: pip install 'onnxgrad[mpi]'.") from error
        self._torch, self._engine = torch, distributed
        if not distributed.is_initialized():
            distributed.init_process_group("gloo", **options)
        self._group, self._ranks = group, list(distributed.get_process_group_ranks(group or distributed.group.WORLD))
        self.rank, self.world_size = distributed.get_rank(group), distributed.get_world_size(group)
        self._sent: list[tuple[Any, Any]] = []
        operations = distributed.ReduceOp
        self._operations = {"sum": operations.SUM, "max": operations.MAX, "min": operations.MIN}

    def all_reduce_(self, buffer: np.ndarray[Any, Any], op: Operation = "sum") -> None:
        self._engine.all_reduce(self._tensor(writable_buffer(buffer, op)), self._operations[op], group=self._group)

    def reduce_scatter_(self, buffer: np.ndarray[Any, Any]) -> None:
        reduce_scatter_by_pairs(self, buffer)

    def all_gather_(self, buffer: np.ndarray[Any, Any]) -> None:
        all_gather_by_pairs(self, buffer)

    def all_to_all_(self, buffer: np.ndarray[Any, Any]) -> None:
        all_to_all_by_pairs(self, buffer)

    def broadcast_(self, buffer: np.ndarray[Any, Any], root: int = 0) -> None:
        self._engine.broadcast(self._tensor(writable_buffer(buffer)), self._ranks[root], group=self._group)

    def barrier(self) -> None:
        self._engine.barrier(self._group)

    def send(self, buffer: np.ndarray[Any, Any], to: int) -> None:
        sent = self._tensor(writable_buffer(buffer)).clone()
        self._sent = [(request, kept) for request, kept in self._sent if not request.is_completed()]
        while len(self._sent) >= _ON_THE_WAY:
            self._sent.pop(0)[0].wait()
        self._sent.append((self._engine.isend(sent, self._ranks[to], group=self._group), sent))

    def receive_(self, buffer: np.ndarray[Any, Any], source: int) -> None:
        self._engine.recv(self._tensor(writable_buffer(buffer)), self._ranks[source], group=self._group)

    def groups(self, groups: list[list[int]]) -> GlooTransport:
        """The transport of the group that this rank is in; called by all ranks with the same groups."""
        created = [self._engine.new_group([self._ranks[rank] for rank in group]) for group in groups]
        return GlooTransport(next(one for one, group in zip(created, groups, strict=True) if self.rank in group))

    def _tensor(self, buffer: np.ndarray[Any, Any]) -> Any:
        """The same memory as a tensor."""
        if buffer.dtype.name == "bfloat16":
            return self._torch.from_numpy(buffer.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(buffer.view(np.uint8) if buffer.dtype.kind == "b" else buffer)

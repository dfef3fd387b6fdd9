"""State of which each rank holds a share: what one has updated goes to all that read it, and all comes together for a checkpoint.

Tests: tests/distributed/test_sharded.py, tests/distributed/test_trainer_shares.py.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of, view_of
from onnxgrad.core.step.shards import Shards
from onnxgrad.distributed.transport import Transport

__all__ = ["SharedState", "own_array"]


class SharedState:
    """The state of a program that ranks share out.

    Args:
        transport: between the ranks, which call each method together.
        shards: who updates what.
    """

    def __init__(self, transport: Transport, shards: Shards) -> None:
        self.transport, self.shards = transport, shards
        ranks = range(transport.world_size)
        self._spread = [(rank, v) for rank in ranks for v in shards.spread(rank)]
        self._held = [(rank, v) for rank in ranks for v in shards.held(rank)]

    def spread(self, scope: Scope) -> None:
        """Give all ranks the weights and statistics that each has updated."""
        for rank, v in self._spread:
            self.transport.broadcast_(own_array(scope, v).view(np.uint8), rank)

    def gather(self, scope: Scope, into: Scope | None, only: Collection[str] | None = None) -> None:
        """Write what ranks hold alone to a scope on each.

        Args:
            scope: where the state of this rank is.
            into: where all of it shall be, perhaps the same; None on a rank that gives its share alone.
            only: names of what is wanted; None for all.
        """
        for rank, v in self._held:
            if only is not None and v.name not in only:
                continue
            if rank == self.transport.rank:
                array = np.array(v.get_value(scope), order="C")
            else:
                array = np.empty(v.static_shape or (), v.dtype.numpy)
            self.transport.broadcast_(array.reshape(-1).view(np.uint8), rank)
            if into is not None and not (into is scope and rank == self.transport.rank):
                v.set_value(array, into)

    def forget(self, scope: Scope) -> None:
        """Let go of what other ranks hold: zeros stand for it, which take no memory."""
        for rank, v in self._held:
            if rank != self.transport.rank:
                drop(scope, v)


def drop(scope: Scope, v: Variable) -> None:
    """Leave zeros in place of a state, which take no memory."""
    scope.drop_spare(v.name)
    scope.put(v.name, np.broadcast_to(np.zeros((), v.dtype.numpy), v.static_shape or ()))


def own_array(scope: Scope, v: Variable) -> np.ndarray[Any, Any]:
    """The elements of a state in main memory that nobody else holds, to be written over: an array of rank 1."""
    found = scope.present(v.name)
    if not isinstance(found, Buffer) or not found.is_held_by(1) or found.value.device_name() != "cpu":
        found = Buffer(value_of(v.get_value(scope)))
        scope.put(v.name, found)
    found.origin = None
    return view_of(found.value).reshape(-1)

"""State of which each rank holds a shard: what one has updated goes to all that read it, and all comes together for a checkpoint.

Tests: tests/distributed/test_sharded.py, tests/distributed/test_trainer_shares.py, tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import LEARNING_RATE, Variable, set_values
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of, view_of
from onnxgrad.core.step.cut import is_small
from onnxgrad.core.step.shards import Shards

__all__ = ["FollowedRates", "SharedState", "copy_state", "own_array"]


class Broadcasts(Protocol):
    """A transport that broadcasts arrays of one rank to all, in place."""

    rank: int
    world_size: int

    def broadcast_(self, buffer: Any, root: int = 0) -> None: ...


class SharedState:
    """The state of a program that ranks share out.

    Args:
        transport: between the ranks, which call each method together.
        shards: who updates what.
        others: further state that a rank alone holds, by variable.
    """

    def __init__(self, transport: Broadcasts, shards: Shards, others: Mapping[Variable, int] | None = None) -> None:
        self.transport, self.shards = transport, shards
        ranks = range(transport.world_size)
        self._spread = [(rank, v) for rank in ranks for v in shards.spread(rank)]
        self._sent = 0
        """How many of these have been given to all in a step under way."""
        self._held = [(rank, v) for rank in ranks for v in shards.held(rank)]
        self._held += [(rank, v) for v, rank in (others or {}).items()]

    def spread(self, scope: Scope) -> None:
        """Give all ranks the weights and statistics that each has updated; once more called after an interruption, it goes on."""
        for number in range(self._sent, len(self._spread)):
            rank, v = self._spread[number]
            self.transport.broadcast_(own_array(scope, v).view(np.uint8), rank)
            self._sent = number + 1
        self._sent = 0

    def gather(self, scope: Scope, into: Scope | None, only: Collection[str] | None = None) -> None:
        """Write what ranks hold alone to a scope on each; to another one than the rank's own, all other state too.

        Args:
            scope: where the state of this rank is.
            into: where all of it shall be, perhaps the same; None on a rank that gives its shard alone.
            only: names of what is wanted; None for all.
        """
        for rank, v in self._held:
            if only is not None and v.name not in only:
                continue
            is_mine = rank == self.transport.rank
            array = np.array(v.get_value(scope), order="C") if is_mine else np.empty(v.static_shape or (), v.dtype.numpy)
            self.transport.broadcast_(array.reshape(-1).view(np.uint8), rank)
            if into is not None and not (is_mine and into is scope):
                v.set_value(array, into)
        if into is not None and into is not scope:
            copy_state(self.shards.program, scope, into, only, {v for _, v in self._held})

    def forget(self, scope: Scope, but: Collection[str] = ()) -> None:
        """Let go of what other ranks hold: zeros stand for it, which take no memory. Small state stays.

        Args:
            but: names of what this rank reads, too.
        """
        kept = set(but)
        for rank, v in self._held:
            if rank != self.transport.rank and v.name not in kept and not is_small(v):
                scope.drop_spare(v.name)
                scope.put(v.name, np.broadcast_to(np.zeros((), v.dtype.numpy), v.static_shape or ()))


def copy_state(
    program: Program, scope: Scope, into: Scope, only: Collection[str] | None = None, but: Collection[Variable] = ()
) -> None:
    """Copy the state of a program to another scope.

    Args:
        only: names of what is wanted; None for all.
        but: what is left out.
    """
    left_out = set(but)
    copied = (v for v in program.list_vars() if v.persistable and v not in left_out and (only is None or v.name in only))
    set_values(((v, v.get_value(scope)) for v in copied), into)


def own_array(scope: Scope, v: Variable) -> np.ndarray[Any, Any]:
    """The elements of a state in main memory that nobody else holds, to be written over: an array of rank 1."""
    buffer = scope.present(v.name)
    if not isinstance(buffer, Buffer) or not buffer.is_held_by(1) or buffer.value.device_name() != "cpu":
        buffer = Buffer(value_of(v.get_value(scope)))
        scope.put(v.name, buffer)
    buffer.origin = None
    return view_of(buffer.value).reshape(-1)


class FollowedRates:
    """Learning rates that ``set_lr`` sets in the scope of a program, for a step whose state is in another one.

    Args:
        program: whose rates these are. Those that a schedule gives are set by whoever runs the step.
        scope: of the step.
    """

    def __init__(self, program: Program, scope: Scope) -> None:
        self._scope = scope
        scheduled = {v.name for v, _ in program.plan.schedulers}
        is_elsewhere = scope is not program.active_scope()
        rates = [v for v in program.list_vars() if v.persistable and v.doc == LEARNING_RATE and v.name not in scheduled]
        self._known = {v: float(v.get_value()) for v in rates} if is_elsewhere else {}

    def take(self) -> None:
        """Set the values that have changed since the last time."""
        for v, known in self._known.items():
            rate = float(v.get_value())
            if rate != known:
                self._known[v] = rate
                self._scope.set(v.name, np.asarray(rate, v.dtype.numpy))

"""Paddle's ``fleet``: an optimizer whose ``minimize`` lets ranks exchange gradients.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from onnxgrad.core.passes.modes import take_parts
from onnxgrad.distributed.environment import barrier, current, init as join, rank, world_size
from onnxgrad.distributed.exchange import distribute
from onnxgrad.distributed.fleet import utils
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks

if TYPE_CHECKING:
    from onnxgrad.optimizer.optimizer import Optimizer


__all__ = [
    "DistributedStrategy", "barrier_worker", "distributed_optimizer", "init", "is_first_worker", "utils", "worker_index",
    "worker_num",
]  # fmt: skip


DistributedStrategy = Strategy
AnyOptimizer = TypeVar("AnyOptimizer", bound="Optimizer")
_CHOSEN: list[Strategy] = []


@checked
def init(role_maker: object = None, is_collective: bool = True, strategy: Strategy | None = None) -> None:
    """Join the ranks: ``distributed.init``, with the strategy of later optimizers.

    Args:
        role_maker: accepted for compatibility.
        is_collective: True; there are no parameter servers.
        strategy: how gradients travel.

    Raises:
        ArgumentError: if ``is_collective`` is False.
    """
    if not is_collective:
        raise ArgumentError("fleet.init: there are no parameter servers here. Pass is_collective=True.")
    join()
    _CHOSEN[:] = [] if strategy is None else [strategy]


def worker_index() -> int:
    """The number of this rank."""
    return rank()


def worker_num() -> int:
    """How many ranks there are."""
    return world_size()


def is_first_worker() -> bool:
    """Whether this is the rank that writes files."""
    return rank() == 0


def barrier_worker() -> None:
    """Wait for all ranks."""
    barrier()


class _Distributed:
    """An optimizer whose programs exchange gradients; all else is the optimizer's own."""

    def __init__(self, optimizer: Any, strategy: Strategy) -> None:
        self._optimizer, self._strategy = optimizer, strategy

    def minimize(self, loss: Any, *arguments: Any, loss_weight: Any = None, **options: Any) -> Any:
        """As the optimizer's; every ``Executor.run`` then exchanges gradients. ``loss_weight`` is as for ``distribute``."""
        if world_size() == 1 or getattr(loss, "is_eager", False):
            return self._optimizer.minimize(loss, *arguments, **options)
        take_parts(loss.block.program)
        result = self._optimizer.minimize(loss, *arguments, **options)
        distribute(loss.block.program, loss, current(), self._strategy, loss_weight=loss_weight)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_optimizer"], name)


def distributed_optimizer(optimizer: AnyOptimizer, strategy: Strategy | None = None) -> AnyOptimizer:
    """An optimizer whose ``minimize(loss)`` lets ranks exchange the gradients of the program, each of which feeds its part.

    What is fetched as the loss is that of the whole batch.

    Args:
        optimizer: the optimizer of this rank.
        strategy: how ranks exchange; that of ``fleet.init`` unless given.

    Example:
        >>> paddle.distributed.fleet.init()
        >>> optimizer = paddle.distributed.fleet.distributed_optimizer(paddle.optimizer.SGD(0.1))
    """
    return cast(AnyOptimizer, _Distributed(optimizer, strategy or (_CHOSEN[0] if _CHOSEN else Strategy())))


globals().update(absence_hooks(__name__))

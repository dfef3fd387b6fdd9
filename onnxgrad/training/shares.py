"""The step of a Trainer in parts that ranks run between them: statistics of the whole batch, shares of the optimizer's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxgrad.core.interop.split_step import Accumulated
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.distributed.agreement import check_alike, fingerprint, share_state
from onnxgrad.distributed.exchange import Part
from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.training.accumulation import SUM

__all__ = ["SHARDS", "SharedStep"]

SHARDS = (None, "state", "gradients")
"""``ShardedStep(shards=)`` by stage of ZeRO."""


class SharedStep:
    """What ``Strategy(batch_norm="sync")`` and ``Strategy(sharding=)`` put in the place of the Executor's step.

    Args:
        transport: between the ranks.
        strategy: what is asked for.
        program: the step.
        update: with accumulation, what applies the sums that the step has added up.
        loss: of the step.
        read: names of state that evaluation reads, of which a rank may hold a share.

    Attributes:
        is_alone: whether this rank does something that others do not, as callbacks are called on rank 0 alone.
    """

    def __init__(
        self,
        transport: Transport,
        strategy: Strategy,
        program: Program,
        update: Program | None,
        loss: Variable,
        read: Sequence[str] = (),
    ) -> None:
        if strategy.compress is not None:
            raise ArgumentError("statistics of the whole batch are not for compressed gradients. Leave compress out.")
        if strategy.sharding == 2 and not hasattr(transport, "send"):
            raise ArgumentError("this transport cannot send from one rank to another. Use sharding=1, or MPI.")
        self.transport, self.strategy, self.program, self.update, self.loss = transport, strategy, program, update, loss
        self.sums: list[Variable] = []
        self.is_alone = self._is_whole = False
        self._read = list(read)
        self._accumulated: Accumulated | None = None
        if update is not None:
            self.sums = [v for v in update.updates if v.name.endswith(SUM)]
            held = {v.name: v for v in self.sums}
            pairs = [(v, held[v.name]) for v in program.updates if v.name in held]
            self._accumulated = Accumulated(update, pairs, 1)
        self._step: ShardedStep | None = None
        self._made_of: tuple[Any, ...] = ()
        self._agreed = False

    def compute(self, executor: Executor, feed: Mapping[str, Any], fetches: Sequence[Variable], part: Part | None) -> list[Any]:
        """Gradients of a part of the batch, and what is fetched: of the loss that of the whole batch."""
        step = self._made(executor, fetches)
        if self._is_whole:
            self._is_whole = False
            step.forget()
        step.part = part
        given = step.compute(feed)
        return [given[v.name] for v in fetches]

    def apply(self) -> None:
        """Put gradients together and update."""
        assert self._step is not None
        self._step.apply()
        for _, scheduler in (self.update or self.program).schedulers:
            if scheduler.steps_by_itself:
                scheduler.step()

    def _made(self, executor: Executor, fetches: Sequence[Variable]) -> ShardedStep:
        now = (self.program.version, [v.name for v in fetches])
        if self._step is not None and self._made_of == now:
            return self._step
        if executor.place.device != "cpu":
            raise ArgumentError(f"ranks exchange gradients in main memory. Train on a CPUPlace(), not {executor.place!r}.")
        if not self._agreed:
            own = {v.name for v in self.sums}
            mine = fingerprint(self.program, list(self.program.updates), self.strategy)
            check_alike(self.transport, mine, "it has another program, or trains other parameters")
            state = {v.name: v for one in (self.program, self.update) if one for v in one.list_vars() if v.persistable}
            share_state(self.transport, [v for name, v in state.items() if name not in own], self.program.active_scope())
            self._agreed = True
        self._step = ShardedStep(
            self.program,
            list(fetches),
            self.transport,
            loss=self.loss,
            batch_norm=self.strategy.batch_norm,
            shards=SHARDS[self.strategy.sharding],
            threads=executor.threads,
            accumulated=self._accumulated,
            in_scope=True,
        )
        self._made_of = now
        return self._step

    # State -------------------------------------------------------------------------------------------------------------

    def gather(self) -> None:
        """Give rank 0 the state of all, in its scope."""
        if self._step is not None:
            self._step.gather(self.program.active_scope() if self.transport.rank == 0 else None)

    def collect(self) -> None:
        """Let each rank have, until the next step, what evaluation reads.

        Raises:
            TrainingError: if a callback asks for it within an epoch, on rank 0 alone.
        """
        if self._step is None or self._is_whole or not self._read:
            return
        if self.is_alone:
            raise TrainingError(
                "averages of weights (ema) lie in shares on all ranks, and callbacks are called on rank 0 alone. Read them in "
                "on_evaluate, on_epoch or on_end, before which they are collected."
            )
        self._step.gather(self.program.active_scope(), self._read)
        self._is_whole = True

    def forget(self) -> None:
        """Let go of what other ranks hold."""
        self._is_whole = False
        if self._step is not None:
            self._step.forget()

    def bytes_of_state(self) -> int:
        """Bytes of the optimizer's state that this rank holds."""
        return 0 if self._step is None else self._step.bytes_of_state()

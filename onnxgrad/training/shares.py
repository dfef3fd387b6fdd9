"""The step of a Trainer in parts that ranks run between them: statistics of the whole batch, shares of the optimizer's state, or
layers on several ranks.

Tests: tests/distributed/test_trainer_shares.py, tests/distributed/test_trainer_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.distributed.agreement import check_alike, fingerprint, share_state
from onnxgrad.distributed.exchange import GradientExchange, Part, StateExchange, distribute
from onnxgrad.distributed.pipeline import PipelineStep
from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.optimizer.average import ExponentialMovingAverage

__all__ = ["SHARDS", "HeldStep", "PipelinedStep", "RankStep", "SharedStep"]

SHARDS = (None, "state", "gradients")
"""``ShardedStep(shards=)`` by stage of ZeRO."""


class RankStep:
    """The step of ranks that hold all state alike: the Executor runs it, and its program exchanges gradients, if there are others.

    Args:
        transport: between the ranks.
        strategy: what is asked for.
        program: the step.
        loss: of the step.
        is_scaled: whether the loss is.
        average: of weights, which evaluation reads.

    Attributes:
        exchange: of gradients, if the program exchanges them.
        sums: where gradients are added up, the exchange of the sums.
        is_alone: whether this rank does something that others do not, as callbacks are called on rank 0 alone.

    Raises:
        ArgumentError: if the strategy does not fit the program.
    """

    def __init__(
        self,
        transport: Transport,
        strategy: Strategy,
        program: Program,
        loss: Variable,
        is_scaled: bool = False,
        average: ExponentialMovingAverage | None = None,
    ) -> None:
        self.transport, self.strategy, self.program, self.loss = transport, strategy, program, loss
        self.exchange: GradientExchange | None = None
        self.sums: StateExchange | None = None
        self.is_alone = False
        self._accumulation = program.plan.accumulation
        self._added = [] if self._accumulation is None else self._accumulation.sums
        if transport.world_size > 1:
            self._begin(is_scaled, [] if average is None else average.names)
            if self._accumulation is not None:
                self.sums = StateExchange(transport, self._added, strategy)
                self._accumulation.exchange = None if self.exchange is None else self.sums

    def _begin(self, is_scaled: bool, averages: list[str]) -> None:
        """Let the program exchange gradients; where they are added up let each run weigh them."""
        options: dict[str, Any] = {} if self._accumulation is None else {"sends": False, "poisons": is_scaled}
        self.exchange = distribute(self.program, self.loss, self.transport, self.strategy, **options)
        self.exchange.own = {v.name for v in self._added}

    def compute(self, executor: Executor, feed: Mapping[str, Any], fetches: Sequence[Variable], part: Part | None) -> list[Any]:
        """A step, or the gradients of one that ``apply`` ends, and what is fetched; None for what other ranks have."""
        if self.exchange is not None:
            self.exchange.part = part
        return list(executor.run(self.program, dict(feed), list(fetches)))

    def apply(self, executor: Executor) -> None:
        """Apply what was added up since the last time."""
        if self._accumulation is not None:
            executor.apply(self.program)

    def gather(self, everywhere: bool = False) -> None:
        """Give rank 0, or all ranks, the state of all; sums of gradients, and what compression has kept, go to rank 0 alone."""
        for one in (self.exchange, self.sums):
            if one is not None and not everywhere:
                one.keep_on_first(self.program.active_scope())

    def collect(self) -> None:
        """Let each rank have, until the next step, what evaluation reads."""

    def forget(self) -> None:
        """Let go of what other ranks hold."""

    def loaded(self) -> None:
        """After a checkpoint is loaded, which every rank does: rank 0 has what was added up."""
        self.forget()
        if self.sums is not None:
            self.sums.drop_on_others(self.program.active_scope())


class HeldStep(RankStep):
    """A step of ranks that hold different state. It is made at the first batch. Arguments are those of ``RankStep``."""

    _step: ShardedStep | PipelineStep | None = None
    _made_of: tuple[Any, ...] = ()
    _agreed = _is_whole = False
    _read: list[str]

    def _begin(self, is_scaled: bool, averages: list[str]) -> None:
        self._read = averages

    def compute(self, executor: Executor, feed: Mapping[str, Any], fetches: Sequence[Variable], part: Part | None) -> list[Any]:
        """Gradients of a part of the batch, and what is fetched: of the loss that of the whole batch; None for what others have."""
        now = (self.program.version, [v.name for v in fetches])
        if self._step is None or self._made_of != now:
            self._step, self._made_of = self._agreed_step(executor, fetches), now
        if self._is_whole:
            self.forget()
        given = self._step.compute(feed, part)
        return [given.get(v.name) for v in fetches]

    def apply(self, executor: Executor) -> None:
        assert self._step is not None
        self._step.apply()
        for _, scheduler in self.program.plan.schedulers:
            if scheduler.steps_by_itself:
                scheduler.step()

    def _agreed_step(self, executor: Executor, fetches: Sequence[Variable]) -> ShardedStep | PipelineStep:
        if not self._agreed:
            own = {v.name for v in self._added}
            mine = fingerprint(self.program, list(self.program.updates), self.strategy)
            check_alike(self.transport, mine, "it has another program, or trains other parameters")
            state = [v for v in self.program.list_vars() if v.persistable and v.name not in own]
            share_state(self.transport, state, self.program.active_scope())
            self._agreed = True
        elif self._step is not None:
            self._step.gather(self.program.active_scope())  # the new one may hold other shares
        return self._make(fetches, executor)

    def _make(self, fetches: Sequence[Variable], executor: Executor) -> ShardedStep | PipelineStep:
        raise NotImplementedError

    # State -------------------------------------------------------------------------------------------------------------

    def gather(self, everywhere: bool = False) -> None:
        if self._step is not None:
            self._step.gather(self.program.active_scope() if everywhere or self.transport.rank == 0 else None)
        super().gather(everywhere)

    def collect(self) -> None:
        """Let each rank have, until the next step, what evaluation reads.

        Raises:
            TrainingError: if a callback asks for it within an epoch, on rank 0 alone.
        """
        if self._step is None or self._is_whole or not self._read:
            return
        if self.is_alone:
            raise TrainingError(
                "weights or their averages lie on several ranks, and callbacks are called on rank 0 alone. Read them in "
                "on_evaluate, on_epoch or on_end, before which they are collected."
            )
        self._step.gather(self.program.active_scope(), self._read)
        self._is_whole = True

    def forget(self) -> None:
        self._is_whole = False
        if self._step is not None:
            self._step.forget()

    def bytes_of_state(self) -> int:
        """Bytes of the state that this rank holds: of the optimizer, and in a pipeline of weights too."""
        return 0 if self._step is None else self._step.bytes_of_state()


class SharedStep(HeldStep):
    """What ``Strategy(batch_norm="sync")`` and ``Strategy(sharding=)`` ask for. Arguments are those of ``RankStep``."""

    def _begin(self, is_scaled: bool, averages: list[str]) -> None:
        super()._begin(is_scaled, averages if self.strategy.sharding else [])
        if self.strategy.compress is not None:
            raise ArgumentError("statistics of the whole batch are not for compressed gradients. Leave compress out.")
        if self.strategy.sharding == 2 and not hasattr(self.transport, "send"):
            raise ArgumentError("this transport cannot send from one rank to another. Use sharding=1, or MPI.")

    def _make(self, fetches: Sequence[Variable], executor: Executor) -> ShardedStep:
        return ShardedStep(
            self.program,
            list(fetches),
            self.transport,
            loss=self.loss,
            batch_norm=self.strategy.batch_norm,
            shards=SHARDS[self.strategy.sharding],
            place=executor.place,
            threads=executor.threads,
            in_scope=True,
        )


class PipelinedStep(HeldStep):
    """What ``Strategy(pipeline=)`` asks for. Arguments are those of ``RankStep``; nothing is accumulated beside micro-batches."""

    def _make(self, fetches: Sequence[Variable], executor: Executor) -> PipelineStep:
        strategy = self.strategy
        step = PipelineStep(
            self.program,
            self.loss,
            [self.program.find(name) for name in strategy.cuts] or strategy.pipeline,
            self.transport,
            micro_batches=strategy.micro_batches,
            fetch=[v for v in fetches if v is not self.loss],
            batch_norm=strategy.batch_norm,
            place=executor.place,
            threads=executor.threads,
            in_scope=True,
        )
        self._read = list(dict.fromkeys([*self._read, *step.forward_state]))
        return step

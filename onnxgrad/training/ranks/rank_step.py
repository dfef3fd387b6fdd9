"""The step of a Trainer as several ranks run it between them.

Tests: tests/distributed/test_trainer.py, tests/distributed/test_trainer_shares.py, tests/distributed/test_trainer_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor, step_schedules
from onnxgrad.core.step.make import share_out
from onnxgrad.distributed.agreement import broadcast_state, check_equal, fingerprint, versions
from onnxgrad.distributed.exchange import GradientExchange, Part, StateExchange, distribute
from onnxgrad.distributed.pipeline import PipelineStep
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import TrainingError
from onnxgrad.optimizer.average import ExponentialMovingAverage

__all__ = ["PipelinedStep", "RankStep"]


class RankStep:
    """The step of ranks of which each computes gradients of its part of every batch. The Executor runs it; with others its program
    exchanges gradients. Each rank holds all state, or a shard of the optimizer's.

    Args:
        transport: between the ranks.
        strategy: what is asked for.
        program: the step.
        loss: of the step.
        is_scaled: whether the loss is.
        average: of weights, which evaluation reads.
        part_weights: what the loss of a part is multiplied by; None where it is weighed afterwards.

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
        part_weights: Mapping[Variable, Variable] | None = None,
    ) -> None:
        self._part_weights = part_weights
        self.transport, self.strategy, self.program, self.loss = transport, strategy, program, loss
        self.exchange: GradientExchange | None = None
        self.sums: StateExchange | None = None
        self.is_alone = self._is_whole = False
        self._read: list[str] = []
        """Names of the state that evaluation reads, and that lies on several ranks."""
        if transport.world_size > 1:
            self._begin(is_scaled, [] if average is None else average.names)

    def _begin(self, is_scaled: bool, averages: list[str]) -> None:
        """Let the program exchange gradients; where they are added up let each run weigh them."""
        self.exchange = distribute(
            self.program, self.loss, self.transport, self.strategy, poisons=is_scaled, part_weights=self._part_weights
        )
        accumulation = self.program.plan.accumulation
        self.sums = None if accumulation is None else accumulation.exchange
        self._read = averages if self.strategy.sharding else []

    # A step ----------------------------------------------------------------------------------------------------------

    def begin(self, executor: Executor, feed: Mapping[str, Any], fetches: Sequence[Variable], part: Part | None) -> None:
        """Before the first step: refuse ranks that differ, and give all the state of rank 0."""
        if self._is_whole:
            self.forget()
        if self.exchange is not None:
            self.exchange.part = part
            executor.meet(self.program, dict(feed), list(fetches))

    @property
    def overlap(self) -> int:
        """The number of sessions that the strategy asks for, so that gradients travel while others are computed; 1 where nothing
        overlaps."""
        return 1 if self.exchange is None else self.strategy.overlap or 1

    @property
    def weight(self) -> float | None:
        """What the loss of the last batch counts in all; None where that is the number of its examples."""
        return None if self.exchange is None else self.exchange.weight

    def let_overlap(self, overlaps: bool) -> None:
        """Say whether gradients travel while others are computed, in sessions opened from now on, where that is asked for."""
        for one in (self.exchange, self.sums):
            if one is not None:
                one.overlaps = overlaps

    def rehearse(self, executor: Executor, feed: Mapping[str, Any], fetches: Sequence[Variable], part: Part | None) -> None:
        """Compute the gradients of a step on this rank alone, as far as no other is asked.

        Raises:
            OnnxGradError: if the executor's place does not take the step.
        """
        if self.exchange is not None:
            self.exchange.part = part
            executor.rehearse(self.program, dict(feed), list(fetches))

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Put back afterwards what the scope does not have, and steps that are undone have changed."""
        with ExitStack() as stack:
            for one in (self.exchange, self.sums):
                if one is not None:
                    stack.enter_context(one.trial())
            yield

    def compute(
        self, executor: Executor, feed: Mapping[str, Any], fetches: Sequence[Variable], part: Part | None, number: int
    ) -> list[Any]:
        """A step, or the gradients of one that ``apply`` ends, and what is fetched; None for what other ranks have.

        Raises:
            TrainingError: on all ranks, if one has taken another ``number`` of steps, has other rows or another rate.
        """
        if self.exchange is not None:
            self.exchange.part, self.exchange.step.number = part, number
        return list(executor.run(self.program, dict(feed), list(fetches)))

    def apply(self, executor: Executor) -> None:
        """Apply what was added up since the last time."""
        if self.program.plan.accumulation is not None:
            executor.apply(self.program)

    # State -----------------------------------------------------------------------------------------------------------

    def gather(self, everywhere: bool = False) -> None:
        """Give all ranks the state of all, or for a checkpoint rank 0 that of a pipeline; other ranks write theirs themselves."""
        if everywhere or not self.writes_together:
            self._gather(everywhere or self.transport.rank == 0, None)

    @property
    def writes_together(self) -> bool:
        """Whether each rank may have something of its own that it writes to a file: shares, what compression has kept, sums."""
        return any(one is not None and (one.shared is not None or one.compresses or one.sums) for one in (self.exchange, self.sums))

    def share_out(self) -> None:
        """Find out, before a checkpoint is read, which ranges of the state this rank is to hold."""
        turns: list[tuple[Any, Turn]] = [(self.exchange, "whole"), (self.sums, "apply")]
        for one, turn in turns:
            if one is not None and one.sharding and one.shared is None:
                share_out(self.program, turn, one)

    def _gather(self, is_kept: bool, only: Sequence[str] | None) -> None:
        """Collect what ranks hold alone, or of it what is named, where it is to be kept"""
        scope = self.program.active_scope()
        for one in (self.exchange, self.sums):
            if one is not None and one.shared is not None:
                one.shared.gather(scope, scope if is_kept else None, only)

    def collect(self) -> None:
        """Let each rank have, until the next step, what evaluation reads.

        Raises:
            TrainingError: if a callback asks for it within an epoch, on rank 0 alone.
        """
        if not self._is_shared or self._is_whole or not self._read:
            return
        if self.is_alone:
            raise TrainingError(
                "weights or their averages lie on several ranks, and callbacks are called on rank 0 alone. Read them in "
                "on_evaluate, on_epoch or on_end, before which they are collected."
            )
        self._gather(True, self._read)
        self._is_whole = True

    @property
    def _is_shared(self) -> bool:
        """Return whether any state is held by one rank alone"""
        return any(one is not None and one.shared is not None for one in (self.exchange, self.sums))

    def forget(self) -> None:
        """Let go of what other ranks hold."""
        self._is_whole = False
        for one in (self.exchange, self.sums):
            if one is not None:
                one.forget(self.program.active_scope())

    def loaded(self) -> None:
        """After a checkpoint is loaded, which every rank does."""
        self.forget()


class PipelinedStep(RankStep):
    """The step of ``Strategy(pipeline=)``, with layers on several ranks. It is built at the first batch.

    Arguments are those of ``RankStep``."""

    _step: PipelineStep | None = None
    _built_for: tuple[Any, ...] = ()
    _agreed = False

    def _begin(self, is_scaled: bool, averages: list[str]) -> None:
        self._read = averages

    def begin(self, executor: Executor, feed: Mapping[str, Any], fetches: Sequence[Variable], part: Part | None) -> None:
        """Open the step of this rank, if there is none for these fetches."""
        now = (self.program.version, [v.name for v in fetches])
        if self._step is None or self._built_for != now:
            self._step, self._built_for = self._agreed_step(executor, fetches), now
        if self._is_whole:
            self.forget()

    def compute(
        self, executor: Executor, feed: Mapping[str, Any], fetches: Sequence[Variable], part: Part | None, number: int
    ) -> list[Any]:
        """Compute the gradients of a part of the batch and the fetches: the loss of all, None for those of other ranks."""
        assert self._step is not None
        self._step.check.number = number
        values = self._step.compute(feed, part)
        return [values.get(v.name) for v in fetches]

    @property
    def weight(self) -> float | None:
        return None if self._step is None else self._step.weight

    def apply(self, executor: Executor) -> None:
        assert self._step is not None
        self._step.apply()
        step_schedules(self.program, self.program.active_scope())

    def _agreed_step(self, executor: Executor, fetches: Sequence[Variable]) -> PipelineStep:
        if not self._agreed:
            check_equal(self.transport, {**versions(), **fingerprint(self.program, list(self.program.updates), self.strategy)})
            broadcast_state(self.transport, [v for v in self.program.list_vars() if v.persistable], self.program.active_scope())
            self._agreed = True
        elif self._step is not None:
            self._step.gather(self.program.active_scope())  # the new one may hold other shares
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

    # State -----------------------------------------------------------------------------------------------------------

    def _gather(self, is_kept: bool, only: Sequence[str] | None) -> None:
        if self._step is not None:
            self._step.gather(self.program.active_scope() if is_kept else None, only)

    @property
    def _is_shared(self) -> bool:
        return self._step is not None

    def forget(self) -> None:
        self._is_whole = False
        if self._step is not None:
            self._step.forget()

"""A training step of which each rank holds a shard: of the batch, and of the optimizer's state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.ir.named import as_variables
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import bytes_of
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.cut import is_applied
from onnxgrad.core.step.loss_terms import loss_of
from onnxgrad.core.step.shards import Shards
from onnxgrad.core.step.split import Fetch, Statistics
from onnxgrad.core.step.step import Step
from onnxgrad.distributed.exchange import GradientExchange, StateExchange, distribute
from onnxgrad.distributed.shared_state import FollowedRates, SharedState, copy_state
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = ["ShardedStep"]

Array = np.ndarray[Any, Any]

_STAGES: dict[str | None, Literal[0, 1, 2]] = {None: 0, "state": 1, "gradients": 2}
"""Stages of ZeRO by what is shared out; the last two are one."""


class ShardedStep:
    """A rank's share of the training step of a program (ZeRO): gradients of its part of the batch are added up over all ranks, each
    rank updates a range of the elements, holding the optimizer's state of these alone, and all get the new weights.

    It is an Executor with a scope of its own, on a copy of the program for which ``distribute`` was called.
    The result is that of one process with the whole batch and all the state, to rounding, and the same to the bit each time.

    Args:
        program: that ``minimize`` was called on; it is not changed.
        fetch: what to return of each step.
        transport: between the ranks, which all make this of the same program.
        scope: where the first values are; None for the program's.
        loss, loss_weight, batch_norm: as for ``to_split_training_step``.
        shards: ``"state"`` or ``"gradients"``, which are the same, to share out the optimizer's state, where a rank is sent the
            gradients of its range alone; None for neither.
        place: where sessions run; None for the CPU. Ranks exchange in main memory.
        threads: of each session; None for onnxruntime's choice.
        in_scope: keep the state in the scope, where an Executor reads and writes the same values. Of large optimizer state it has
            this rank's range, as a row.
        strategy: how gradients travel: ``compress``, ``overlap`` and the like; ``sharding`` and ``batch_norm`` are the arguments'.

    Masks of Dropout are those of the whole batch if ``core.passes.modes.take_parts`` was called before ``minimize``.

    Attributes:
        exchange: of gradients, or where they are added up of the sums: it keeps what compression has left over, for a checkpoint.

    Raises:
        ArgumentError: as for ``to_split_training_step``, or if the optimizer reads what is fed.

    Example:
        >>> from onnxgrad.distributed import run_local
        >>> paddle.seed(3)
        >>> x = static.data("x", ["N", 3])
        >>> loss = paddle.mean(paddle.square(static.nn.fc(x, 1) - 1.0))
        >>> _ = paddle.optimizer.Adam(0.1).minimize(loss)
        >>> _ = static.Executor().run(static.default_startup_program())
        >>> rows = np.ones((4, 3), np.float32)
        >>> def train(transport):
        ...     step = ShardedStep(loss.block.program, [loss], transport)
        ...     mine = rows[transport.rank :: transport.world_size]
        ...     return [float(step.run({"x": mine})[loss.name]) for _ in range(3)]
        >>> first, second = run_local(2, train)
        >>> first == second and first[-1] < first[0]
        True
    """

    @checked
    def __init__(
        self,
        program: Program,
        fetch: Fetch,
        transport: Transport,
        scope: Scope | None = None,
        *,
        loss: Variable | str | None = None,
        loss_weight: Variable | str | None = None,
        batch_norm: Statistics | None = None,
        shards: Literal["state", "gradients"] | None = "state",
        place: Place | None = None,
        threads: int | None = None,
        in_scope: bool = False,
        strategy: Strategy | None = None,
    ) -> None:
        if shards not in _STAGES:
            raise ArgumentError(f"shards is 'state', 'gradients' or None, not {shards!r}.")
        if not any(is_applied(new) for new in program.updates.values()):
            raise ArgumentError("no optimizer updates this program. Call minimize on the loss first.")
        self.transport = transport
        self.program, copies = program.clone_with_variables()
        self._fetches = [copies[v] for v in as_variables(program, fetch)]
        if loss is None:
            minimized = loss_of(self.program, self._fetches)
        else:
            minimized = copies[as_variables(program, loss)[0]]
        if isinstance(loss_weight, Variable):
            loss_weight = copies[loss_weight]
        strategy = replace(strategy or Strategy(), sharding=_STAGES[shards], batch_norm=batch_norm)
        exchange = distribute(self.program, minimized, transport, strategy, loss_weight=loss_weight)
        accumulation = self.program.plan.accumulation
        self.exchange: GradientExchange | StateExchange = exchange if accumulation is None else accumulation.exchange
        source = scope or program.active_scope()
        self._scope = source if in_scope else source.copy()
        self._rates = FollowedRates(program, self._scope)
        self._executor = Executor(place or CPUPlace(), threads=threads, shapes=0)
        self._done = 0
        self.step: Step = self._executor.step(self.program, self._fetches, self._scope)
        """What this rank runs, as a value that prints well."""

    @property
    def shards(self) -> Shards | None:
        """The ranks that hold each shard; None if all hold all."""
        return None if self._shared is None else self._shared.shards

    @property
    def _shared(self) -> SharedState | None:
        return self.exchange.shared

    # One step --------------------------------------------------------------------------------------------------------

    def run(self, feed: GivenByName) -> dict[str, Array]:
        """Take a step on this rank's part of the batch; where gradients are added up, every so many-th ``run`` applies them.

        Args:
            feed: arrays by input name.

        Returns:
            What was fetched: of a loss, that of the whole batch, of all else what this rank computed.
        """
        self._rates.take()
        results = self._executor.run(self.program, dict(feed), list(self._fetches), scope=self._scope)
        self._done += 1
        accumulation = self.program.plan.accumulation
        if accumulation is not None and self._done % accumulation.runs == 0:
            self._executor.apply(self.program, self._scope)
        return {v.name: result for v, result in zip(self._fetches, results, strict=True)}

    # State -------------------------------------------------------------------------------------------------------------

    def bytes_of_state(self) -> int:
        """Bytes of the optimizer's state that this rank holds: updated state without parameters."""
        plan = self.program.plan
        sums = [] if plan.accumulation is None else plan.accumulation.sums
        updated = {v for v in plan.updates(self.program.updates, "apply" if sums else "whole") if not isinstance(v, Parameter)}
        shards = self.shards
        held = {} if shards is None else {v: shards.own(v) for v in shards.held()}
        own = sum(bytes_needed(v.dtype, (stop - start,)) for v, (start, stop) in held.items())
        return own + sum(map(bytes_of, updated.difference(sums, held)))

    def forget(self) -> None:
        """Free the state of other ranks, after a checkpoint was read into the scope or written from it."""
        self.exchange.forget(self._scope)

    def gather(self, scope: Scope | None, only: Collection[str] | None = None) -> None:
        """Write the state of all ranks to a scope on each, for a checkpoint or another number of ranks; called by all.

        Sums over micro-batches are those of this rank.

        Args:
            scope: None on a rank that shall hold nothing more.
            only: names of what is wanted; None for all.

        Example:
            >>> step.gather(scope)  # doctest: +SKIP
            >>> paddle.training.save_checkpoint(program, "run.safetensors", scope)  # doctest: +SKIP
        """
        if self._shared is not None:
            self._shared.gather(self._scope, scope, only)
        elif scope is not None and scope is not self._scope:
            copy_state(self.program, self._scope, scope, only)

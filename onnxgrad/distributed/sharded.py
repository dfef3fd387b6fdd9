"""A training step of which each rank holds a share: of the batch, and of the optimizer's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxgrad.core.compile.shards import Shards, make_shards
from onnxgrad.core.interop.split_step import Fetch, split_step
from onnxgrad.core.ir.memory import value_of, view_of
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.scope import Scope
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.distributed.application import Application, reduce_stage
from onnxgrad.distributed.sessions import Session
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import ArgumentError

__all__ = ["ShardedStep"]

Array = np.ndarray[Any, Any]


class ShardedStep:
    """A rank's share of the training step of a program (ZeRO stage 1): gradients of its part of the batch are put together over all
    ranks, each rank updates some of the parameters, holding the optimizer's state of these alone, and all get the new weights.

    The result is that of one process with the whole batch and all the state, to rounding; with ``shards="state"`` it is bitwise
    that of None, where every rank holds all of the state.

    Args:
        program: that ``minimize`` was called on; it is not changed.
        fetch: what to return of each step.
        transport: between the ranks, which all make this of the same program.
        scope: where the first values are; None for the program's.
        loss, loss_weight, batch_norm: as for ``to_split_training_step``.
        shards: ``"state"`` to share out the optimizer's state, ``"gradients"`` to send each gradient to the rank that reads it
            alone, which is half the traffic of gradients (ZeRO stage 2; the transport is a ``PointToPoint``), None for neither.
        lowering: of the graphs; None for plain forms.
        threads: of each session; None for onnxruntime's choice.

    Attributes:
        shards: who holds what; None if all hold all.

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

    def __init__(
        self,
        program: Program,
        fetch: Fetch,
        transport: Transport,
        scope: Scope | None = None,
        *,
        loss: Variable | str | None = None,
        loss_weight: Variable | str | None = None,
        batch_norm: str | None = None,
        shards: str | None = "state",
        lowering: str | None = "cpu",
        threads: int | None = None,
    ) -> None:
        split = split_step(program, fetch, scope, lowering, loss, loss_weight, batch_norm)
        self.program, self.transport, self.manifest = program, transport, split.manifest
        if shards not in ("state", "gradients", None):
            raise ArgumentError(f"shards is 'state', 'gradients' or None, not {shards!r}.")
        if shards == "gradients" and transport.world_size > 1 and not hasattr(transport, "send"):
            raise ArgumentError("this transport cannot send from one rank to another. Use shards='state', or MPI.")
        count, rank = (transport.world_size, transport.rank) if shards else (1, 0)
        found = make_shards(program, count)
        self.shards: Shards | None = found if shards else None
        self._owners: dict[str, int] = {}
        self._first = [Session(stage, threads) for stage in split.first]
        self._application = Application(
            found, rank, transport, lowering, threads, partial=shards == "gradients", spreads=shards is not None
        )
        variables = {v.name: v for v in program.list_vars() if v.persistable}
        held = dict.fromkeys([*(name for session in self._first for name in session.state), *self._application.state])
        held.update(dict.fromkeys(v.name for states in found.owned for v in states if isinstance(v, Parameter)))
        self._values = {name: value_of(np.asarray(variables[name].get_value(scope))) for name in held}
        self._application.begin(self._values)
        given = [entry["gradient"] for entry in self.manifest["exchange"]]
        self._names = dict(zip(found.cut.gradients, given, strict=True))
        if shards == "gradients":
            self._owners = {self._names[v]: owner for v, owner in found.owners.items()}
        self._last = {name: number for number, session in enumerate(self._first) for name in session.inputs}

    # One step --------------------------------------------------------------------------------------------------------

    def run(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        """Take a step on this rank's part of the batch.

        Args:
            feed: arrays by input name.

        Returns:
            What was fetched: of a loss, that of the whole batch, of all else what this rank computed.
        """
        values = {name: value_of(np.ascontiguousarray(array)) for name, array in feed.items()}
        for number, session in enumerate(self._first):
            values.update(session.run(values, self._values))
            reduce_stage(self.transport, session.stage, values)
            kept = {name for name, last in self._last.items() if last > number} | self._returned
            values = {name: value for name, value in values.items() if name in kept}
        fetched = self._exchange(values)
        for entry in self.manifest["gradients"]["state"]:
            self._values[entry["input"]] = values[entry["output"]]
        self._application.run({v: values[name] for v, name in self._names.items() if name in values}, self._values)
        return fetched

    @property
    def _returned(self) -> set[str]:
        part = self.manifest["gradients"]
        names = {entry["name"] for entry in part["fetches"]} | {entry["output"] for entry in part["state"]}
        return names | set(self._names.values()) | {self.manifest["weight"]}

    def _exchange(self, values: dict[str, Any]) -> dict[str, Array]:
        """Make of this part's gradients, statistics and loss those of the whole batch, in place"""
        manifest = self.manifest
        weight = 1.0 if manifest["weight"] is None else float(view_of(values[manifest["weight"]]).reshape(-1)[0])
        total = np.array([weight])
        self.transport.all_reduce_(total)
        mean = weight / total[0] if total[0] else 1.0 / self.transport.world_size
        for entry in manifest["exchange"]:
            kind = entry.get("reduction", manifest["reduction"])
            owner = self._owners.get(entry["gradient"])
            if kind != "same" and owner is None:
                self._together(values[entry["gradient"]], mean if kind == "mean" else None)
            elif kind != "same":
                self._send_to(owner, values, entry["gradient"], mean if kind == "mean" else None)
        for entry in manifest["gradients"]["state"]:
            if entry["statistic"]:
                self._together(values[entry["output"]], mean)
        fetched = {entry["name"]: view_of(values[entry["name"]]).copy() for entry in manifest["gradients"]["fetches"]}
        if manifest["loss"] in fetched:
            self._together(fetched[manifest["loss"]], mean if manifest["reduction"] == "mean" else None)
        return fetched

    def _together(self, value: Any, factor: float | None) -> None:
        """The sum over ranks, of which each is multiplied by its factor"""
        self.transport.all_reduce_(_scaled(value, factor))

    def _send_to(self, owner: int | None, values: dict[str, Any], name: str, factor: float | None) -> None:
        """The same for the one rank that reads it; the others let go of it"""
        transport: Any = self.transport
        flat = _scaled(values[name], factor)
        if transport.rank != owner:
            transport.send(flat, owner)
            del values[name]
            return
        mine, other = flat.copy(), np.empty_like(flat)
        for rank in range(transport.world_size):
            if rank != owner:
                transport.receive_(other, rank)
            part = mine if rank == owner else other
            np.copyto(flat, part) if rank == 0 else np.add(flat, part, out=flat)

    # State -------------------------------------------------------------------------------------------------------------

    def bytes_of_state(self) -> int:
        """Bytes of the optimizer's state that this rank holds: what the program updates and is no parameter."""
        updated = {entry["input"] for entry in self.manifest["apply"]["state"] if not entry["parameter"]}
        return sum(view_of(value).nbytes for name, value in self._values.items() if name in updated)

    def gather(self, scope: Scope) -> None:
        """Write the state of all ranks to a scope on each, for a checkpoint or another number of ranks; called by all.

        Example:
            >>> step.gather(scope)  # doctest: +SKIP
            >>> paddle.training.save_checkpoint(program, "run.safetensors", scope)  # doctest: +SKIP
        """
        self._application.gather(self._values, scope)


def _scaled(value: Any, factor: float | None) -> Array:
    """The elements of a value, multiplied in place; what counts for nothing may be NaN"""
    flat = (value if isinstance(value, np.ndarray) else view_of(value)).reshape(-1)
    if factor == 0:
        flat[:] = 0
    elif factor is not None:
        np.multiply(flat, flat.dtype.type(factor), out=flat)
    return flat

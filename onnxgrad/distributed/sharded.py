"""A training step of which each rank holds a share: of the batch, and of the optimizer's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.compile.shards import Shards, make_shards
from onnxgrad.core.compile.stages import Stage
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.interop.split_step import Fetch, split_step
from onnxgrad.core.ir.memory import value_of, view_of
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.scope import Scope
from onnxgrad.core.ir.variable import LEARNING_RATE, Parameter, Variable
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import ArgumentError

__all__ = ["ShardedStep"]

Array = np.ndarray[Any, Any]


class ShardedStep:
    """A rank's share of the training step of a program (ZeRO stage 1): gradients of its part of the batch are put together over all
    ranks, each rank updates some of the parameters, holding the optimizer's state of these alone, and all get the new weights.

    The result is that of one process with the whole batch and all the state, to rounding; with ``shards="state"`` it is bitwise that
    of None, where every rank holds all of the state.

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
        self._shards = make_shards(program, count)
        self.shards: Shards | None = self._shards if shards else None
        self._owners: dict[str, int] = {}
        self._first = [_Session(stage, threads) for stage in split.first]
        common, self._shared = self._shards.common(rank, lowering, partial=shards == "gradients")
        self._common = [_Session(stage, threads) for stage in common]
        own = self._shards.own(rank, lowering)
        self._own = None if own is None else _Session(Stage(own, []), threads)
        self._variables = {v.name: v for v in program.list_vars() if v.persistable}
        held = dict.fromkeys(name for session in self._sessions for name in session.state)
        held.update(dict.fromkeys(v.name for states in self._shards.owned for v in states if isinstance(v, Parameter)))
        self._values = {name: value_of(np.asarray(self._variables[name].get_value(scope))) for name in held}
        given = [entry["gradient"] for entry in self.manifest["exchange"]]
        self._names = dict(zip(self._shards.cut.gradients, given, strict=True))
        if shards == "gradients":
            self._owners = {self._names[v]: owner for v, owner in self._shards.owners.items()}
        self._rates = {name: rate for name, rate in self._rates_now().items() if not self._is_scheduled(name)}
        self._last = {name: number for number, session in enumerate(self._first) for name in session.inputs}

    def _is_scheduled(self, name: str) -> bool:
        return any(v.name == name for v, _ in self.program.schedulers)

    @property
    def _sessions(self) -> list[_Session]:
        return [*self._first, *self._common, *([] if self._own is None else [self._own])]

    # One step --------------------------------------------------------------------------------------------------------

    def run(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        """Take a step on this rank's part of the batch.

        Args:
            feed: arrays by input name.

        Returns:
            What was fetched: of a loss, that of the whole batch, of all else what this rank computed.
        """
        self._take_rates()
        values = {name: value_of(np.ascontiguousarray(array)) for name, array in feed.items()}
        for number, session in enumerate(self._first):
            values.update(session.run(values, self._values))
            self._reduce(session.stage, values)
            kept = {name for name, last in self._last.items() if last > number} | self._returned
            values = {name: value for name, value in values.items() if name in kept}
        fetched = self._exchange(values)
        for entry in self.manifest["gradients"]["state"]:
            self._values[entry["input"]] = values[entry["output"]]
        self._apply({v: values[name] for v, name in self._names.items() if name in values})
        return fetched

    @property
    def _returned(self) -> set[str]:
        part = self.manifest["gradients"]
        names = {entry["name"] for entry in part["fetches"]} | {entry["output"] for entry in part["state"]}
        return names | set(self._names.values()) | {self.manifest["weight"]}

    def _reduce(self, stage: Stage, values: dict[str, Any]) -> None:
        """Add up over ranks what a stage gives for that, in one buffer for each element type"""
        kinds: dict[Any, list[tuple[str, Variable]]] = {}
        for name, total in stage.reductions:
            kinds.setdefault(total.dtype.numpy, []).append((name, total))
        for members in kinds.values():
            views = [view_of(values[name]) for name, _ in members]
            flat = np.concatenate([view.reshape(-1) for view in views])
            self.transport.all_reduce_(flat)
            at = 0
            for (_, total), view in zip(members, views, strict=True):
                values[total.name] = value_of(flat[at : at + view.size].reshape(view.shape))
                at += view.size

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

    def _apply(self, gradients: Mapping[Variable, Any]) -> None:
        given, values = dict(gradients), dict[str, Any]()
        new: dict[str, Any] = {}
        for session in self._common:
            results = session.run(values | session.named(given), self._values)
            self._reduce(session.stage, results)
            values.update(results)
        given.update((v, values[self._shared[v]]) for v in self._shards.cut.shared)
        small = set(self._shards.cut.small)
        new.update((v.name, values[self._shared[made]]) for v, made in self.program.updates.items() if made in small)
        if self._own is not None:
            new.update(self._own.replaced(self._own.run(self._own.named(given), self._values), self.program))
        self._values.update(new)
        if self.shards is not None:
            for rank, states in enumerate(self.shards.owned):
                self._pass_on([v.name for v in states if isinstance(v, Parameter)], rank)

    def _pass_on(self, names: Sequence[str], owner: int) -> None:
        """Give all ranks the values of one"""
        for name in names:
            self.transport.broadcast_(view_of(self._values[name]).reshape(-1).view(np.uint8), owner)

    def _take_rates(self) -> None:
        """The learning rates that schedulers give, or that ``set_lr`` has changed since the last step"""
        for name, now in self._rates_now().items():
            if now != self._rates.get(name):
                self._values[name] = value_of(np.asarray(now, self._variables[name].dtype.numpy))
        self._rates = self._rates_now()

    def _rates_now(self) -> dict[str, float]:
        given = {v.name: float(scheduler()) for v, scheduler in self.program.schedulers if v.name in self._values}
        held = [v for name, v in self._variables.items() if name in self._values and v.doc == LEARNING_RATE and name not in given]
        return given | {v.name: float(v.get_value(self.program.active_scope())) for v in held}

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
        owners = {v.name: rank for rank, states in enumerate(self._shards.owned) for v in states if self.shards is not None}
        for name, v in self._variables.items():
            if name in owners and not isinstance(v, Parameter):
                mine = self._values.get(name) if owners[name] == self.transport.rank else None
                array = np.empty(v.static_shape or (), v.dtype.numpy) if mine is None else view_of(mine).copy()
                self.transport.broadcast_(array.reshape(-1).view(np.uint8), owners[name])
                v.set_value(array, scope)
            elif name in self._values:
                v.set_value(view_of(self._values[name]).copy(), scope)


def _scaled(value: Any, factor: float | None) -> Array:
    """The elements of a value, multiplied in place; what counts for nothing may be NaN"""
    flat = (value if isinstance(value, np.ndarray) else view_of(value)).reshape(-1)
    if factor == 0:
        flat[:] = 0
    elif factor is not None:
        np.multiply(flat, flat.dtype.type(factor), out=flat)
    return flat


class _Session:
    """A graph that is run on OrtValues, by name."""

    def __init__(self, stage: Stage, threads: int | None) -> None:
        import onnxruntime

        self.stage, self.graph = stage, stage.graph
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.enable_mem_pattern = False
        if threads is not None:
            options.intra_op_num_threads = threads
        message = write_model(self.graph, embeds=True).SerializeToString()
        self._session = onnxruntime.InferenceSession(message, options, providers=["CPUExecutionProvider"])
        self.state = [v.name for v in self.graph.inputs if v.persistable]
        self.inputs = [v.name for v in self.graph.inputs if not v.persistable]
        self.outputs = [name for name, _ in self.graph.outputs]

    def run(self, values: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
        """All outputs."""
        missing = [name for name in self.inputs if name not in values]
        if missing:
            raise ArgumentError(f"the feed lacks {missing[0]!r}. Feed {', '.join(map(repr, self.inputs))}.")
        given = {name: values[name] for name in self.inputs} | {name: state[name] for name in self.state}
        return dict(zip(self.outputs, self._session.run_with_ort_values(self.outputs, given), strict=True))

    def named(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        """Values by the names of the inputs that take them."""
        return {v if isinstance(v, str) else self.graph.name(v): value for v, value in values.items()}

    def replaced(self, results: Mapping[str, Any], program: Program) -> dict[str, Any]:
        """New values of the state that the graph replaces."""
        return {v.name: results[self.graph.name(new)] for v, new in program.updates.items() if self.graph.name(new) in results}

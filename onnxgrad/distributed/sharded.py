"""A training step of which each rank holds a share: of the batch, and of the optimizer's state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.core.runtime.runner import OpenPhase, run_phases
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of, view_of
from onnxgrad.core.step.shards import Shards, make_shards
from onnxgrad.core.step.split import COUNTS, Fetch, split_step
from onnxgrad.core.step.stages import taking
from onnxgrad.core.step.step import AllReduce, Step, bytes_of_all
from onnxgrad.distributed.application import Application
from onnxgrad.distributed.exchange import Part, gathered_part
from onnxgrad.distributed.held import HeldState
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
        lowering: of the graphs; None for plain forms. A place that is named decides.
        place: where sessions run; None for the CPU. Ranks exchange in main memory, where the state lies, too.
        threads: of each session; None for onnxruntime's choice.
        in_scope: keep the state in the scope, where an Executor reads and writes the same values. Large optimizer state that other
            ranks hold is zeros there, which take no memory.

    Masks of Dropout are those of the whole batch if ``core.passes.modes.take_parts`` was called before ``minimize``.

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
        place: Place | None = None,
        threads: int | None = None,
        in_scope: bool = False,
    ) -> None:
        lowering, place = (lowering, CPUPlace()) if place is None else (place.lowering, place)
        split = split_step(program, fetch, scope, lowering, loss, loss_weight, batch_norm, stands_by=True)
        self.program, self.transport, self.manifest = program, transport, split.manifest
        if shards not in ("state", "gradients", None):
            raise ArgumentError(f"shards is 'state', 'gradients' or None, not {shards!r}.")
        if shards == "gradients" and transport.world_size > 1 and not hasattr(transport, "send"):
            raise ArgumentError("this transport cannot send from one rank to another. Use shards='state', or MPI.")
        count, rank = (transport.world_size, transport.rank) if shards else (1, 0)
        accumulation = program.plan.accumulation
        found = make_shards(program, count)
        self.shards: Shards | None = found if shards else None
        self._owners: dict[str, int] = {}
        self._first = [OpenPhase(phase, place, threads) for phase in split.first]
        self._application = Application(
            found,
            rank,
            transport,
            lowering,
            place,
            threads,
            partial=shards == "gradients",
            spreads=shards is not None,
            replaces=in_scope,
            statistics={entry["input"] for entry in self.manifest["apply"]["state"] if entry["statistic"]},
        )
        variables = {v.name: v for v in program.list_vars() if v.persistable}
        held = dict.fromkeys([*(name for phase in self._first for name in phase.state), *self._application.state])
        held.update(dict.fromkeys(v.name for states in found.owned for v in states if self._application.is_spread(v)))
        if in_scope:
            self._values: MutableMapping[str, Any] = HeldState(scope or program.active_scope(), variables.values())
        else:
            self._values = {name: value_of(np.asarray(variables[name].get_value(scope))) for name in held}
        self.forget()
        self._application.begin(self._values)
        self._sums = {} if accumulation is None else {v.name: v for v in accumulation.sums}
        self._every = 1 if accumulation is None else accumulation.runs
        self._done = 0
        given = [entry["gradient"] for entry in self.manifest["exchange"]]
        self._names = {} if accumulation else dict(zip(found.cut.gradients, given, strict=True))
        if shards == "gradients":
            named = {held: held.name for held in self._sums.values()} if accumulation else self._names
            self._owners = {named[v]: owner for v, owner in found.owners.items()}
        self._part: Part | None = None
        self._gradients: dict[str, Any] = {}
        self._share = 1.0

    @property
    def step(self) -> Step:
        """What this rank runs, as a value that prints well.

        Example:
            >>> print(step.step)  # doctest: +SKIP
        """
        *before, last = [phase.phase for phase in self._first]
        names = set(self._names.values())
        gradients = tuple(name for name, _ in last.graph.outputs if name in names)
        if gradients and self.transport.world_size > 1:
            size = bytes_of_all(v for name, v in last.graph.outputs if name in names)
            last = replace(last, then=(*last.then, AllReduce(len(before), gradients, size)))
        phases = [*before, last]
        for phase in self._application.described():
            phases.append(taking(phase, phases))
        fetches = tuple((last.name, entry["name"]) for entry in self.manifest["gradients"]["fetches"])
        return Step(tuple(phases), fetches, self._application.owned(phases), last.graph)

    # One step --------------------------------------------------------------------------------------------------------

    def run(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        """Take a step on this rank's part of the batch.

        Args:
            feed: arrays by input name.

        Returns:
            What was fetched: of a loss, that of the whole batch, of all else what this rank computed.
        """
        fetched = self.compute(feed)
        self._done += 1
        if self._done % self._every == 0:
            self.apply()
        return fetched

    def compute(self, feed: Mapping[str, Any], part: Part | None = None) -> dict[str, Array]:
        """The first half of ``run``: gradients, which are added up where they are accumulated; statistics are replaced.

        Args:
            feed: arrays by input name.
            part: of the batch that this is; None to find it from what is fed.
        """
        self._part = part
        counts = part is None or part.counts
        told = {**feed, **self._part_of(feed), COUNTS: np.array(float(counts))}
        values = {name: value_of(np.asarray(array, order="C")) for name, array in told.items()}
        values = run_phases(self._first, values, self._values, self.transport, self._returned)
        manifest, mean = self.manifest, self._weighed(values, counts)
        for entry in manifest["gradients"]["state"]:
            if entry["statistic"]:
                self._together(values[entry["output"]], mean)
        fetched = {entry["name"]: view_of(values[entry["name"]]).copy() for entry in manifest["gradients"]["fetches"]}
        if manifest["loss"] in fetched:
            self._together(fetched[manifest["loss"]], self._share_of(counts, manifest["reduction"], mean))
        for entry in manifest["gradients"]["state"]:
            if counts or entry["input"] not in self._sums:
                self._values[entry["input"]] = values[entry["output"]]
        self._gradients = {name: values[name] for name in self._names.values()}
        self._counts, self._share = counts, mean
        return fetched

    def apply(self) -> None:
        """The second half of ``run``: gradients of this part become those of the whole batch, and are applied."""
        for name, held in self._sums.items():
            self._reduce(self._values, name, held.name, None)
        values, manifest = self._gradients, self.manifest
        for entry in manifest["exchange"] if not self._sums else ():
            kind = entry.get("reduction", manifest["reduction"])
            if kind != "same":
                self._reduce(values, entry["gradient"], entry["gradient"], self._share_of(self._counts, kind, self._share))
        self._application.run({v: values[name] for v, name in self._names.items() if name in values}, self._values)
        self._gradients = {}
        for name, held in self._sums.items():
            self._values[name] = value_of(np.zeros(held.static_shape or (), held.dtype.numpy))

    def _part_of(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        """What Dropout is told of the part that is fed"""
        if PART in feed or not any(PART in phase.inputs for phase in self._first):
            return {}
        part = self._part or gathered_part(self.transport, len(next(iter(feed.values()))))
        return {PART: np.array([part.first, part.count], np.int64)}

    @property
    def _returned(self) -> set[str]:
        part = self.manifest["gradients"]
        names = {entry["name"] for entry in part["fetches"]} | {entry["output"] for entry in part["state"]}
        return names | set(self._names.values()) | {self.manifest["weight"]}

    def _weighed(self, values: Mapping[str, Any], counts: bool) -> float:
        """This part's share of the weight of the whole batch"""
        name = self.manifest["weight"]
        weight = 1.0 if name is None else float(view_of(values[name]).reshape(-1)[0])
        total = np.array([weight if counts else 0.0])
        mine = float(total[0])
        self.transport.all_reduce_(total)
        return mine / float(total[0]) if total[0] else 1.0 / self.transport.world_size

    def _share_of(self, counts: bool, reduction: str, mean: float) -> float | None:
        """By what a value of this part is multiplied before it is added to the others'"""
        if not counts:
            return 0.0
        return mean if reduction == "mean" else None

    def _reduce(self, values: MutableMapping[str, Any], name: str, owned: str, factor: float | None) -> None:
        owner = self._owners.get(owned)
        if owner is None:
            self._together(values[name], factor)
        else:
            self._send_to(owner, values, name, factor)

    def _together(self, value: Any, factor: float | None) -> None:
        """The sum over ranks, of which each is multiplied by its factor"""
        self.transport.all_reduce_(_scaled(value, factor))

    def _send_to(self, owner: int, values: MutableMapping[str, Any], name: str, factor: float | None) -> None:
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

    def forget(self) -> None:
        """Let go of what other ranks hold, after a checkpoint was read into the scope or written from it."""
        if isinstance(self._values, HeldState):
            for v in self._application.elsewhere:
                del self._values[v.name]

    def gather(self, scope: Scope | None, only: Collection[str] | None = None) -> None:
        """Write the state of all ranks to a scope on each, for a checkpoint or another number of ranks; called by all.

        Sums over micro-batches are those of this rank. A rank that shall hold nothing more passes None. ``only`` names what is
        wanted, if not all is.

        Example:
            >>> step.gather(scope)  # doctest: +SKIP
            >>> paddle.training.save_checkpoint(program, "run.safetensors", scope)  # doctest: +SKIP
        """
        self._application.gather(self._values, scope, only=only)


def _scaled(value: Any, factor: float | None) -> Array:
    """The elements of a value, multiplied in place; what counts for nothing may be NaN"""
    flat = (value if isinstance(value, np.ndarray) else view_of(value)).reshape(-1)
    if factor == 0:
        flat[:] = 0
    elif factor is not None:
        np.multiply(flat, flat.dtype.type(factor), out=flat)
    return flat

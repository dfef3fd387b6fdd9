"""The exchange of a training step: gradients of parts become those of the whole batch, in the memory that updates read.

The whole batch's gradient is the sum over ranks of weight times gradient over the sum of the weights, where a weight is what the
loss of a part was divided by (``core.step.loss_terms``); of a loss that is a sum it is the plain sum.

Tests: tests/distributed/test_programs.py, tests/distributed/test_overlap.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.examples import batch_axes
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.plan import Accumulation, LossTerm
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.staged import BetweenError
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import view_of
from onnxgrad.core.step.cut import Cut, is_small
from onnxgrad.core.step.gather import ROWS
from onnxgrad.core.step.lookups import share_lookups
from onnxgrad.core.step.loss_terms import only_term
from onnxgrad.core.step.shards import RangePart, Shards, Share, range_parts
from onnxgrad.core.step.split import check_batch_norm
from onnxgrad.core.step.synchronise import COUNTS, Synchronised
from onnxgrad.distributed.agreement import MARKS, StepCheck, Subject, broadcast_state, check_equal, fingerprint, versions
from onnxgrad.distributed.buckets import Buckets, Slot
from onnxgrad.distributed.compression import Keeps, Narrow, TopK, compression_of, is_compressed, put_together
from onnxgrad.distributed.device_memory import memory_of
from onnxgrad.distributed.memory import MainMemory, Memory, give_back
from onnxgrad.distributed.part_weights import PartWeights
from onnxgrad.distributed.shared_state import FlatWeights, SharedState
from onnxgrad.distributed.strategy import Strategy, refuse, stages_of
from onnxgrad.distributed.transport import Transport, part_sent
from onnxgrad.errors import ArgumentError, FeedError, TrainingError
from onnxgrad.internal.arguments import checked

__all__ = ["GradientExchange", "Part", "StateExchange", "Traffic", "distribute", "gathered_sizes"]

Array = np.ndarray[Any, Any]


@dataclass
class Part:
    """Which examples of the whole batch a rank has.

    Args:
        first: how many examples of the whole batch lie before it.
        count: how many it has.
        counts: whether they count, or stand for a rank that has none.
        rows: a number that says which rows the whole batch has; None if that is not known.

    Attributes:
        first: how many lie before them.
        count: how many it is fed.
        counts: False if they stand in for none, as a step needs examples: its gradients are left out.
        rows: a hash of the rows of the whole batch, which ranks compare; 0 where each rank cuts its part itself.
        whole: examples of the whole batch; 0 to ask the ranks.
    """

    first: int
    count: int
    counts: bool = True
    rows: int = 0
    whole: int = 0


def gathered_sizes(transport: Transport, count: int) -> Array:
    """Gather how many examples each rank has, by rank, int64 [ranks]."""
    sizes = np.zeros(transport.world_size, np.int64)
    sizes[transport.rank] = count
    transport.all_reduce_(sizes)
    return sizes


@dataclass
class Traffic:
    """Counts the bytes of an exchange, as this rank sends them where each rank passes on what it must: (n - 1) / n of a buffer when
    ranges of it are added up, gathered or exchanged between n ranks, and twice that when all get the sum of all of it.

    Attributes:
        steps: exchanges of gradients.
        bytes: of gradients.
        weights: bytes of weights, which ranks give each other where each updates its range of them.
        copied: bytes of gradients that were copied on the way.
    """

    steps: int = 0
    bytes: int = 0
    weights: int = 0
    copied: int = 0


class _Sharing(Keeps):
    """An exchange after which each rank may hold a share of the optimizer's state.

    Args:
        transport: between the ranks.
        strategy: how gradients travel.
        memory: where what is exchanged lies.

    Attributes:
        sharding: see ``core.runtime.exchange``.
        sums: state that is added up over ranks, of which each has its own term.
        shared: the state of which each rank holds a share; None where all hold all, and before the first run.
        overlaps: whether gradients travel while something else is computed, where the strategy asks for that. Sessions that were
            opened before it was set do as it was then. It decides when a bucket travels, not which buckets there are, so that the
            run is the same to the bit, and ranks hold the same shares.
    """

    sharding: int
    overlaps = True
    traffic: Traffic
    sums: Sequence[Variable] = ()
    shared: SharedState | None = None
    _flat_weights: FlatWeights | None = None
    _in_place = True
    """Whether state is updated where it lies, as on the CPU"""

    def __init__(self, transport: Transport, strategy: Strategy, memory: Memory) -> None:
        self.transport, self.strategy, self.memory, self.rank = transport, strategy, memory, transport.rank
        self.traffic = Traffic()
        self._begun: WeakSet[Scope] = WeakSet()
        self._parts: dict[Variable, RangePart] = {}
        """What is updated by ranges, by the gradient that this reads."""

    def own_sums(self, scope: Scope) -> dict[str, Array]:
        """The terms of this rank by name, where any rank has some; called by all ranks."""
        return {}

    def place(self, place: Place) -> Place:
        """Return the place of the sessions, beside what is exchanged: on a device that of the transport, with its stream.

        Raises:
            ArgumentError: if ranks exchange on another device.
        """
        self._in_place = place.lowering == "cpu"
        return self.memory.place(place)

    def has_met(self, scope: Scope) -> bool:
        """Return whether ranks have come to an agreement about what they train in this scope."""
        return scope in self._begun

    def share_out(self, program: Program, cut: Cut) -> Shards | None:
        """Assign ranges of the state to the ranks that update it, where each rank holds a share of the optimizer's state."""
        if not self.sharding:
            return None
        parts, count = range_parts(program, cut), self.transport.world_size
        self._parts = {part.gradient: part for part in parts}
        buckets = self._buckets_of_ranges(cut)
        gradients = {v: [Share(*share) for share in buckets.shares(v, count)] for v in self._parts}
        states = {v: gradients[part.gradient] for part in parts for v in part.states}
        norms = [v for part in parts for v in part.norms]
        shards = Shards(program, cut, self.transport.rank, states, gradients, norms)
        if self.shared is not None and _by_name(shards) != _by_name(self.shared.shards):
            raise TrainingError("the optimizer updates other state than before, of which each rank holds a share. Make a new step.")
        self.shared = SharedState(self.transport, shards)
        if self._flat_weights is None:
            held = set(shards.held())
            weights: dict[tuple[int, np.dtype[Any]], dict[Variable, Slot]] = {}
            for part in parts:
                slot = buckets.slots[part.gradient]
                for v in part.states:
                    if v not in held:
                        weights.setdefault((slot.bucket, np.dtype(v.dtype.numpy)), {})[v] = slot
            arrays = [(dtype, buckets.sizes[number][1], slots) for (number, dtype), slots in weights.items()]
            self._flat_weights = FlatWeights(self.memory, shards, arrays)
        return shards

    def _buckets_of_ranges(self, cut: Cut) -> Buckets:
        """The buckets that what is updated by ranges travels in"""
        raise NotImplementedError

    def _kind(self, v: Variable) -> tuple[str, ...]:
        """What gradients of one bucket have in common: whether they are added up by range, and the weights' element types"""
        if v not in self._parts:
            return ()
        return ("range", *(str(state.dtype.numpy) for state in self._parts[v].states if isinstance(state, Parameter)))

    def settled(self, scope: Scope) -> Mapping[str, Buffer]:
        """Move the weights that are updated by ranges in place to flat memory; they travel from there."""
        return self._flat_weights.settle(scope) if self._flat_weights is not None and self._in_place else {}

    def targets(self, scope: Scope) -> Mapping[Variable, Any]:
        """Return where new ranges of weights are to be computed, as rows, where they are not updated in place."""
        return {} if self._flat_weights is None else self._flat_weights.targets(scope)

    def _spread(self, scope: Scope) -> None:
        """Give all ranks the weights that each has updated"""
        if self._flat_weights is not None:
            self._flat_weights.spread(scope)
            self.traffic.weights += part_sent(self.transport, self._flat_weights.bytes)
        self.memory.wait()

    def forget(self, scope: Scope) -> None:
        """Let go of what other ranks hold, once this rank has what it needs of it."""
        if self.shared is not None and scope in self._begun:
            self.shared.forget(scope)


def _by_name(shards: Shards) -> dict[str, list[Share]]:
    return {v.name: shares for v, shares in shards.states.items()}


class GradientExchange(_Sharing):
    """``Program.exchange`` of a program that each rank runs on its part of the batch.

    Args:
        transport: between the ranks.
        loss, terms: of the program, and how the losses of parts add up. There are several only where ``sends=False``.
        strategy: how gradients travel.
        memory: where gradients lie.
        sends: False where the program weighs gradients and adds them up: ``StateExchange`` sends the sums.
        poisons: with ``sends=False``, whether gradients that are not finite on one rank shall not be finite on all.
        synchronises: whether statistics of batches are those of all ranks together. What is fetched as the loss, and gradients, are
            then what this rank adds to those of the whole batch.
        part_weights: of the terms of the loss, where the program is told of them before the step.

    Attributes:
        part: of the batch that is fed next; None to find it from what is fed.
        traffic: counts of what was exchanged.
        step: what ranks compare in each run, before gradients travel.
        own: names of state that each rank has values of its own of.
        weight: what the loss of the last step counted, on all ranks together.
        sends: whether the gradients of a run are put together in it.
        shares: the exchange after which ranks hold shares of the state: this one, or that of sums over micro-batches.
        synchronises: see ``core.runtime.exchange``.
    """

    def __init__(
        self,
        transport: Transport,
        loss: Variable,
        terms: Sequence[LossTerm],
        strategy: Strategy,
        memory: Memory,
        *,
        sends: bool = True,
        poisons: bool = False,
        synchronises: bool = False,
        part_weights: PartWeights | None = None,
    ) -> None:
        super().__init__(transport, strategy, memory)
        self._part_weights = part_weights
        self.shares: _Sharing = self
        self.synchronises = Synchronised(loss, terms[0]) if synchronises else None
        self.sharding = strategy.sharding if sends else 0
        self._in_ranges: set[int] = set()
        """Numbers of the buckets that are added up by range."""
        self.part: Part | None = None
        self.step = StepCheck()
        self._loss, self._terms, self.sends, self._poisons = loss, list(terms), sends, poisons
        self._values = [loss] if len(self._terms) == 1 else [term.value for term in self._terms]
        self._weights = [term.weight for term in self._terms]
        self.reads = list(dict.fromkeys([loss, *self._values, *(v for v in self._weights if v is not None)]))
        self._allotted: list[tuple[int, tuple[str, ...]]] | None = None
        """The gradients that have slots, by their ids, and their kinds."""
        self._buckets = self._statistics = Buckets([], 1, 1, memory)
        self._groups: list[list[Variable]] = []
        self._under_way: _UnderWay | None = None
        self._compression = compression_of(strategy, memory) if sends else None
        self.own: set[str] = set()
        self.weight = 0.0

    def feeds(self, program: Program, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the feeds that say which part is fed, for Dropout and statistics.

        Where nobody says, ranks tell each other how many examples they have.
        """
        counts = self.part is None or self.part.counts
        part_feed = {} if self.synchronises is None else {COUNTS: np.array(float(counts))}
        if self._part_weights is not None:
            part_feed |= self._part_weights.feeds(feed, counts)
        known = program.global_block().vars
        asked = [name for name in (PART, ROWS) if name in known and name not in feed]
        if not asked:
            return part_feed
        part = self._part_of(program, feed, ROWS in asked)
        if PART in asked:
            part_feed[PART] = np.array([part.first, part.count], np.int64)
        if ROWS in asked:
            self._compare_sizes(program, feed)
            part_feed[ROWS] = np.array([part.first, part.count if part.counts else 0, part.whole], np.int64)
        return part_feed

    def _part_of(self, program: Program, feed: Mapping[str, Any], needs_whole: bool) -> Part:
        """The part that is fed; ranks tell each other how many examples they have, where nobody has said"""
        if self.part is not None and (self.part.whole or not needs_whole):
            return self.part
        axes = batch_axes(program)
        counted = next((v for v in axes if v.dims and not isinstance(v.dims[axes[v]], int) and v.name in feed), None)
        if counted is None:
            raise FeedError(
                f"how many examples are fed is not known. Feed {PART!r}: the number of examples of the ranks before, "
                "and of this rank."
            )
        counts = self.part is None or self.part.counts
        own = int(np.shape(feed[counted.name])[axes[counted]])
        sizes = gathered_sizes(self.transport, own if counts else 0)
        return Part(int(sizes[: self.transport.rank].sum()), own, counts, whole=int(sizes.sum()))

    def _compare_sizes(self, program: Program, feed: Mapping[str, Any]) -> None:
        """Before rows are gathered: refuse those of other sizes, where sizes are not known"""
        sums = [op.outputs[0] for op in program.global_block().ops if op.reduction == "sum"]
        if all(v is None or sum(not isinstance(dim, int) for dim in v.dims or (None, None)) <= 1 for v in sums):
            return
        shapes = {v.name: list(np.shape(feed[v.name])[1:]) for v in program.inputs if v.name in feed}
        action = "Fill rows up to one size on all ranks, as they are gathered"
        check_equal(self.transport, {"rows of another size": Subject(shapes, action)})

    def _buckets_of_ranges(self, cut: Cut) -> Buckets:
        self._allot(cut.computed)
        return self._buckets

    def applied(self, scope: Scope) -> None:
        """Give all ranks the weights that each has updated."""
        self._spread(scope)

    def begin(self, program: Program, gradients: Sequence[Variable], scope: Scope) -> None:
        """Note what is compared in this run; at the first one on a scope, compare programs and give all the state of rank 0.

        Raises:
            TrainingError: on all ranks, if they train different models or parameters, or have other versions.
        """
        if scope not in self._begun:
            check_equal(self.transport, {**versions(), **fingerprint(program, gradients, self.strategy, self.sends)})
            state = [v for v in program.list_vars() if v.persistable and v.name not in self.own]
            broadcast_state(self.transport, state, scope, self.shares.shared)
            self._begun.add(scope)
            self.forget(scope)
            self.settled(scope)
            give_back()
        self.step.begin(program, scope, 0 if self.part is None else self.part.rows)

    def wait(self, names: Collection[str] | None) -> None:
        """Gradients are exchanged when they are applied."""

    def groups(self, gradients: Sequence[Variable]) -> Sequence[Sequence[Variable]]:
        """Gradients in the order of the backward pass, in groups of about as many bytes, of which the first travel on the way."""
        self._allot(gradients)
        return self._groups if self.overlaps else [[v for group in self._groups for v in group]]

    def slots(self, gradients: Sequence[Variable]) -> Mapping[Variable, Any]:
        """Memory of the gradients, the same for all sessions of the program; statistics, which are small, lie in main memory."""
        self._allot(gradients)
        return {**self._buckets.values, **self._statistics.values}

    def _allot(self, gradients: Sequence[Variable]) -> None:
        allotted = [(id(v), self._kind(v)) for v in gradients]
        if self._allotted == allotted:
            return  # what earlier sessions compute into is what travels
        self._allotted = allotted
        # Counters, which an optimizer may read too, are the same on all ranks.
        numbers = [v for v in gradients if v.is_float or v.dtype.name == "bool"]
        if self.synchronises is not None:
            # So are statistics of all ranks together.
            numbers = [v for v in numbers if not _is_statistic(v)]
        limit = int(self.strategy.bucket_megabytes * 1e6)
        sent = [v for v in numbers if not _is_statistic(v)]
        count = stages_of(self.strategy, self.transport) if self.sends else 1
        self._groups = _in_groups(sent, count)
        self._allot_buckets(limit)
        self._statistics = Buckets([[v for v in numbers if _is_statistic(v)]], limit, 1, MainMemory(self.transport))

    def _allot_buckets(self, limit: int) -> None:
        """Buckets of each group; what is added up by range has buckets of its own"""
        rows: list[list[Variable]] = []
        counts: list[int] = []
        for group in self._groups:
            kinds = sorted({self._kind(v) for v in group})
            rows += [[v for v in group if self._kind(v) == kind] for kind in kinds]
            counts.append(len(kinds))
        self._buckets = Buckets(rows, limit, self.transport.world_size, self.memory)
        self._in_ranges = {self._buckets.slots[v].bucket for row in rows for v in row if v in self._parts}
        ranges = iter(self._buckets.of_group)
        self._buckets_of = [[number for numbers in islice(ranges, count) for number in numbers] for count in counts]

    def send(self, number: int, fetched: Mapping[Variable, Any]) -> None:
        """Weigh the first group's gradients, and let each group travel while the next is computed."""
        if self._under_way is None:
            self._under_way = _UnderWay(*self._begun_with(fetched), _Travelling(), set())
            self._under_way.travelling.begin()
        self._send_on(self._under_way, [bucket for group in self._buckets_of[: number + 1] for bucket in group])

    def _send_on(self, step: _UnderWay, buckets: Iterable[int]) -> None:
        """Let the buckets travel that do not yet"""
        numbers = [number for number in buckets if number not in step.sent]
        step.sent.update(numbers)
        factor = self._factor(step.weight)
        step.travelling.send(_Parcel((), partial(self._reduce_bucket, number, factor)) for number in numbers)

    def stop(self) -> None:
        """Wait for what is on its way, so that the transport is free again; that it failed is told by the run."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.travelling.wait(None)

    def reduce(self, scope: Scope, fetched: Mapping[Variable, Any], statistics: Sequence[Buffer]) -> Mapping[Variable, Any]:
        """Exchange what is in the slots and does not travel yet, and average running statistics."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            loss, weight = self._begun_with(fetched)
            with self.memory.turn():
                for number in range(len(self._buckets.sizes)):
                    self._reduce_bucket(number, self._factor(weight))
        else:
            loss, weight = under_way.loss, under_way.weight
            self._send_on(under_way, range(len(self._buckets.sizes)))
            error = under_way.travelling.wait(None)
            if error is not None:
                raise error
        if not self.sends and self.synchronises is not None:
            self._set_weight(self.weight)
        if self._compression is not None:
            self._compression.check(self.transport)
        if self.sends:
            self.traffic.steps += 1
        self._average([*(view_of(buffer.value).reshape(-1) for buffer in statistics), *self._statistics.flat], weight)
        mean_loss = fetched[self._loss]
        scope.follow(self.step, number=self.step.number + 1)
        return {self._loss: np.full(mean_loss.shape, loss, mean_loss.dtype)}

    def _begun_with(self, fetched: Mapping[Variable, Any]) -> tuple[float, float | None]:
        """Weigh the loss by ``_weigh``, before the first bucket of a step travels."""
        if self.sends:
            self._resume({number: size for number, size in enumerate(self._buckets.sizes) if is_compressed(size[0])})
        return self._weigh(fetched)

    def _factor(self, weight: float | None) -> float | None:
        """What this part's gradients are multiplied by; None for those of a part that does not count."""
        if weight is None:
            return None
        if not self.sends:
            # The program multiplies gradients by weights. Synchronised ones are parts of the gradient of the whole batch, whose
            # weight ``_set_weight`` gives to all ranks alike.
            return 1.0 if self.synchronises is None else float(self.transport.world_size)
        return weight if self._terms[0].reduction == "mean" and self.synchronises is None else 1.0

    def _weigh(self, fetched: Mapping[Variable, Any]) -> tuple[float, float | None]:
        """The loss of the whole batch, and this part's share of the weight; None if it does not count.

        Raises:
            TrainingError: on all ranks, if they take another step.
        """
        counts = self.part is None or self.part.counts
        weights = [1.0 if v is None else _number(fetched[v]) for v in self._weights]
        weights = [weight if counts else 0.0 for weight in weights]
        if self.synchronises is None:
            # What weighs nothing may have gradients that are NaN; here they pass on those of others, by way of statistics.
            counts = any(weights)
        bad = self._poisons and counts and not self._are_finite()
        is_sum = [term.reduction == "sum" or self.synchronises is not None for term in self._terms]
        own = [
            self._weighed(fetched[v], weight, plain, counts) for v, weight, plain in zip(self._values, weights, is_sum, strict=True)
        ]
        table = np.array([*weights, *own, bad, *self.step.marks()])
        self.transport.all_reduce_(table)
        table, sums = table[:-MARKS], table[-MARKS:]
        self.step.check(self.transport, sums.tolist())
        self.weight = float(table[0] if self._part_weights is None else self._part_weights.totals[0])
        totals, losses, is_bad = table[: len(weights)], table[len(weights) : -1].tolist(), table[-1]
        if is_bad:
            self._poison()
        if not totals.any() and not self.sends:
            return 0.0, None
        if not totals.any():
            # Nothing counts on any rank: whatever the loss makes of that, it is the same everywhere.
            alone = np.array([_number(fetched[self._loss])])
            self.transport.all_reduce_(alone)
            return float(alone[0]) / self.transport.world_size, 1.0 / self.transport.world_size
        means = [
            loss if plain else loss / total if total else 0.0 for loss, total, plain in zip(losses, totals, is_sum, strict=True)
        ]
        return float(sum(means)), weights[0] / float(totals[0] or 1.0) if counts else None

    def _poison(self) -> None:
        """Let an overflow of one rank be one of this rank"""
        weights = {v.name for v in self._weights if v is not None}
        with self.memory.turn():
            for v, slot in self._buckets.slots.items():
                if v.name not in weights and v.is_float and slot.size:
                    self._buckets.flat[slot.bucket][slot.start] = np.nan

    @staticmethod
    def _weighed(value: Any, weight: float, is_plain: bool, counts: bool) -> float:
        """What a part adds to the sum over all parts"""
        if not counts or not (is_plain or weight):
            return 0.0
        return _number(value) * (1.0 if is_plain else weight)

    def _set_weight(self, total: float) -> None:
        """Let the program weigh gradients, and count, by the mean weight of ranks in place of that of this part, also where this
        part does not count"""
        views = self._views(dict(enumerate(self._buckets.flat)))
        with self.memory.turn():
            for v in self._weights:
                if v is not None:
                    views[v.name][...] = total / self.transport.world_size

    def _are_finite(self) -> bool:
        """Whether all gradients of this rank are"""
        with self.memory.turn():
            numbers = [flat for flat, (dtype, _) in zip(self._buckets.flat, self._buckets.sizes, strict=True) if dtype.kind != "b"]
            return all(map(self.memory.is_finite, numbers))

    def _reduce_bucket(self, number: int, factor: float | None) -> None:
        bucket, (dtype, length) = self._buckets.flat[number], self._buckets.sizes[number]
        if dtype.kind == "b":
            self.memory.transport.all_reduce_(bucket, "max")
            return
        self.memory.scale(bucket, factor)
        if not self.sends:
            return
        compresses = self._compression is not None and is_compressed(dtype)
        self.traffic.bytes += put_together(self.memory, self._compression, number, bucket, dtype, number in self._in_ranges)
        self.traffic.copied += length * dtype.itemsize if compresses else 0

    def _views(self, flat: Mapping[int, Any]) -> dict[str, Any]:
        return self._buckets.views(flat)

    def _average(self, statistics: Sequence[Array], weight: float | None) -> None:
        """The weighted mean of what running statistics become; they are small, and travel together."""
        if not statistics:
            return
        together = np.concatenate([flat.astype(np.float64) for flat in statistics])
        together = np.zeros_like(together) if weight is None else together * weight
        self.transport.all_reduce_(together)
        at = 0
        for flat in statistics:
            flat[:] = together[at : at + flat.size]
            at += flat.size


def _in_groups(gradients: list[Variable], count: int) -> list[list[Variable]]:
    """As many groups as said, or fewer, of about as many bytes, in the order in which the program computes them."""
    if count < 2 or not gradients:
        return [gradients]
    positions = {op: i for i, op in enumerate(gradients[0].block.program.global_block().ops)}
    ordered = sorted(gradients, key=lambda v: positions.get(v.op, len(positions)) if v.op is not None else -1)
    sizes = np.cumsum([_size(v) * v.dtype.bits for v in ordered])
    group = np.minimum((sizes - 1) * count // sizes[-1], count - 1)
    groups = [[v for v, at in zip(ordered, group, strict=True) if at == number] for number in range(count)]
    return [one for one in groups if one]


def _is_statistic(v: Variable) -> bool:
    """Whether an optimizer reads what running statistics become, to keep them where gradients overflow."""
    return v.op is not None and v.op.role is Role.FORWARD and v.op.type == "BatchNormalization"


class _Parcel(NamedTuple):
    """Sums that travel together, by name, and what sends them."""

    names: tuple[str, ...]
    send: Callable[[], None]


class _Travelling:
    """Parcels that a thread exchanges one after another, while something else is computed."""

    def __init__(self) -> None:
        self._parcels: SimpleQueue[_Parcel | None] = SimpleQueue()
        self._arrived: dict[str, Event] = {}
        self._error: BaseException | None = None
        self._lock = Lock()
        # A rank that ends by an error does not wait for others that do not come any more.
        self._thread = Thread(target=self._work, daemon=True, name="onnxgrad-exchange")

    def send(self, parcels: Iterable[_Parcel]) -> None:
        """Exchange these after those before."""
        for parcel in parcels:
            self._arrived.update((name, Event()) for name in parcel.names)
            self._parcels.put(parcel)

    def begin(self) -> None:
        """Let the first travel, if none does yet."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()

    def wait(self, names: Collection[str] | None) -> BaseException | None:
        """Wait until these have arrived, or the last of all; gives the error by which the thread has ended."""
        self.begin()
        if names is None:
            self._parcels.put(None)
            self._thread.join()
        for name in names or ():
            if name in self._arrived:
                self._arrived[name].wait()
        return self._error

    def _work(self) -> None:
        try:
            while (parcel := self._parcels.get()) is not None:
                parcel.send()
                for name in parcel.names:
                    self._arrived[name].set()
        except BaseException as error:
            self._error = error
        finally:
            for event in self._arrived.values():
                event.set()


class _UnderWay(NamedTuple):
    """A step whose gradients travel while others are computed.

    Attributes:
        loss, weight: of the step.
        travelling: the buckets.
        sent: their numbers.
    """

    loss: float
    weight: float | None
    travelling: _Travelling
    sent: set[int]


class StateExchange(_Sharing):
    """``Program.exchange`` of a program that applies what was added up over micro-batches: the sums are sent, once.

    Args:
        transport: between the ranks.
        accumulation: of the program: the state that holds the sums.
        strategy: how they travel. Sums of weights are never compressed, as gradients are divided by them.
        memory: where they lie when they travel.
    """

    reads: Sequence[Variable] = ()
    sends = False
    synchronises = None

    def __init__(self, transport: Transport, accumulation: Accumulation, strategy: Strategy, memory: Memory) -> None:
        super().__init__(transport, strategy, memory)
        self.sums, self._divisors = accumulation.sums, accumulation.divisors
        self.sharding = strategy.sharding
        self._compression = compression_of(strategy, memory)
        self._buckets = Buckets([], 1, 1, memory)
        self._overlaps = False
        self._travelling: _Travelling | None = None

    def begin(self, program: Program, gradients: Sequence[Variable], scope: Scope) -> None:
        """Refuse ranks that differ, at the first run on a scope; the state of the first program is that of rank 0 already."""
        if scope not in self._begun:
            check_equal(self.transport, fingerprint(program, self.sums, self.strategy))
            # What compression finds too large is told before anything is applied.
            self._overlaps = stages_of(self.strategy, self.transport) > 1 and self._compression is None
            self._begun.add(scope)
            self.forget(scope)

    def wait(self, names: Collection[str] | None) -> None:
        """Wait until some sums are complete over all ranks, as the others travel on; None for all."""
        error = None if self._travelling is None else self._travelling.wait(names)
        if error is not None:
            raise BetweenError(error)

    def applied(self, scope: Scope) -> None:
        """Give all ranks the weights and statistics that each has updated, and begin new sums."""
        self.wait(None)
        self._travelling = None
        with self.memory.turn():
            for v in self.sums:
                self.memory.state(scope, v)[...] = 0
        self._spread(scope)

    def feeds(self, program: Program, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def groups(self, gradients: Sequence[Variable]) -> Sequence[Sequence[Variable]]:
        return ()

    def send(self, number: int, fetched: Mapping[Variable, Any]) -> None:
        """Nothing travels while gradients are computed."""

    def stop(self) -> None:
        """Nothing is on its way."""

    def slots(self, gradients: Sequence[Variable]) -> Mapping[Variable, Any]:
        if gradients:
            raise ArgumentError(f"{gradients[0].name} is not a sum over micro-batches. Exchange gradients where they are computed.")
        return {}

    def reduce(self, scope: Scope, fetched: Mapping[Variable, Any], statistics: Sequence[Buffer]) -> Mapping[Variable, Any]:
        """Replace the sums of this rank by sums over all ranks, in place: now, or with overlap from the first ``wait`` on."""
        self.traffic.steps += 1
        parcels = self._parcels(scope)
        if self._overlaps and self.overlaps:
            self._travelling = _Travelling()
            self._travelling.send(parcels)
        else:
            with self.memory.turn():
                for parcel in parcels:
                    parcel.send()
        return {}

    def _buckets_of_ranges(self, cut: Cut) -> Buckets:
        self._allot()
        return self._buckets

    def _allot(self) -> None:
        """Buckets of the sums: divisors, then small ones, which all parts wait for, and what is added up by range apart"""
        kinds = {v: (v not in self._divisors, not is_small(v), *self._kind(v)) for v in self.sums}
        rows = [[v for v in self.sums if kinds[v] == kind] for kind in sorted(set(kinds.values()))]
        self._buckets = Buckets(rows, int(self.strategy.bucket_megabytes * 1e6), self.transport.world_size, self.memory)

    def _parcels(self, scope: Scope) -> list[_Parcel]:
        """Group the sums that travel together: a large one that all get where it lies, the others in a buffer"""
        if not self._buckets.sizes:
            self._allot()
        members = self._buckets.members()
        compressed = [number for number, own in enumerate(members) if self._compression_for(own) is not None]
        self._resume({number: self._buckets.sizes[number] for number in compressed})
        parcels: list[_Parcel] = []
        for number, own in enumerate(members):
            flats = {v: self.memory.state(scope, v) for v in own}
            parcels.append(_Parcel(tuple(v.name for v in own), partial(self._send, number, flats)))
        if self._compression is not None:
            parcels.append(_Parcel((), partial(self._compression.check, self.transport)))
        return parcels

    def _compression_for(self, sums: Collection[Variable]) -> Narrow | TopK | None:
        """What makes the bucket of some sums smaller; nothing for those that gradients are divided by"""
        is_smaller = all(v not in self._divisors and is_compressed(v.dtype.numpy) for v in sums)
        return self._compression if is_smaller else None

    def _send(self, number: int, flats: Mapping[Variable, Any]) -> None:
        in_ranges = any(v in self._parts for v in flats)
        (dtype, length), compression = self._buckets.sizes[number], self._compression_for(flats)
        flat = next(iter(flats.values()))
        is_apart = len(flats) > 1 or in_ranges or compression is not None
        if is_apart:
            flat = self.memory.scratch(length, dtype)
            self.memory.scale(flat, None)  # what lies between tensors is added up with them
            for v, own in flats.items():
                self._slot(v, flat)[...] = own
            self.traffic.copied += 2 * length * dtype.itemsize
        self.traffic.bytes += put_together(self.memory, compression, number, flat, dtype, in_ranges)
        for v, own in flats.items() if is_apart else ():
            own[...] = self._slot(v, flat)

    def _slot(self, v: Variable, flat: Any) -> Any:
        slot = self._buckets.slots[v]
        return flat[slot.start : slot.start + slot.size]

    def _views(self, flat: Mapping[int, Any]) -> dict[str, Any]:
        return self._buckets.views(flat)

    def own_sums(self, scope: Scope) -> dict[str, Array]:
        """The sums of this rank by name; none where no rank has begun any. Called by all ranks."""
        own = {v.name: np.array(v.get_value(scope), order="C") for v in self.sums}
        any_sums = np.array([any(array.any() for array in own.values())], np.uint8)
        self.transport.all_reduce_(any_sums, "max")
        return own if any_sums[0] else {}


def _size(v: Variable) -> int:
    return int(np.prod(v.static_shape or (), dtype=np.int64))


def _number(value: Any) -> float:
    return float(np.asarray(value).reshape(-1)[0])


@checked
def distribute(
    program: Program,
    loss: Variable,
    transport: Transport,
    strategy: Strategy | None = None,
    *,
    loss_weight: Variable | str | None = None,
    poisons: bool = False,
    part_weights: Mapping[Variable, Variable] | None = None,
) -> GradientExchange:
    """Let an Executor exchange the gradients of a program between ranks, each of which feeds its part of the batch.

    What is fetched as the loss is then that of the whole batch. A NaN in it is one on all ranks.

    Args:
        program: that an optimizer updates.
        loss: what was minimized.
        transport: between the ranks, which all call this with the same program.
        strategy: how gradients travel; None for the default.
        loss_weight: what the loss divides a sum over examples by, a scalar in the program; ``"sum"`` if by nothing; None to read
            it from the formula of the loss.
        poisons: whether the loss is scaled, so that gradients that are not finite on one rank shall not be finite on all.
        part_weights: of ``core.step.loss_terms.loss_of_part``, where the loss is what that makes of it.

    Raises:
        ArgumentError: if the formula of the loss does not say how parts add up, or there is a BatchNormalization by batch
            statistics and the strategy does not say what it is to do.
    """
    strategy = strategy or Strategy()
    if strategy.pipeline > 1:
        raise ArgumentError("pipeline= is an option of a Trainer's strategy. For a program use PipelineStep.")
    if (strategy.sharding or strategy.compress) and transport.world_size > 1 and not hasattr(transport, "reduce_scatter_"):
        raise refuse("sharding" if strategy.sharding else "compress", "no ranges")
    if transport.world_size > 1:
        share_lookups(program)
    synchronises = check_batch_norm(program, strategy.batch_norm)
    accumulation = program.plan.accumulation
    weighing = PartWeights(transport, part_weights) if part_weights else None
    if part_weights is not None:
        loss_weight = "sum"
    if accumulation is not None and accumulation.terms:
        terms = list(accumulation.terms)
    else:
        terms = [only_term(loss, loss_weight, Builder(program.global_block(), role=Role.BACKWARD, key="loss_weight"))]
    if synchronises and len(terms) > 1:
        raise ArgumentError(
            f"batch_norm='sync' is not written for a loss whose terms ({loss.name}) are divided by different numbers."
        )
    sends, memory = accumulation is None, memory_of(transport, strategy)
    if not isinstance(memory, MainMemory):
        strategy = replace(strategy, overlap=1)
    exchange = GradientExchange(
        transport,
        loss,
        terms,
        strategy,
        memory,
        sends=sends,
        poisons=poisons and not sends,
        synchronises=synchronises,
        part_weights=weighing,
    )
    program.plan.exchange = exchange
    if accumulation is not None:
        exchange.own = {v.name for v in accumulation.sums}
        accumulation.exchange = exchange.shares = StateExchange(transport, accumulation, strategy, memory)
    program.version += 1
    return exchange

"""Estimate what ranks hold, send and wait for in a step, by arithmetic: a message takes a latency, and its bytes over a bandwidth.

``onnxgrad plan`` and ``scripts/benchmark_scale --model`` print these numbers. They are checked against bytes that transports count
with 2 and 4 ranks, and against simulations of 64 and of 1,024 ranks, one message at a time.

Tests: tests/distributed/test_costs.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from onnxgrad.errors import ArgumentError

__all__ = [
    "HEAD",
    "HEADER",
    "LATENCY",
    "Exchange",
    "Link",
    "PlannedStep",
    "StageCosts",
    "StepCosts",
    "all_reduce",
    "broadcast",
    "half_of_ring",
    "link_of",
    "plan_data_parallel",
    "plan_pipeline_of",
    "plan_shares",
    "schedule_seconds",
]

LATENCY = 5e-6
"""Seconds a message takes besides its bytes; a guess for a local network."""

HEAD = 56
"""Bytes of the message before gradients travel: the weight and the loss of a part, whether it is finite, and what ranks compare."""

_PIPELINE_HEADS = (32, 32)
"""Bytes of the messages of all ranks in a step of a pipeline: what they compare, and sums of losses and weights."""

_UNIT = 8
"""Bytes of the message by which the last stage tells its row how micro-batches were weighed."""

HEADER = 64
"""Bytes of the message before a tensor that goes from one stage to another: its shape."""

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


@dataclass(frozen=True)
class Link:
    """The connection of a rank to the others.

    Args:
        bandwidth: bytes per second, in each direction.
        latency: seconds a message takes besides its bytes.
    """

    bandwidth: float
    latency: float = LATENCY

    def seconds(self, size: float, messages: int = 1) -> float:
        """Seconds of messages one after another, which have so many bytes together."""
        return messages * self.latency + size / self.bandwidth


def link_of(text: str, latency: float = LATENCY) -> Link:
    """Read a link from a number of bits, or bytes, per second.

    Args:
        text: such as ``"100Gbit"``, ``"25 Gbit/s"`` or ``"3GB"``: k, M, G or T, then bit or B.
        latency: seconds a message takes besides its bytes, at least 0.

    Raises:
        ArgumentError: if it is no such number, or is not above 0.

    Example:
        >>> link_of("100Gbit").bandwidth
        12500000000.0
    """
    match = re.fullmatch(r"([0-9.]+)\s*([kKMGT]?)(bit|b|B|byte)(/s|ps)?", text.strip())
    try:
        number = float(match[1]) if match is not None else 0.0
    except ValueError:
        number = 0.0
    if match is None or not 0 < number < math.inf:
        raise ArgumentError(f"a link is a number of bits per second, such as 100Gbit or 800Mbit (or of bytes, 3GB), not {text!r}.")
    if not 0 <= latency < math.inf:
        raise ArgumentError(f"the latency of a message is at least 0 seconds, not {latency}.")
    return Link(number * _UNITS[match[2].lower()] / (8 if match[3] in ("bit", "b") else 1), latency)


class Exchange(NamedTuple):
    """What a rank sends, and how long it takes.

    Attributes:
        bytes: that a rank sends; the largest number of any rank.
        seconds: until all ranks have the result.
        form: ``"ring"`` or ``"tree"``, or a mixture: ``"ring, tree"``.
    """

    bytes: float
    seconds: float
    form: str = "ring"


def all_reduce(ranks: int, size: float, link: Link) -> Exchange:
    """Cost of a sum over ranks that all get, of a buffer of so many bytes: by a ring, or by a tree where that takes less time.

    A ring sends 2 (n - 1) messages one after another, each an n-th of the bytes. A tree sends the whole buffer up to one rank and
    down again, in 2 log2(n) messages: the better one where latency counts for more than bytes.

    Args:
        ranks: how many, n.
        size: bytes of the buffer.
        link: of each rank.

    Example:
        >>> network = link_of("10Gbit")
        >>> all_reduce(1024, 56, network).form, all_reduce(64, 20e6, network).form
        ('tree', 'ring')
    """
    if ranks == 1 or size == 0:
        return Exchange(0.0, 0.0)
    share = (ranks - 1) / ranks * size
    ring = Exchange(2 * share, link.seconds(2 * share, 2 * (ranks - 1)))
    depth = math.ceil(math.log2(ranks))
    # One rank sends the buffer to as many others as the tree is deep.
    tree = Exchange(depth * size, link.seconds(2 * depth * size, 2 * depth), "tree")
    return tree if tree.seconds < ring.seconds else ring


def half_of_ring(ranks: int, size: float, link: Link) -> Exchange:
    """Cost of a reduce-scatter, or of an all-gather: each rank sends (n - 1)/n of the bytes in n - 1 messages.

    Args: as for ``all_reduce``.
    """
    share = (ranks - 1) / ranks * size
    return Exchange(share, link.seconds(share, ranks - 1) if ranks > 1 else 0.0)


def broadcast(ranks: int, size: float, link: Link) -> Exchange:
    """Cost of giving one rank's buffer to all, by a tree.

    Args: as for ``all_reduce``.
    """
    depth = math.ceil(math.log2(ranks))
    return Exchange(depth * size, link.seconds(depth * size, depth), "tree")


def _together(exchanges: Sequence[Exchange]) -> Exchange:
    """Several exchanges, one after another"""
    forms = dict.fromkeys(one.form for one in exchanges if one.bytes)
    return Exchange(sum(one.bytes for one in exchanges), sum(one.seconds for one in exchanges), ", ".join(forms) or "none")


@dataclass(frozen=True)
class StageCosts:
    """What a stage of a pipeline holds, and hands on.

    Args:
        weights, gradients, state: bytes of its parameters, of their gradients, and of the optimizer's state.
        kept: bytes of a micro-batch that its backward pass reads.
        runs: bytes that live at once while the stage runs, forward or back, beside what is kept.
        gives, returns: bytes that a micro-batch sends to the stage behind, and back to the one before, in how many tensors.
        sums: bytes of each gradient, which rows of stages add up one by one.
        small: of these, what all stages of a row get, as each updates small parameters.
        tied: bytes that it sends of parameters which several stages read.
    """

    weights: int
    gradients: int
    state: int
    kept: int
    runs: int
    gives: tuple[int, int]
    returns: tuple[int, int]
    sums: tuple[int, ...]
    small: tuple[int, ...] = ()
    tied: int = 0


@dataclass(frozen=True)
class StepCosts:
    """What one process holds in a step with a rank's part of the batch, and how long it computes.

    Args:
        weights, state: bytes of parameters and of the optimizer's state.
        buckets: bytes of each flat buffer of gradients.
        activations: bytes of results that live at once, gradients of parameters not counted.
        seconds: of a step, without any exchange.
    """

    weights: int
    state: int
    buckets: tuple[int, ...]
    activations: int
    seconds: float

    @property
    def gradients(self) -> int:
        """Bytes of the gradients, which are computed into the buckets."""
        return sum(self.buckets)


@dataclass(frozen=True)
class PlannedStep:
    """What a rank holds in a step, what it sends, and how long the step takes; of a pipeline the rank with the most of each.

    Attributes:
        memory: bytes by part.
        sends: bytes that a rank sends in a step.
        computes: seconds that it computes.
        waits: seconds of a step in which it does not.
        form: how sums travel.
    """

    memory: dict[str, int]
    sends: float
    computes: float
    waits: float
    form: str

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        return self.computes + self.waits

    @property
    def efficiency(self) -> float:
        """The part of a step in which a rank computes."""
        return self.computes / self.seconds if self.seconds else 1.0

    def as_json(self) -> dict[str, object]:
        """The plan as plain values, for ``--json``."""
        memory = {**self.memory, "together": sum(self.memory.values())}
        return {
            "memory": memory,
            "bytes_sent": round(self.sends),
            "computes": self.computes,
            "exchange": self.waits,
            "seconds": self.seconds,
            "efficiency": self.efficiency,
            "form": self.form,
        }


def plan_data_parallel(costs: StepCosts, ranks: int, link: Link) -> PlannedStep:
    """Plan a step of ranks that each hold everything: gradients are added up bucket by bucket when all are computed.

    Args:
        costs: of one process with a rank's part of the batch.
        ranks: how many.
        link: of each.
    """
    sums = _together([all_reduce(ranks, size, link) for size in (*costs.buckets, HEAD)])
    memory = {
        "weights": costs.weights,
        "gradients": costs.gradients,
        "optimizer state": costs.state,
        "activations": costs.activations,
    }
    return PlannedStep(memory, sums.bytes, costs.seconds, sums.seconds, sums.form)


def plan_shares(costs: StepCosts, ranks: int, link: Link) -> PlannedStep:
    """Plan a step of ranks that each hold and update a range of every bucket (``sharding`` 1 and 2 alike): gradients are reduced
    to the range of each rank, which then gives its new weights to all.

    Args: as for ``plan_data_parallel``.
    """
    halves = [half_of_ring(ranks, _filled_up(size, ranks), link) for size in costs.buckets]
    exchange = _together([*halves, *halves, all_reduce(ranks, HEAD, link)])
    memory = {
        "weights": costs.weights,
        "gradients": sum(_filled_up(size, ranks) for size in costs.buckets),
        "optimizer state": math.ceil(costs.state / ranks),
        "activations": costs.activations,
    }
    return PlannedStep(memory, exchange.bytes, costs.seconds, exchange.seconds, exchange.form)


def _filled_up(size: int, ranks: int) -> int:
    """Bytes of a bucket of 4-byte numbers that is filled up to equal ranges"""
    return -(-size // (4 * ranks)) * 4 * ranks


def plan_pipeline_of(stages: Sequence[StageCosts], ranks: int, micro_batches: int, seconds: float, link: Link) -> PlannedStep:
    """Plan a step of rows of stages, each row with its part of the batch, one micro-batch forward, one backward.

    Args:
        stages: in order.
        ranks: how many; a multiple of the number of stages, whose quotient is the number of rows.
        micro_batches: into how many parts a row cuts its part of the batch.
        seconds: that one process computes for the whole part of a row, without any exchange; stages are taken to share it equally.
        link: of each rank.

    Raises:
        ArgumentError: if the ranks are no rows of so many stages.
    """
    count = len(stages)
    if ranks % count:
        raise ArgumentError(f"{ranks} ranks are no rows of {count} stages. Take a multiple of {count}.")
    rows, each = ranks // count, seconds / count / micro_batches
    crossing = [max(_sent(link, *a.gives), _sent(link, *b.returns)) for a, b in pairwise(stages)]
    whole = schedule_seconds(count, micro_batches, each, max(crossing, default=0.0))
    sums = [_together([all_reduce(rows, size, link) for size in stage.sums]) for stage in stages]
    head = _together([*(all_reduce(ranks, size, link) for size in _PIPELINE_HEADS), all_reduce(count, _UNIT, link)])
    shown = [_together([broadcast(count, size, link) for size in stage.small]) for stage in stages]
    sends = [
        sum(micro_batches * (size + HEADER * tensors) for size, tensors in (stage.gives, stage.returns))
        + (own.bytes + small.bytes + head.bytes + stage.tied)
        for stage, own, small in zip(stages, sums, shown, strict=True)
    ]
    alive = [min(micro_batches, count - number) for number in range(count)]
    held = [
        {
            "weights": stage.weights,
            "gradients": stage.gradients,
            "optimizer state": stage.state,
            "activations": stage.kept * most + stage.runs,
        }
        for stage, most in zip(stages, alive, strict=True)
    ]
    memory = max(held, key=lambda one: sum(one.values()))
    computes = seconds / count
    tied = link.seconds(2 * max(stage.tied for stage in stages))
    waits = whole - computes + max(own.seconds for own in sums) + sum(small.seconds for small in shown) + head.seconds + tied
    form = _together([Exchange(own.bytes, own.seconds, name) for own in sums for name in own.form.split(", ")]).form
    return PlannedStep(memory, max(sends), computes, waits, form)


def _sent(link: Link, size: int, tensors: int) -> float:
    """Seconds until what a stage hands on has arrived: of each tensor a header, and the tensor"""
    return link.seconds(size + HEADER * tensors, 2 * tensors)


def schedule_seconds(stages: int, micro_batches: int, each: float, crossing: float) -> float:
    """Seconds from the start of the first micro-batch to the end of the last, one forward, one backward, by equal stages.

    The first micro-batch passes all stages forward and back. Stage k keeps at most ``stages - k`` micro-batches, so each of the
    others follows after the longest of: what a stage computes, what it sends forward and back, and the way from the first stage to
    the last and back over the micro-batches that may be on it.

    Args:
        stages, micro_batches: how many.
        each: seconds that a stage computes for a micro-batch, forward and back.
        crossing: seconds that a micro-batch takes from one stage to the next.
    """
    around = stages * each + 2 * (stages - 1) * crossing
    follows = max(each, 2 * crossing, around / stages)
    return around + (micro_batches - 1) * follows

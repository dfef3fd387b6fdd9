"""What ranks hold, send and wait for, computed: against simulations of many ranks, and bytes counted with two and four."""

import itertools

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.step import cut
from onnxgrad.distributed import PipelineStep, Strategy, distribute, run_local
from onnxgrad.distributed.costs import (
    HEAD,
    StepCosts,
    all_reduce,
    broadcast,
    half_of_ring,
    link_of,
    plan_data_parallel,
    plan_pipeline_of,
    plan_shares,
    schedule_seconds,
)
from onnxgrad.distributed.step_costs import costs_of_stages, costs_of_step, fix_sizes
from onnxgrad.distributed.transport import LocalTransport
from onnxgrad.errors import ArgumentError
from tests.distributed import simulation

LINK = link_of("100Gbit")


class Counting(LocalTransport):
    """A transport of threads that sends rings message by message, and counts what this rank sends, in groups of ranks as well."""

    def __init__(self, transport, counts=None):
        super().__init__(transport.rank, transport._group)
        self.counts = [0] if counts is None else counts

    def send(self, buffer, to):
        self.counts[0] += buffer.nbytes
        super().send(buffer, to)

    def all_reduce_(self, buffer, op="sum"):
        exchange = all_reduce(self.world_size, buffer.nbytes, LINK)
        if exchange.form == "ring":
            self._ring(buffer, 2 * (self.world_size - 1))
        else:
            self.counts[0] += exchange.bytes
        super().all_reduce_(buffer, op)

    def reduce_scatter_(self, buffer):
        self._ring(buffer, self.world_size - 1)
        super().reduce_scatter_(buffer)

    def all_gather_(self, buffer):
        self._ring(buffer, self.world_size - 1)
        super().all_gather_(buffer)

    def broadcast_(self, buffer, root=0):
        if self.rank == root:
            self.counts[0] += broadcast(self.world_size, buffer.nbytes, LINK).bytes
        super().broadcast_(buffer, root)

    def group(self, ranks):
        return Counting(super().group(ranks), self.counts)

    def _ring(self, buffer, messages):
        """Send what an engine's ring would send; it is received, and thrown away"""
        chunks = np.array_split(buffer.view(np.uint8), self.world_size)
        for number in range(messages):
            source = (self.rank - 1) % self.world_size
            self.send(chunks[(self.rank - number) % self.world_size], (self.rank + 1) % self.world_size)
            super().receive_(np.empty_like(chunks[(source - number) % self.world_size]), source)


def network(width=128, layers=4, rows=8):
    """A net whose layers are equal, its loss, and what its inputs are."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        h = x = static.data("x", ["N", width])
        for _ in range(layers):
            h = static.nn.fc(h, width, activation="tanh")
        loss = paddle.mean(paddle.square(h))
        if rows:
            fix_sizes(main, {x.name: (rows, width)})
        paddle.optimizer.AdamW(1e-3).minimize(loss)
        static.Executor().run(startup)
    return main, loss


def batch(rows, width=128):
    return np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)


# Simulated -----------------------------------------------------------------------------------------------------------


def test_sums_of_many_ranks_take_as_long_as_their_messages_one_by_one():
    for ranks, size in ((64, 4e6), (60, 4e6), (64, 56), (1024, 56), (3, 56)):
        exchange = all_reduce(ranks, size, LINK)
        program = simulation.ring if exchange.form == "ring" else simulation.tree
        seconds, sent = simulation.simulated([program(rank, ranks, size) for rank in range(ranks)], LINK)
        assert exchange.seconds == pytest.approx(seconds, rel=1e-6)
        assert exchange.bytes == pytest.approx(max(sent))
    half, sent = simulation.simulated([simulation.ring_half(rank, 64, 4e6) for rank in range(64)], LINK)
    assert half_of_ring(64, 4e6, LINK) == (pytest.approx(max(sent)), pytest.approx(half), "ring")


def test_a_ring_of_1024_ranks_waits_for_the_last_that_begins():
    late = np.random.default_rng(1).uniform(0, 0.01, 1024)
    seconds = simulation.ring_of_many(1024, 400e6, LINK, late)
    assert all_reduce(1024, 400e6, LINK).seconds + late.max() == pytest.approx(seconds, rel=1e-3)


def test_a_tree_is_taken_where_latency_counts_for_more():
    for ranks, size in itertools.product((2, 8, 64, 1024), (8, 1e4, 1e6, 1e9)):
        best = all_reduce(ranks, size, LINK).seconds
        depth = (ranks - 1).bit_length()
        assert best == pytest.approx(
            min(
                2 * (ranks - 1) * LINK.latency + 2 * (ranks - 1) / ranks * size / LINK.bandwidth,
                2 * depth * (LINK.latency + size / LINK.bandwidth),
            )
        )


@pytest.mark.parametrize("crossing", [0.0, 0.02, 0.2, 0.6])
def test_micro_batches_pass_stages_as_in_a_simulation(crossing):
    """The formula is exact where nothing crosses, and at most a tenth above"""
    link = link_of("8bit", 0.0)
    for stages, parts in ((2, 4), (4, 8), (8, 8), (64, 128)):
        programs = [simulation.stage(number, stages, parts, 1 / 3, 2 / 3, crossing) for number in range(stages)]
        seconds, _ = simulation.simulated(programs, link)
        share = schedule_seconds(stages, parts, 1.0, crossing) / seconds
        assert share == pytest.approx(1.0) if crossing == 0 else 0.97 < share < 1.1, (stages, parts)


@pytest.mark.parametrize("ranks", [64, 1024])
def test_a_planned_step_takes_as_long_as_a_simulated_one(ranks):
    costs = StepCosts(weights=90_000, state=180_000, buckets=(64_000, 26_000), activations=5_000, seconds=2e-3)
    plan = plan_data_parallel(costs, ranks, LINK)
    exchanges = [all_reduce(ranks, size, LINK) for size in (*costs.buckets, HEAD)]

    def step(rank):
        yield "compute", costs.seconds
        for size, exchange in zip((*costs.buckets, HEAD), exchanges, strict=True):
            yield from (simulation.ring if exchange.form == "ring" else simulation.tree)(rank, ranks, size)

    seconds, sent = simulation.simulated([step(rank) for rank in range(ranks)], LINK)
    assert plan.seconds == pytest.approx(seconds, rel=0.01) and plan.sends == pytest.approx(max(sent), rel=0.01)
    assert plan.efficiency == pytest.approx(costs.seconds / seconds, rel=0.01)
    assert sum(plan_shares(costs, ranks, LINK).memory.values()) == pytest.approx(185_000 + 180_000 / ranks, abs=8 * ranks)


# Counted -------------------------------------------------------------------------------------------------------------


def trained(ranks, strategy, steps=2):
    """Bytes that each rank sends in a step"""
    main, loss = network(rows=0)
    before = main.active_scope().copy()

    def work(transport):
        program, copies = main.clone_with_variables()
        counting = Counting(transport)
        distribute(program, copies[loss], counting, strategy)
        executor, scope, sent = static.Executor(threads=1), before.copy(), []
        for _ in range(steps):
            counting.counts[0] = 0
            executor.run(program, {"x": batch(8)}, [copies[loss]], scope=scope)
            sent.append(counting.counts[0])
        return sent[-1]

    return run_local(ranks, work)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_that_hold_everything_send_what_is_planned(ranks):
    plan = plan_data_parallel(costs_of_step(*network(), 0.0), ranks, LINK)
    assert trained(ranks, Strategy()) == [pytest.approx(plan.sends, abs=64)] * ranks


@pytest.mark.parametrize("sharding", [1, 2])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_that_hold_ranges_send_what_is_planned(ranks, sharding):
    """Gradients once to the ranges, and weights once back: 2 (n - 1)/n of the bytes of the weights in both stages"""
    costs = costs_of_step(*network(), 0.0)
    plan = plan_shares(costs, ranks, LINK)
    sent = trained(ranks, Strategy(sharding=sharding))
    assert plan.sends == pytest.approx(2 * (ranks - 1) / ranks * costs.weights, rel=0.005)
    assert sent == [pytest.approx(plan.sends, rel=0.01)] * ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_stages_send_and_hold_what_is_planned(monkeypatch, ranks):
    """Two stages, in one row and in two; each rank has the same layers, weights and moments as planned"""
    monkeypatch.setattr(cut, "SMALL", 4)
    main, loss = network(rows=0)

    def work(transport):
        counting = Counting(transport)
        step = PipelineStep(main, loss, 2, counting, micro_batches=4, scope=main.active_scope().copy())
        for _ in range(2):
            counting.counts[0] = 0
            step.run({"x": batch(16)})
        return counting.counts[0], step.most_bytes, step.bytes_of_state()

    stages = costs_of_stages(*network(rows=16 // (ranks // 2) // 4), 2)
    plan = plan_pipeline_of(stages, ranks, 4, 1.0, LINK)
    sent, kept, state = zip(*run_local(ranks, work), strict=True)
    assert max(sent) == pytest.approx(plan.sends, rel=0.002)
    assert max(kept) == pytest.approx(max(stage.kept * (2 - number) for number, stage in enumerate(stages)), abs=256)
    assert max(state) == pytest.approx(plan.memory["weights"] + plan.memory["optimizer state"], abs=256)


def test_a_process_holds_what_is_planned():
    """Weights, state and buckets are counted; results that live at once are those of the file that runs"""
    main, loss = network()
    costs = costs_of_step(main, loss, 0.0)
    weights = 4 * (128 * 128 + 128) * 4
    assert costs.weights == weights and costs.gradients == weights
    assert costs.state == pytest.approx(2 * weights, abs=100)
    assert 4 * 8 * 128 * 4 < costs.activations < 8 * 8 * 128 * 4


def test_a_link_is_bits_or_bytes_per_second():
    for text, bandwidth in (("100Gbit", 12.5e9), ("25 Gbit/s", 25e9 / 8), ("800Mbit", 1e8), ("3GB", 3e9), ("1.5Tbit", 1.5e12 / 8)):
        assert link_of(text).bandwidth == bandwidth
    for text in ("fast", "0Gbit", "-1Gbit", "1.2.3Gbit", "10G", ""):
        with pytest.raises(ArgumentError, match="such as 100Gbit"):
            link_of(text)
    with pytest.raises(ArgumentError, match="latency"):
        link_of("1Gbit", -1.0)
    with pytest.raises(ArgumentError, match="6 ranks are no rows of 4"):
        plan_pipeline_of(costs_of_stages(*network(), 4), 6, 4, 1.0, LINK)

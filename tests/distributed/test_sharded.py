"""Optimizer state shared out over ranks: the step of one process, with a share of its memory."""

from dataclasses import replace

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.variable import Parameter
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.cut import cut_step
from onnxgrad.core.step.make import StepTarget, make_applying
from onnxgrad.core.step.shards import range_parts
from onnxgrad.core.step.step import AllGather, AllReduce, ReduceScatter
from onnxgrad.distributed import Alone, ShardedStep, Strategy, run_local
from onnxgrad.distributed.compression import Narrow, TopK, compression_of
from onnxgrad.distributed.exchange import distribute
from onnxgrad.distributed.memory import MainMemory
from onnxgrad.errors import ArgumentError, FeedError, TrainingError
from onnxgrad.nn import ClipGradByGlobalNorm

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(12, 80)).astype(np.float32), RANDOM.integers(0, 90, 12)
FEEDS = {"x": X, "label": Y}


def network(optimizer, norm=False, **loss):
    """Five matrices of more than 4,096 elements, and small vectors"""
    h = static.data("x", ["N", 80])
    for size in (90, 100, 80, 70):
        h = static.nn.fc(h, size, activation="tanh")
        h = static.nn.batch_norm(h) if norm and size == 100 else h
    found = F.cross_entropy(static.nn.fc(h, 90), static.data("label", ["N"], "int64"), **loss)
    optimizer.minimize(found)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return found, executor


OPTIMIZERS = {
    "adamw": lambda: paddle.optimizer.AdamW(0.01, epsilon=1e-4, weight_decay=0.1),
    "adam, global norm": lambda: paddle.optimizer.Adam(0.01, epsilon=1e-4, grad_clip=ClipGradByGlobalNorm(0.1)),
    "momentum": lambda: paddle.optimizer.Momentum(0.1, 0.9),
    "lamb": lambda: paddle.optimizer.Lamb(0.01, epsilon=1e-3),
}


def trained(loss, steps, options, cut, batch_norm=None):
    """What a rank does: some steps on its rows, then its loss, weights and bytes of state"""

    def run(transport):
        step = ShardedStep(loss.block.program, [loss], transport, threads=1, batch_norm=batch_norm, **options)
        rows = np.array_split(np.arange(12), cut)[transport.rank] if isinstance(cut, list) else np.arange(12)
        losses = [step.run({k: v[rows] for k, v in FEEDS.items()})[loss.name] for _ in range(steps)]
        scope = Scope()
        step.gather(scope)
        state = {v.name: v.get_value(scope) for v in loss.block.program.list_vars() if v.persistable}
        return losses, state, step.bytes_of_state()

    return run


UNEVEN = [5, 6]


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_shares_of_the_state_take_the_step_of_one_process_and_the_same_one_each_time(make):
    """Threads add up in the order of ranks with and without shares: only a norm, of which each rank has its range, rounds otherwise"""
    loss, executor = network(make())
    program = loss.block.program
    shared, again = (run_local(3, trained(loss, 3, {}, UNEVEN)) for _ in range(2))
    whole = run_local(3, trained(loss, 3, {"shards": None}, UNEVEN))
    expected = [executor.run(program, FEEDS, [loss])[0] for _ in range(3)]
    has_norm = make in (OPTIMIZERS["lamb"], OPTIMIZERS["adam, global norm"])
    for losses, state, _ in shared:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        for name, value in state.items():
            assert np.array_equal(value, shared[0][1][name]), name
            assert np.array_equal(value, again[0][1][name]), name
            if has_norm:
                np.testing.assert_allclose(value, whole[0][1][name], rtol=1e-4, atol=2e-6, err_msg=name)
            else:
                assert np.array_equal(value, whole[0][1][name]), name
    for p in program.all_parameters():
        np.testing.assert_allclose(shared[0][1][p.name], p.get_value(), rtol=1e-4, atol=2e-6, err_msg=p.name)


class Counting:
    """A transport that counts the bytes a rank gives it"""

    def __init__(self, transport):
        self.rank, self.world_size, self.transport, self.bytes = transport.rank, transport.world_size, transport, {}

    def barrier(self):
        self.transport.barrier()

    def __getattr__(self, name):
        def call(buffer, *rest):
            self.bytes[name] = self.bytes.get(name, 0) + buffer.nbytes
            return getattr(self.transport, name)(buffer, *rest)

        return call


def padded(sizes, world):
    """Elements of a bucket of tensors of these sizes, which begin at multiples of 16, as do the ranges of ranks"""
    return -(-sum(-(-size // 16) * 16 for size in sizes) // (16 * world)) * 16 * world


@pytest.mark.parametrize("shards", ["state", "gradients"])
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_rank_sends_two_times_its_part_of_the_weights(make, shards):
    """Gradients are reduced and scattered, and weights are gathered: each a buffer as long as the weights, of which a ring sends
    (n - 1) / n a rank. With statistics of the batch, and with norms, which add a few numbers."""
    loss, executor = network(make(), norm=True)
    program, sent = loss.block.program, []

    def run(transport):
        counting = Counting(transport)
        sent.append(counting.bytes)
        return trained(loss, 3, {"shards": shards}, UNEVEN, "sync")(counting)

    results = run_local(3, run)
    expected = [executor.run(program, FEEDS, [loss])[0] for _ in range(3)]
    for losses, state, _ in results:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        for p in program.all_parameters():
            assert np.array_equal(state[p.name], results[0][1][p.name])
            np.testing.assert_allclose(state[p.name], p.get_value(), rtol=2e-4, atol=2e-6, err_msg=p.name)
    sizes = [int(np.prod(p.shape)) for p in program.all_parameters()]
    large, small = [size for size in sizes if size > 4096], [size for size in sizes if size <= 4096]
    for counts in sent:
        assert counts["reduce_scatter_"] == counts["all_gather_"] == 3 * 4 * padded(large, 3)
        assert counts["all_reduce_"] < 3 * (4 * padded(small, 3) + 12_000)  # statistics of 100 channels, in float64, and scalars


def first_phases(loss):
    """The phases of what several updates read, of rank 0 of two"""
    program = loss.block.program
    exchange = distribute(program, loss, Counting(Alone()), Strategy(sharding=1))
    exchange.transport.world_size = 2
    applying = make_applying(program, cut_step(program, always=True), StepTarget("cpu"), exchange)
    return [phase for phase, _ in applying.first]


def test_the_norm_of_all_gradients_is_one_scalar_of_each_more_and_lamb_has_two():
    loss, _ = network(paddle.optimizer.Adam(0.01, grad_clip=ClipGradByGlobalNorm(0.1)))
    stages = first_phases(loss)
    totals = [total for stage in stages for each in stage.then for total in each.sums]
    assert len(stages) == 2 and [total.shape for total in totals] == [()] * 5
    with static.program_guard(static.Program(), static.Program()):
        loss, _ = network(paddle.optimizer.Lamb(0.01))
        totals = [total for stage in first_phases(loss) for each in stage.then for total in each.sums]
        assert [total.shape for total in totals] == [()] * 10
    with static.program_guard(static.Program(), static.Program()):
        loss, _ = network(paddle.optimizer.Adam(0.01))
    assert [each for stage in first_phases(loss) for each in stage.then] == []


def test_what_is_not_updated_by_elements_is_updated_by_all_ranks():
    """The ring of past gradients of ASGD, and a gradient that is added to along an axis"""
    loss, executor = network(paddle.optimizer.ASGD(0.05, batch_num=2))
    program = loss.block.program
    assert range_parts(program, cut_step(program, always=True)) == []
    results = run_local(2, trained(loss, 3, {}, [5]))
    for _ in range(3):
        executor.run(program, FEEDS)
    for _, state, _ in results:
        for p in program.all_parameters():
            np.testing.assert_allclose(state[p.name], p.get_value(), rtol=1e-4, atol=1e-6)


def test_a_gradient_of_which_a_rank_has_its_range_is_not_fetched():
    loss, _ = network(paddle.optimizer.SGD(0.1))
    gradient = loss.block.program.all_parameters()[0].grad_name
    with pytest.raises(ArgumentError, match=r"its range of .*@GRAD alone, so it cannot be fetched"):
        run_local(2, lambda transport: ShardedStep(loss.block.program, [loss, gradient], transport, loss=loss))


def test_weights_that_somebody_holds_are_not_written_over():
    """A handle on a weight keeps what it had; so does a copy of the scope"""
    loss, _ = network(paddle.optimizer.SGD(0.1))
    program = loss.block.program
    weight = program.all_parameters()[0].name

    def work(transport):
        step = ShardedStep(program, [loss], transport, scope=program.active_scope().copy(), in_scope=True, threads=1)
        step.run(FEEDS)
        kept, handle = step._scope.copy(), step._scope.values[weight]
        before = kept.get(weight)
        step.run(FEEDS)
        assert np.array_equal(before, kept.get(weight)) and np.array_equal(before, handle.numpy())
        assert not np.array_equal(before, step._scope.get(weight))

    run_local(2, work)


def test_a_norm_of_one_large_gradient_is_that_of_its_owner():
    x = static.data("x", ["N", 80])
    h = static.nn.fc(static.nn.fc(x, 90, activation="tanh"), 90, weight_attr=paddle.ParamAttr(need_clip=False))
    loss = F.cross_entropy(h, static.data("label", ["N"], "int64"))
    paddle.optimizer.Momentum(0.1, 0.9, grad_clip=ClipGradByGlobalNorm(0.01)).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    results = run_local(2, trained(loss, 3, {"shards": "gradients"}, [5]))
    for _ in range(3):
        executor.run(loss.block.program, FEEDS)
    for _, state, _ in results:
        for p in loss.block.program.all_parameters():
            np.testing.assert_allclose(state[p.name], p.get_value(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_a_rank_holds_its_share_of_the_state(world):
    loss, _ = network(paddle.optimizer.Adam(0.01))
    program = loss.block.program
    large = [int(np.prod(p.shape)) for p in program.all_parameters() if np.prod(p.shape) > 4096]
    state = [v for v in program.updates if not isinstance(v, Parameter)]
    small = sum(v.get_value().nbytes for v in state if np.prod(v.shape) <= 4096)
    held = [held for *_, held in run_local(world, trained(loss, 1, {}, None))]
    assert max(held) <= 2 * 4 * padded(large, world) / world + small
    assert sum(held) == 2 * 4 * sum(large) + world * small


def test_statistics_of_the_whole_batch_and_labels_that_do_not_count():
    labels = Y.copy()
    labels[:6] = 7
    loss, executor = network(paddle.optimizer.Momentum(0.1, 0.9), norm=True, ignore_index=7)
    feeds = {"x": X, "label": labels}

    def run(transport):
        step = ShardedStep(loss.block.program, [loss], transport, batch_norm="sync", threads=1)
        rows = np.array_split(np.arange(12), UNEVEN)[transport.rank]
        found = [step.run({k: v[rows] for k, v in feeds.items()})[loss.name] for _ in range(3)]
        scope = Scope()
        step.gather(scope)
        return found, {p.name: p.get_value(scope) for p in loss.block.program.all_parameters()}

    results = run_local(3, run)
    expected = [executor.run(loss.block.program, feeds, [loss])[0] for _ in range(3)]
    for losses, weights in results:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        for p in loss.block.program.all_parameters():
            np.testing.assert_allclose(weights[p.name], p.get_value(), rtol=2e-4, atol=2e-6, err_msg=p.name)


def test_learning_rates_follow_the_schedule_and_set_lr():
    optimizer = paddle.optimizer.SGD(0.1)
    loss, _ = network(optimizer)
    program = loss.block.program
    step = ShardedStep(program, [loss], Alone(), threads=1)
    weight = program.all_parameters()[0]
    before = Scope()
    step.gather(before)
    optimizer.set_lr(0.0)
    step.run(FEEDS)
    after = Scope()
    step.gather(after)
    assert np.array_equal(weight.get_value(before), weight.get_value(after))
    assert np.array_equal(weight.get_value(before), weight.get_value())  # the program's own scope is left alone


def test_a_missing_feed_and_a_program_without_optimizer_are_refused():
    loss, _ = network(paddle.optimizer.SGD(0.1))
    with pytest.raises(FeedError, match="'label' is not fed"):
        ShardedStep(loss.block.program, [loss], Alone()).run({"x": X})
    with static.program_guard(static.Program(), static.Program()):
        other = paddle.mean(static.nn.fc(static.data("x", ["N", 3]), 1))
        with pytest.raises(ArgumentError, match="minimize"):
            ShardedStep(other.block.program, [other], Alone())


def test_a_step_of_four_ranks_says_what_each_holds_and_what_travels():
    loss, _ = network(paddle.optimizer.Adam(0.01, grad_clip=ClipGradByGlobalNorm(0.1)))

    def work(transport):
        step = ShardedStep(loss.block.program, [loss], transport)
        return step.step

    steps = run_local(4, work)
    for step in steps:
        names = [phase.name for phase in step.phases]
        assert names[:3] == ["gradients", "shared 1", "shared 2"] and all(name.startswith("apply") for name in names[3:])
        (added,) = [each for each in step.phases[0].then if isinstance(each, AllReduce)]
        (scattered,) = [each for each in step.phases[0].then if isinstance(each, ReduceScatter)]
        (gathered,) = [each for each in step.phases[-1].then if isinstance(each, AllGather)]
        small = [p for p in loss.block.program.parameters if np.prod(p.shape) <= 4096]
        large = [p for p in loss.block.program.parameters if np.prod(p.shape) > 4096]
        assert set(added.values) == {p.name + "@GRAD" for p in small} and set(gathered.values) == {p.name for p in large}
        assert set(scattered.values) == {p.name + "@GRAD" for p in large}
        assert scattered.bytes == gathered.bytes == sum(4 * np.prod(p.shape) for p in large)
        held = [state.bytes for state in step.state.values() if state.owner == "ranges"]
        assert sum(held) <= 2 * padded([int(np.prod(p.shape)) for p in large], 4)
    assert "then each rank gets its range of the sum of 5 values, " in str(steps[0])
    assert "then each rank gives all its range of 5 values, " in str(steps[0])
    assert "of this rank's ranges, " in str(steps[0])


# Compressed gradients --------------------------------------------------------------------------------------------------

ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""What rounding to the nearest number with 8 and 11 bits loses at most, relative to the number."""

COMPRESSED = {
    "bfloat16": Strategy(compress="bfloat16"),
    "float16": Strategy(compress="float16"),
    "top-k": Strategy(compress="top-k", top_k=0.25),
}


def moved(found, other, program):
    """How far all weights are from others, as one number"""
    return np.sqrt(sum(np.sum((found[p.name] - other[p.name]) ** 2) for p in program.all_parameters()))


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("shards", ["state", "gradients"])
@pytest.mark.parametrize("compress", COMPRESSED)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_compressed_gradients_give_all_ranks_weights_near_those_of_whole_ones(optimizer, compress, shards, world):
    """Of the way from the first weights, in eight steps, 16 bits lose less than one rounding, as the next gradient has what one loses.
    With a quarter of the elements a number waits for three others: the last three of eight steps are under way, for a half of
    their elements, so 3 / 16. Adam divides by the root of squares, which are a step's own, and is that much later again."""
    make = {"sgd": lambda: paddle.optimizer.SGD(0.1), "adam": lambda: paddle.optimizer.Adam(0.002, epsilon=1e-3)}[optimizer]
    loss, _ = network(make())
    program = loss.block.program
    before = {p.name: p.get_value() for p in program.all_parameters()}
    options, cut = {"shards": shards}, UNEVEN[: world - 1]
    ((_, whole, _), *_) = run_local(world, trained(loss, 8, options, cut))
    results = run_local(world, trained(loss, 8, {**options, "strategy": COMPRESSED[compress]}, cut))
    for losses, state, _ in results:
        assert losses == results[0][0]
        for name, value in state.items():
            assert np.array_equal(value, results[0][1][name]), name
    lost = moved(results[0][1], whole, program) / moved(whole, before, program)
    late = 3 / 16 if optimizer == "sgd" else 3 / 8 + 3 / 16
    assert 0 < lost < (late if compress == "top-k" else ROUNDING[compress] / 2)


@pytest.mark.parametrize("shards", ["state", "gradients"])
def test_all_elements_are_whole_gradients(shards):
    loss, _ = network(paddle.optimizer.Adam(0.01, epsilon=1e-4))
    ((_, whole, _), *_) = run_local(3, trained(loss, 3, {"shards": shards}, UNEVEN))
    everything = {"shards": shards, "strategy": Strategy(compress="top-k", top_k=1.0)}
    for _, state, _ in run_local(3, trained(loss, 3, everything, UNEVEN)):
        for name, value in state.items():
            np.testing.assert_allclose(value, whole[name], rtol=1e-5, atol=1e-7, err_msg=name)


def test_largest_elements_that_are_sent_to_one_rank_are_those_that_all_get():
    """Both add up in the order of ranks. The sum of 16-bit numbers has 16 bits on all ranks, and more on one. Each gradient has a
    bucket for itself, as several are put together otherwise for one rank than for all."""
    loss, _ = network(paddle.optimizer.Adam(0.01, epsilon=1e-4))
    alone = replace(COMPRESSED["top-k"], bucket_megabytes=1e-6)
    options = [{"shards": shards, "strategy": alone} for shards in (None, "state", "gradients")]
    first, *others = [run_local(3, trained(loss, 3, each, UNEVEN))[0][1] for each in options]
    for other in others:
        for name, value in other.items():
            assert np.array_equal(value, first[name]), name


@pytest.mark.parametrize("shards", ["state", "gradients"])
@pytest.mark.parametrize("compress", COMPRESSED)
def test_weights_and_what_is_kept_are_the_weights_of_whole_gradients(compress, shards):
    """Where gradients do not depend on weights, nothing but rounding lies between: that of sums, which have the 16 bits of what is
    sent where all ranks get them, and else that of float32"""
    x = static.data("x", ["N", 80])
    loss = paddle.mean(static.nn.fc(x, 90) * paddle.to_tensor(RANDOM.normal(size=90).astype(np.float32)))
    paddle.optimizer.SGD(0.5).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    program, rate, steps = loss.block.program, 0.5, 6

    def run(transport):
        step = ShardedStep(program, [], transport, loss=loss, shards=shards, strategy=COMPRESSED[compress], threads=1)
        for number in range(steps):
            step.run({"x": X[number :: transport.world_size][transport.rank :]})
        scope = Scope()
        step.gather(scope)
        return {p.name: p.get_value(scope) for p in program.all_parameters()}, step.exchange.rests()

    def alone(transport):
        step = ShardedStep(program, [], transport, loss=loss, shards=None, threads=1)
        for number in range(steps):
            step.run({"x": X[number :: transport.world_size][transport.rank :]})
        scope = Scope()
        step.gather(scope)
        return {p.name: p.get_value(scope) for p in program.all_parameters()}

    results, whole = run_local(3, run), run_local(3, alone)[0]
    for p in program.all_parameters():
        rest = sum(rests[p.grad_name] for _, rests in results)
        assert np.any(rest)
        largest = np.abs(whole[p.name] - p.get_value()).max()
        is_on_all = shards == "state" or np.prod(p.shape) <= 4096
        atol = largest * ROUNDING[compress] if compress in ROUNDING and is_on_all else 1e-6
        np.testing.assert_allclose(results[0][0][p.name] - rate * rest, whole[p.name], rtol=1e-5, atol=atol)


@pytest.mark.parametrize("compress", COMPRESSED)
def test_gradients_alone_are_sent_in_fewer_bytes(compress):
    """Statistics of the batch go in float64 and the loss in float32: with the first weights both are the same to the bit"""
    loss, _ = network(paddle.optimizer.Momentum(0.1, 0.9), norm=True)
    program = loss.block.program
    sent = []

    def run(strategy):
        def one(transport):
            counting = Counting(transport)
            sent.append((transport.rank, strategy, counting.bytes))
            return trained(loss, 1, {"shards": "gradients", "strategy": strategy}, UNEVEN, "sync")(counting)

        return one

    whole, found = run_local(3, run(None)), run_local(3, run(COMPRESSED[compress]))
    statistics = {v.name for v in program.list_vars() if v.persistable} & {
        v.name for op in program.global_block().ops if op.type == "BatchNormalization" for v in op.inputs[3:5]
    }
    assert len(statistics) == 2
    for (losses, state, _), (wanted, expected, _) in zip(found, whole, strict=True):
        assert losses == wanted
        for name in statistics:
            assert np.array_equal(state[name], expected[name]), name
        assert any(not np.array_equal(state[p.name], expected[p.name]) for p in program.all_parameters())
    sizes = [int(np.prod(p.shape)) for p in program.all_parameters() if not p.stop_gradient]
    large, small = (padded([n for n in sizes if (n > 4096) == is_large], 3) for is_large in (True, False))
    plain = {rank: counts for rank, strategy, counts in sent if strategy is None}
    for rank, strategy, counts in sent:
        if strategy is None:
            assert counts["reduce_scatter_"] == 4 * large
            continue
        assert "reduce_scatter_" not in counts and counts["all_gather_"] >= plain[rank]["all_gather_"]
        received = counts["all_gather_"] - plain[rank]["all_gather_"]
        if compress == "top-k":
            assert received == 3 * (4 + 4) * (large // 4 + small // 4)  # of each rank: positions of 32 bits, and numbers
        else:
            # Large ones are exchanged, and each rank adds up its range; sums of small ones all get, in 16 bits too.
            assert counts["all_to_all_"] == 2 * (large + small) and received == 2 * small
            assert plain[rank]["all_reduce_"] - counts["all_reduce_"] == 4 * small - 2  # two flags more


@pytest.mark.parametrize("shards", ["state", "gradients"])
def test_a_gradient_larger_than_16_bits_hold_is_refused_on_all_ranks(shards):
    """One rank has 10^6 in place of 1; where one has an infinity, the step is lost by that"""
    x = static.data("x", ["N", 80])
    loss = paddle.mean(static.nn.fc(x, 90))
    paddle.optimizer.SGD(0.1).minimize(loss)
    static.Executor().run(static.default_startup_program())

    def run(transport):
        step = ShardedStep(loss.block.program, [loss], transport, shards=shards, strategy=COMPRESSED["float16"], threads=1)
        rows = np.ones((2, 80), np.float32)
        step.run({"x": rows})
        with pytest.raises(TrainingError, match=r"larger than float16 holds\. Use compress='bfloat16'"):
            step.run({"x": rows * (1e8 if transport.rank == 1 else 1.0)})
        step.run({"x": rows * (1e8 if transport.rank == 1 else np.inf)})
        with pytest.raises(TrainingError, match="larger than float16 holds"):
            step.run({"x": rows * (1e8 if transport.rank == 1 else 1.0)})
        step.run({"x": rows})

    run_local(3, run)


def test_an_infinity_is_sent_and_not_kept():
    for made in (TopK(MainMemory(Alone()), 0.25), Narrow(MainMemory(Alone()), np.float16)):
        bucket = np.array([1.0, np.inf, np.nan, -np.inf, 3.0, 4.0, 5.0, 6.0], np.float32)
        made.reduce(0, bucket, False)
        assert not np.isfinite(bucket).all() and np.isfinite(made.rest[0]).all()


@pytest.mark.parametrize("in_ranges", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("compress", COMPRESSED)
def test_what_is_sent_and_what_is_kept_are_the_whole(compress, dtype, in_ranges):
    """Numbers of 16 bits are added up in those of the bucket, so a range is rounded by that alone. Where all get all of it the sum
    is rounded to 16 bits, and what that loses is kept by the rank that has added it up."""
    given = np.random.default_rng(1).normal(size=(3, 192)).astype(dtype)

    def run(transport):
        made, bucket = compression_of(COMPRESSED[compress], MainMemory(transport)), given[transport.rank].copy()
        made.reduce(7, bucket, in_ranges)
        made.check(transport)
        return bucket, made.rest[7]

    results = run_local(3, run)
    kept = sum(rest for _, rest in results)
    assert all(0 < np.abs(rest).max() < np.abs(given).max() for _, rest in results)
    summed = np.concatenate([bucket[64 * rank : 64 * rank + 64] for rank, (bucket, _) in enumerate(results)])
    np.testing.assert_allclose(summed + kept, given.sum(0), rtol=1e-6, atol=1e-6)
    assert summed.dtype == dtype
    if not in_ranges:
        assert all(np.array_equal(bucket, summed) for bucket, _ in results)

"""Optimizer state shared out over ranks: the step of one process, with a share of its memory."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.variable import Parameter
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.shards import make_shards
from onnxgrad.core.step.step import AllReduce, Broadcast
from onnxgrad.distributed import Alone, ShardedStep, run_local
from onnxgrad.errors import ArgumentError
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
def test_shares_of_the_state_are_bitwise_the_whole_and_take_the_step_of_one_process(make):
    loss, executor = network(make())
    program = loss.block.program
    shared = run_local(3, trained(loss, 3, {}, UNEVEN))
    whole = run_local(3, trained(loss, 3, {"shards": None}, UNEVEN))
    expected = [executor.run(program, FEEDS, [loss])[0] for _ in range(3)]
    for losses, state, _ in shared:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        for name, value in state.items():
            assert np.array_equal(value, whole[0][1][name]), name
            assert np.array_equal(value, shared[0][1][name]), name
    for p in program.all_parameters():
        np.testing.assert_allclose(shared[0][1][p.name], p.get_value(), rtol=1e-4, atol=2e-6, err_msg=p.name)


class Counting:
    """A transport that counts the bytes a rank gives it"""

    def __init__(self, transport):
        self.rank, self.world_size, self.transport, self.bytes = transport.rank, transport.world_size, transport, {}

    def __getattr__(self, name):
        def call(buffer, *rest):
            self.bytes[name] = self.bytes.get(name, 0) + buffer.nbytes
            return getattr(self.transport, name)(buffer, *rest)

        return call


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_gradients_that_are_sent_to_one_rank_alone_make_the_same_step(make):
    loss, executor = network(make(), norm=True)
    program = loss.block.program
    options = {"shards": "gradients"}
    sent = []

    def run(transport):
        counting = Counting(transport)
        sent.append((transport.rank, counting.bytes))
        return trained(loss, 3, options, UNEVEN, "sync")(counting)

    results = run_local(3, run)
    expected = [executor.run(program, FEEDS, [loss])[0] for _ in range(3)]
    for losses, state, _ in results:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        for p in program.all_parameters():
            assert np.array_equal(state[p.name], results[0][1][p.name])
            np.testing.assert_allclose(state[p.name], p.get_value(), rtol=2e-4, atol=2e-6, err_msg=p.name)
    shards = make_shards(program, 3)
    for rank, counts in sent:
        others = [v for v, owner in shards.owners.items() if owner != rank]
        assert counts["send"] == 3 * sum(4 * np.prod(v.shape) for v in others)
        small = sum(4 * np.prod(v.shape) for v in shards.cut.gradients if v not in shards.owners)
        assert counts["all_reduce_"] < 3 * (small + 12_000)  # statistics of 100 channels, in float64, and scalars


def test_the_norm_of_all_gradients_is_one_scalar_more():
    loss, _ = network(paddle.optimizer.Adam(0.01, grad_clip=ClipGradByGlobalNorm(0.1)))
    stages, _ = make_shards(loss.block.program, 2).common(0, partial=True)
    totals = [total for stage in stages for each in stage.then for total in each.sums]
    assert len(stages) == 2 and [total.shape for total in totals] == [()]
    with static.program_guard(static.Program(), static.Program()):
        loss, _ = network(paddle.optimizer.Adam(0.01))
    without, _ = make_shards(loss.block.program, 2).common(0, partial=True)
    assert [each for stage in without for each in stage.then] == []


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
    large = [p for p in program.all_parameters() if np.prod(p.shape) > 4096]
    state = [v for v in program.updates if not isinstance(v, Parameter)]
    small = sum(v.get_value().nbytes for v in state if np.prod(v.shape) <= 4096)
    whole = sum(2 * p.get_value().nbytes for p in large)
    found = [held for *_, held in run_local(world, trained(loss, 1, {}, None))]
    largest = max(2 * p.get_value().nbytes for p in large)
    assert max(found) <= whole / world + largest + small
    assert sum(found) == whole + world * small
    assert [make_shards(program, world).bytes_of_state(rank) + small for rank in range(world)] == found


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
    with pytest.raises(ArgumentError, match="lacks 'label'"):
        ShardedStep(loss.block.program, [loss], Alone()).run({"x": X})
    with static.program_guard(static.Program(), static.Program()):
        other = paddle.mean(static.nn.fc(static.data("x", ["N", 3]), 1))
        with pytest.raises(ArgumentError, match="minimize"):
            ShardedStep(other.block.program, [other], Alone())
        with pytest.raises(ArgumentError, match="minimize"):
            make_shards(other.block.program, 2)


def test_a_step_of_four_ranks_says_what_each_holds_and_what_travels():
    loss, _ = network(paddle.optimizer.Adam(0.01, grad_clip=ClipGradByGlobalNorm(0.1)))

    def work(transport):
        step = ShardedStep(loss.block.program, [loss], transport)
        return step.step

    steps = run_local(4, work)
    for rank, step in enumerate(steps):
        names = [phase.name for phase in step.phases]
        assert names == ["gradients", "shared", *(["apply"] if "apply" in names else [])]
        (added,) = [each for each in step.phases[0].then if isinstance(each, AllReduce)]
        gradients = {p.name + "@GRAD" for p in loss.block.program.parameters}
        assert set(added.values) == gradients
        assert added.bytes == sum(4 * np.prod(p.shape) for p in loss.block.program.parameters)
        owners = {state.owner for state in step.state.values()}
        assert owners <= {"all", rank} and "all" in owners
        given = {each.root: set(each.values) for each in step.phases[-1].then if isinstance(each, Broadcast)}
        assert {name for names in given.values() for name in names} <= {p.name for p in loss.block.program.parameters}
    assert {state.owner for step in steps for state in step.state.values()} >= {"all", 0, 1}
    assert "then all ranks add up 10 values, " in str(steps[0])
    assert "gives all 1 value, " in str(steps[0])
    assert "of rank 0, " in str(steps[0])

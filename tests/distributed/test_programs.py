"""Programs whose Executor exchanges gradients, under Paddle's names."""

import threading

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import distributed, static
from onnxgrad.core.runtime import application
from onnxgrad.core.step import cut, make as making
from onnxgrad.distributed import DistributedBatchSampler, Strategy, fleet, run_local
from onnxgrad.distributed.buckets import ALIGNMENT, Buckets
from onnxgrad.distributed.memory import MainMemory
from onnxgrad.errors import ArgumentError, ArgumentTypeError, TrainingError
from onnxgrad.training import load_checkpoint, save_checkpoint

F = paddle.nn.functional
_BUILDING = threading.Lock()
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(5, 8, 9)).astype(np.float32)
Y = DRAW.integers(0, 5, (5, 8))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 8)
    monkeypatch.setattr(making, "PIECE", 25)


def losses():
    """Reductions whose parts add up each in their own way"""
    return {
        "mean": lambda scores, y: F.cross_entropy(scores, y),
        "ignored": lambda scores, y: F.cross_entropy(scores, y, ignore_index=3),
        "sum": lambda scores, y: F.cross_entropy(scores, y, reduction="sum") * 0.1,
    }


def build(formula, optimizer, **options):
    """(program, loss, what exchanges) of 9 -> 12 -> 5 with Dropout, always from the same weights."""
    with _BUILDING:
        program, startup = static.Program(), static.Program()
        program.random_seed = 7
        with static.program_guard(program, startup), paddle.utils.unique_name.guard():
            x, y = static.data("x", [None, 9]), static.data("y", [None], "int64")
            hidden = F.dropout(static.nn.fc(x, 12, activation="relu"), 0.3)
            loss = losses()[formula](static.nn.fc(hidden, 5), y)
            optimizer().minimize(loss, **options)
        program.scope = startup.scope = paddle.Scope()
        static.Executor().run(startup)
    draw = np.random.default_rng(3)
    for p in program.all_parameters():
        p.set_value(draw.normal(0, 0.5, p.shape).astype(np.float32))
    return program, loss


def trained(transport=None, formula="mean", optimizer=lambda: paddle.optimizer.SGD(0.1), strategy=None, cuts=None, place=None):
    """Losses, weights and what exchanges, after five steps."""

    def chosen():
        return optimizer() if transport is None else fleet.distributed_optimizer(optimizer(), strategy)

    program, loss = build(formula, chosen)
    count, rank = (1, 0) if transport is None else (transport.world_size, transport.rank)
    borders = cuts or np.linspace(0, 8, count + 1).astype(int)
    mine = slice(borders[rank], borders[rank + 1])
    executor = paddle.Executor(place, threads=1)
    found = [executor.run(program, {"x": x[mine], "y": y[mine]}, [loss])[0].item() for x, y in zip(X, Y, strict=True)]
    return found, {v.name: np.asarray(v.get_value()) for v in program.list_vars() if v.persistable}, program.exchange


def on_ranks(count, work):
    def one(transport):
        with distributed.using(transport):
            return work(transport)

    return run_local(count, one)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("formula", losses())
@pytest.mark.parametrize(("count", "cuts"), [(2, None), (2, [0, 1, 8]), (3, None), (4, None)])
def test_parts_of_any_size_give_the_weights_of_the_whole_batch(formula, count, cuts):
    """With Dropout, whose masks are those of the whole batch"""
    expected = trained(formula=formula)
    for found in on_ranks(count, lambda transport: trained(transport, formula, cuts=cuts)):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
        for name, value in expected[1].items():
            np.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=1e-6, err_msg=name)


class Elsewhere(static.CPUPlace):
    """Where graphs have the forms of a GPU, and state is replaced as there; its memory is the CPU's"""

    lowering = "cuda"


STRATEGIES = {
    "plain": Strategy(),
    "overlap": Strategy(overlap=2),
    "shares": Strategy(sharding=1),
    "shares of gradients": Strategy(sharding=2),
}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_program_shares_out_its_state_and_a_device_has_the_same_numbers(strategy):
    """Where nothing is replaced in place, what a rank updates is one graph"""

    def optimizer():
        return paddle.optimizer.Adam(0.01, epsilon=1e-3, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5))

    expected = trained(optimizer=optimizer)
    for place in (None, Elsewhere()):
        ranks = on_ranks(2, lambda transport, at=place: trained(transport, optimizer=optimizer, strategy=strategy, place=at))
        for found in ranks:
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
            for name in expected[1]:
                if "moment" not in name:
                    np.testing.assert_allclose(found[1][name], expected[1][name], rtol=1e-4, atol=1e-6, err_msg=name)
            assert (found[2].shared is not None) == bool(strategy.sharding)


def test_a_decorated_optimizer_scales_the_loss_as_one_process_does():
    """The scale is raised after two good steps, so it changes on the way; in 16 bits parts round otherwise than the whole"""

    def optimizer():
        options = {"init_loss_scaling": 256.0, "incr_every_n_steps": 2, "incr_ratio": 4.0, "dtype": "float16", "level": "O1"}
        return static.amp.decorate(paddle.optimizer.Adam(0.01), use_dynamic_loss_scaling=True, **options)

    losses, state, _ = trained(optimizer=optimizer)
    ranks = on_ranks(2, lambda transport: trained(transport, optimizer=optimizer))
    scales = [name for name in state if "loss_scaling" in name]
    assert scales
    for found, values, _ in ranks:
        np.testing.assert_allclose(found, losses, rtol=5e-3)
        for name, value in values.items():
            np.testing.assert_array_equal(value, ranks[0][1][name], name)
            np.testing.assert_allclose(value, state[name], rtol=0.02, atol=5e-3, err_msg=name)
        assert values[scales[0]].item() == state[scales[0]].item() == 256.0 * 16


def test_a_decorated_optimizer_leaves_out_a_step_that_overflows_on_one_rank(monkeypatch):
    """The first gradient of the last example, which the last rank has, is about 2^133: more than float32 holds"""

    def optimizer():
        options = {"init_loss_scaling": 2.0**120, "decr_every_n_nan_or_inf": 1, "decr_ratio": 0.5, "dtype": "float16"}
        return static.amp.decorate(paddle.optimizer.SGD(0.1), use_dynamic_loss_scaling=True, level="O1", **options)

    large = X.copy()
    large[0, 7] *= 1e5
    monkeypatch.setitem(globals(), "X", large)
    _, state, _ = trained(optimizer=optimizer)
    for _, values, _ in on_ranks(2, lambda transport: trained(transport, optimizer=optimizer)):
        for name, value in state.items():
            np.testing.assert_allclose(values[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
        (scale,) = [value for name, value in values.items() if "loss_scaling" in name]
        assert scale.item() == 2.0**119


@pytest.mark.parametrize("compress", ["float16", "top-k"])
def test_what_compression_has_kept_goes_on_in_another_program(tmp_path, compress):
    def step(transport, program, loss, numbers):
        mine, executor = slice(4 * transport.rank, 4 * transport.rank + 4), paddle.Executor(threads=1)
        for number in numbers:
            executor.run(program, {"x": X[number][mine], "y": Y[number][mine]}, [loss])

    def made():
        strategy = Strategy(compress=compress, top_k=0.2, bucket_megabytes=0.0006)
        return build("mean", lambda: fleet.distributed_optimizer(paddle.optimizer.Adam(0.05), strategy))

    def state(program):
        return {v.name: np.asarray(v.get_value()) for v in program.list_vars() if v.persistable}

    def work(transport):
        program, loss = made()
        step(transport, program, loss, range(3))
        with pytest.raises(TrainingError, match=r"different values of what is kept of .*Let all ranks call save_checkpoint\(tog"):
            save_checkpoint(program, tmp_path / "alone")
        save_checkpoint(program, tmp_path / "rests", together=True)
        transport.barrier()
        step(transport, program, loss, [3, 4])
        again, loss = made()
        load_checkpoint(again, tmp_path / "rests")
        step(transport, again, loss, [3, 4])
        lost, loss = made()
        load_checkpoint(lost, tmp_path / "rests")
        lost.exchange.set_rests({})
        step(transport, lost, loss, [3, 4])
        return state(program), state(again), state(lost)

    for wanted, found, lost in on_ranks(2, work):
        assert any((lost[name] != value).any() for name, value in wanted.items())
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value, name)


def test_gradients_are_not_copied_on_their_way(monkeypatch):
    """They are computed into a bucket, reduced there, and read from there by what applies them"""
    read = []
    finish = application.Application.finish

    def noted(self):
        read.append({v: value.data_ptr() for v, value in self._values.items()})
        return finish(self)

    monkeypatch.setattr(application.Application, "finish", noted)
    *_, exchange = on_ranks(2, lambda transport: trained(transport, strategy=Strategy(bucket_megabytes=0.0006)))[0]
    flat = exchange._buckets.flat
    assert len(flat) > 1 and exchange.traffic.copied == 0 and exchange.traffic.steps == 5
    assert exchange.traffic.bytes == 5 * sum(bucket.nbytes for bucket in flat)  # twice a half of them, of two ranks
    slots = {v: value.data_ptr() for v, value in exchange._buckets.values.items()}
    own = [step for step in read if set(slots) <= set(step)]
    assert len(own) == 5
    assert all(step[v] == place for step in own for v, place in slots.items())


def test_slots_are_aligned_and_buckets_have_a_limit():
    program = static.Program()
    made = [program.create_global_var(f"v{size}", np.zeros(size, np.float32)) for size in (3, 17, 100, 5)]
    buckets = Buckets([made], 256, ranks=3, memory=MainMemory(distributed.Alone()))
    assert all(value.data_ptr() % ALIGNMENT == 0 for value in buckets.values.values())
    assert [bucket.size for bucket in buckets.flat] == [3 * 16, 3 * 48, 3 * 16]  # of 16 + 32, 112 and 16, in three ranges of lines
    assert [buckets.shares(v, 3) for v in made] == [
        [(0, 0, 3)],
        [(1, 0, 16), (2, 16, 17)],
        [(0, 0, 48), (1, 48, 96), (2, 96, 100)],
        [(0, 0, 5)],
    ]


def test_append_backward_takes_how_ranks_exchange():
    def work(transport):
        program, startup = static.Program(), static.Program()
        with _BUILDING, static.program_guard(program, startup), paddle.utils.unique_name.guard():
            loss = paddle.mean(static.nn.fc(static.data("x", [None, 3]), 2))
            pairs = static.append_backward(loss, distop_context=Strategy())
            paddle.optimizer.SGD(0.1).apply_gradients(pairs)
        program.scope = startup.scope = paddle.Scope()
        executor = paddle.Executor(threads=1)
        executor.run(startup)
        executor.run(program, {"x": np.full((2, 3), transport.rank, np.float32)})
        return [p.get_value().tolist() for p in program.all_parameters()]

    first, second = on_ranks(2, work)
    assert first == second
    with pytest.raises(ArgumentTypeError, match="distop_context is a"):
        static.append_backward(paddle.mean(static.data("z", [3]) * 2.0), distop_context=3)


def test_a_layer_gets_the_mean_of_the_gradients():
    x = X[0]

    def work(transport):
        with _BUILDING:
            layer = paddle.nn.Linear(9, 2)
        layer.weight.set_value(np.full((9, 2), 0.1 * (1 + transport.rank), np.float32))
        model = paddle.DataParallel(layer)
        loss = paddle.mean(paddle.square(model(paddle.to_tensor(x[transport.rank * 4 : transport.rank * 4 + 4]))))
        loss.backward()
        return layer.weight.numpy(), layer.weight.grad.numpy()

    (weight, gradient), *others = on_ranks(2, work)
    layer = paddle.nn.Linear(9, 2)
    layer.weight.set_value(np.full((9, 2), 0.1, np.float32))
    layer.bias.set_value(np.zeros(2, np.float32))
    paddle.mean(paddle.square(layer(paddle.to_tensor(x)))).backward()
    np.testing.assert_array_equal(weight, np.full((9, 2), 0.1, np.float32))
    np.testing.assert_allclose(gradient, layer.weight.grad.numpy(), rtol=1e-5)
    assert all((w == weight).all() and (g == gradient).all() for w, g in others)


@pytest.mark.parametrize("make", [paddle.optimizer.SGD, paddle.optimizer.Adam], ids=lambda make: make.__name__)
def test_a_layer_refuses_ranks_of_which_one_has_left_out_an_update(make):
    """Its weights are others from then on, which nothing else would tell"""

    def work(transport):
        with _BUILDING:
            layer = paddle.nn.Linear(9, 2)
        optimizer = make(0.1, parameters=layer.parameters())
        optimizer.clear_grad()
        paddle.mean(layer(paddle.to_tensor(X[0][:4]))).backward()
        if transport.rank:
            optimizer.step()  # before all begin with the weights of rank 0, it makes no difference
        model = paddle.DataParallel(layer)

        def pass_back():
            paddle.mean(paddle.square(model(paddle.to_tensor(X[0][:4])))).backward()

        for number, passes in enumerate((1, 2, 1)):  # gradients of two passes may make one update
            for _ in range(passes):
                pass_back()
            if number < 2 or transport.rank == 0:
                optimizer.step()
            optimizer.clear_grad()
        with pytest.raises(TrainingError, match=r"rank 1 of 2 cannot train.*another step number \(3, not 4\).*same checkpoint"):
            pass_back()

    on_ranks(2, work)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("examples", "size", "ranks"), [(7, 2, 2), (13, 2, 3), (12, 2, 3), (3, 5, 3), (20, 1, 4)])
def test_a_sampler_gives_each_example_to_one_rank_and_all_as_many_batches(examples, size, ranks, shuffle):
    samplers = [DistributedBatchSampler(range(examples), size, ranks, rank, shuffle) for rank in range(ranks)]
    for sampler in samplers:
        sampler.set_epoch(3)
    batches = [list(sampler) for sampler in samplers]
    assert sorted(index for own in batches for batch in own for index in batch) == list(range(examples))
    assert {len(own) for own in batches} == {len(samplers[0])}
    assert all(batch for own in batches for batch in own)
    dropped = DistributedBatchSampler(range(13), 2, 3, 0, drop_last=True)
    assert [len(batch) for batch in dropped] == [2, 2]


def test_a_sampler_refuses_more_ranks_than_examples():
    with pytest.raises(ArgumentError, match="too few for 4 ranks"):
        DistributedBatchSampler(range(3), 2, 4, 0)


def test_a_strategy_that_makes_no_sense_is_refused():
    for options in ({"compress": "zip"}, {"top_k": 0}, {"bucket_megabytes": 0}):
        with pytest.raises(ArgumentError, match=next(iter(options))):
            Strategy(**options)
    with pytest.raises(ArgumentError, match="no parameter servers"):
        fleet.init(is_collective=False)

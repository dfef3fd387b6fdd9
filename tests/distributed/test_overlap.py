"""Gradients that travel while others are computed: the run is that of one session, to the bit."""

import threading

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import onnxgrad as paddle
from onnxgrad import distributed, static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.runtime import applying, staged
from onnxgrad.core.runtime.application import Application
from onnxgrad.core.step import cut, make as making
from onnxgrad.core.step.stages import in_steps
from onnxgrad.distributed import Strategy, buckets, distribute, run_local
from onnxgrad.distributed.buckets import ALIGNMENT
from onnxgrad.distributed.exchange import GradientExchange, StateExchange
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.training import Trainer
from tests.distributed.test_programs import on_ranks, trained
from tests.distributed.test_trainer import assert_equal, trainer
from tests.training.small import data, line, weights

F = paddle.nn.functional
_BUILDING = threading.Lock()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 4)
    monkeypatch.setattr(making, "PIECE", 10)


@pytest.fixture(autouse=True)
def untimed(monkeypatch):
    """A Trainer does as it is told: what it measures is in test_overlap_choice.py"""
    monkeypatch.setattr(Trainer, "_try_overlap", lambda self, *_: self._keep_overlap(True))


def assert_alike(first, second):
    """Losses and state of ranks, to the bit"""
    for one, other in zip(first, second, strict=True):
        assert one[0] == other[0]
        assert_equal(one[1], other[1])


def clipped():
    return paddle.optimizer.AdamW(0.01, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.05))


def decorated():
    options = {"init_loss_scaling": 256.0, "incr_every_n_steps": 2, "dtype": "float16", "level": "O1"}
    return static.amp.decorate(paddle.optimizer.SGD(0.1), use_dynamic_loss_scaling=True, **options)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("optimizer", [lambda: paddle.optimizer.SGD(0.1), clipped], ids=["SGD", "clipped"])
@pytest.mark.parametrize("formula", ["mean", "ignored", "sum"])
@pytest.mark.parametrize(("count", "cuts"), [(2, [0, 1, 8]), (4, None)])
def test_a_program_in_three_sessions_is_that_in_one(optimizer, formula, count, cuts):
    def ranks(overlap):
        return on_ranks(count, lambda t: trained(t, formula, optimizer, Strategy(overlap=overlap), cuts))

    plain, overlapped = ranks(1), ranks(3)
    assert_alike(overlapped, plain)
    for *_, exchange in overlapped:
        assert len(exchange._groups) == 3
        assert exchange.traffic.copied == 0
        rounded_up = 2 * (count - 1) * 4 * ALIGNMENT * len(exchange._buckets.sizes)  # to equal ranges of all ranks
        assert 0 <= exchange.traffic.bytes - plain[0][2].traffic.bytes <= exchange.traffic.steps * rounded_up


def test_a_scaled_loss_in_16_bits():
    """What crossed would be rounded to 16 bits, which onnxruntime leaves out within a session on the CPU, so there is one session"""

    def ranks(overlap):
        return on_ranks(2, lambda t: trained(t, optimizer=decorated, strategy=Strategy(overlap=overlap)))

    plain, overlapped = ranks(1), ranks(3)
    assert_alike(overlapped, plain)
    assert any("loss_scaling" in name for name in plain[0][1])


@pytest.mark.parametrize("compress", ["bfloat16", "top-k"])
def test_what_compression_keeps_stays_with_its_gradient(compress):
    strategy = {
        "compress": compress,
        "top_k": 0.3,
        "bucket_megabytes": 1e-6,
    }  # a bucket for each gradient, as the largest are of one

    def ranks(overlap):
        return on_ranks(2, lambda t: trained(t, strategy=Strategy(overlap=overlap, **strategy)))

    plain, overlapped = ranks(1), ranks(4)
    assert_alike(overlapped, plain)
    for (*_, first), (*_, second) in zip(overlapped, plain, strict=True):
        assert_equal(first.rests(), second.rests())


def image_step(overlap):
    """Losses and weights: convolutions in the layout for the CPU, If, a table that is read twice and a weight that nothing reads"""

    def work(transport):
        with _BUILDING:
            program, startup = static.Program(), static.Program()
            with static.program_guard(program, startup), paddle.utils.unique_name.guard():
                image, ids, y = (
                    static.data("x", [None, 3, 8, 8]),
                    static.data("ids", [None], "int64"),
                    static.data("y", [None], "int64"),
                )
                h = F.relu(static.nn.batch_norm(static.nn.conv2d(image, 8, 3, padding=1)))
                h = F.max_pool2d(F.relu(static.nn.conv2d(h, 8, 3, padding=1)), 2, 2)
                table = paddle.create_parameter([6, 128], "float32", name="table")
                paddle.create_parameter([3], "float32", name="unread")
                joined = paddle.flatten(h, 1) + F.embedding(ids, table)
                joined = static.nn.cond(paddle.mean(table) > 5.0, lambda: joined * 2.0, lambda: joined * 3.0)
                loss = F.cross_entropy(paddle.matmul(static.nn.fc(joined, 128), table, transpose_y=True), y)
                paddle.optimizer.Adam(0.01).minimize(loss)
            program.scope = startup.scope = paddle.Scope()
            static.Executor().run(startup)
        for at, p in enumerate(program.all_parameters()):
            p.set_value(np.random.default_rng(at).normal(0, 0.2, p.shape).astype("f4"))
        exchange = distribute(program, loss, transport, Strategy(overlap=overlap, batch_norm="local"))
        executor, losses = paddle.Executor(threads=1), []
        for step in range(3):
            draw = np.random.default_rng(10 * step + transport.rank)
            feed = {"x": draw.normal(size=(4, 3, 8, 8)).astype("f4"), "ids": draw.integers(0, 6, 4), "y": draw.integers(0, 6, 4)}
            losses.append(executor.run(program, feed, [loss])[0].item())
        state = {v.name: np.asarray(v.get_value()) for v in program.list_vars() if v.persistable and v.name != "unread"}
        return losses, state, exchange

    return run_local(2, work)


def test_layouts_branches_and_shared_tables_cross_from_session_to_session():
    plain, overlapped = image_step(1), image_step(4)
    assert_alike(overlapped, plain)
    assert [exchange.traffic.copied for *_, exchange in overlapped] == [0, 0]


def test_a_bucket_travels_while_the_next_session_runs(monkeypatch):
    """The first bucket waits until the second session has begun, which would wait for it otherwise"""
    begun = {}

    class Noted:
        def __init__(self, session, event):
            self._session, self._event = session, event

        def __getattr__(self, name):
            return getattr(self._session, name)

        def run_with_iobinding(self, *given):
            self._event.set()
            self._session.run_with_iobinding(*given)

    class Staged(staged.StagedSession):
        def __init__(self, sessions, outputs, between, *given):
            event = threading.Event()
            begun[between.__closure__[0].cell_contents] = event
            super().__init__([sessions[0], Noted(sessions[1], event), *sessions[2:]], outputs, between, *given)

    reduce, waited = GradientExchange._reduce_bucket, []

    def patient(self, number, factor):
        if number == 0:
            waited.append(begun[self].wait(20))
        reduce(self, number, factor)

    monkeypatch.setattr(applying, "StagedSession", Staged)
    monkeypatch.setattr(GradientExchange, "_reduce_bucket", patient)
    on_ranks(2, lambda t: trained(t, strategy=Strategy(overlap=3)))
    assert len(begun) == 2
    assert len(waited) == 10
    assert all(waited)


def test_a_rank_that_fails_between_two_sessions_ends_the_others(monkeypatch):
    send = GradientExchange.send

    def failing(self, number, fetched):
        if number == 1 and self.transport.rank == 1:
            raise KeyError("lost")
        send(self, number, fetched)

    monkeypatch.setattr(GradientExchange, "send", failing)
    with pytest.raises(KeyError, match="lost"):
        on_ranks(2, lambda t: trained(t, strategy=Strategy(overlap=3)))


@pytest.mark.parametrize(
    "options",
    [{}, {"loss_scale": 1024.0, "clip_norm": 0.1}, {"accumulate": 2}, {"ema": 0.9, "schedule": "cosine"}, {"checkpoints": "auto"}],
    ids=lambda options: ", ".join(options) or "as it is",
)
def test_a_trainer_gives_the_same_run(options):
    def fitted(overlap):
        def work(transport):
            given = {"sizes": {"batch": 4}, **options} if "checkpoints" in options else options
            t = trainer(distributed=Strategy(overlap=overlap), **given)
            return t.fit(data(), 2, data(10), batch_size=7), weights(t)

        return on_ranks(2, work)

    for (history, state), (wanted, expected) in zip(fitted(3), fitted(1), strict=True):
        assert history == wanted
        assert_equal(state, expected)


def test_a_nan_on_one_rank_undoes_the_step_on_all():
    x = np.array([[3.0, 0.0], [3.0, 0.0], [-3.0, 0.0]], "f4")

    def work(transport):
        t = trainer(line("y = Log(k)"), loss="mse", metrics=[], distributed=Strategy(overlap=2))
        t.step({"x": x[transport.rank : transport.rank + 1], "target": np.ones((1, 1), "f4")})
        before = weights(t)
        with pytest.raises(TrainingError, match="loss is nan at step 2"):
            t.step({"x": x[1 + transport.rank : 2 + transport.rank], "target": np.ones((1, 1), "f4")})
        assert_equal(weights(t), before)
        return before

    assert_equal(*on_ranks(2, work))


def test_nothing_overlaps_unless_it_is_asked_for_and_an_engine_of_one_thread_does_not():
    class OneThread(distributed.Alone):
        world_size, any_thread = 2, False

    assert distributed.strategy.stages_of(Strategy(), distributed.Alone()) == 1
    assert distributed.strategy.stages_of(Strategy(overlap=3), distributed.Alone()) == 3
    assert distributed.strategy.stages_of(Strategy(), OneThread()) == 1
    with pytest.raises(ArgumentError, match="takes calls of its first thread alone"):
        distributed.strategy.stages_of(Strategy(overlap=2), OneThread())


@pytest.mark.parametrize("overlap", [0, -1, True])
def test_overlap_is_a_number_of_sessions(overlap):
    with pytest.raises(ArgumentError, match=r"overlap is (a number|an int, not)"):
        Strategy(overlap=overlap)


def test_a_graph_is_cut_so_that_some_outputs_are_there_first():
    """What the first graph gives needs nothing of the second, names are the same, and nothing is computed twice"""
    x = static.data("x", [None, 4])
    first, inner = static.nn.fc(x, 5, activation="tanh"), static.nn.fc(x, 3)
    second, last = paddle.tanh(inner), paddle.matmul(first, inner, transpose_x=True)
    static.Executor().run(static.default_startup_program())
    program = x.block.program
    graph = compile(program, [last, second], "cpu", state_as_inputs=True, ordered=True)
    found = in_steps(graph, [[graph.of(second)]])
    assert list(found) == [0, 1]
    stages = list(found.values())
    assert sum(len(stage.operators) for stage in stages) == len(graph.operators)
    values = {"x": np.ones((2, 4), "f4")} | {v.name: v.get_value() for v in program.all_parameters()}
    for stage in stages:
        message = write_model(stage)
        onnx.checker.check_model(message, full_check=True)
        names = [v.name for v in message.graph.input]
        results = ReferenceEvaluator(message).run(None, {name: values[name] for name in names})
        values |= dict(zip([v.name for v in message.graph.output], results, strict=True))
        if stage is stages[0]:
            assert second.name in values
            assert last.name not in values
    whole = paddle.Executor().run(program, {"x": values["x"]}, [last, second])
    for name, array in zip([last.name, second.name], whole, strict=True):
        np.testing.assert_allclose(values[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sharding", [0, 1, 2])
def test_sums_travel_while_those_that_have_arrived_are_applied(monkeypatch, sharding):
    """The last sum waits until something is applied: where all are awaited first, it does so in vain for 20 seconds"""
    monkeypatch.setattr(buckets, "ALIGNMENT", 4)  # so that each rank has something to apply of these small tensors
    applied = {}
    waited = []
    put, send = Application._put, StateExchange._send

    def noted(self, worker):
        put(self, worker)
        if self.has_begun and self._applied is not None and isinstance(self._applied.func.__self__, StateExchange):
            applied.setdefault(self._applied.func.__self__, threading.Event()).set()

    def patient(self, number, arrays):
        if number == len(self._buckets.sizes) - 1:
            waited.append(applied.setdefault(self, threading.Event()).wait(20))
        send(self, number, arrays)

    monkeypatch.setattr(Application, "_put", noted)
    monkeypatch.setattr(StateExchange, "_send", patient)

    def work(transport):
        strategy = Strategy(overlap=2, sharding=sharding, bucket_megabytes=1e-6)
        t = trainer(distributed=strategy, accumulate=2, optimizer="sgd", threads=1)
        for _ in range(2):
            t.step({name: column[transport.rank : 8 : 2] for name, column in data().items()})
        return weights(t)

    def alone():
        t = trainer(accumulate=2, optimizer="sgd")
        for _ in range(2):
            t.step({name: np.concatenate([column[0:8:2], column[1:8:2]]) for name, column in data().items()})
        return weights(t)

    first, second = on_ranks(2, work)
    assert waited == [True, True]
    trained = {name for name in first if not name.endswith("@ACCUMULATED")}
    for name, value in alone().items():
        if name in trained:
            np.testing.assert_allclose(first[name], value, rtol=1e-3, atol=3e-5, err_msg=name)
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_a_sum_that_cannot_be_sent_ends_the_step_by_its_own_error(monkeypatch):
    def broken(self, number, arrays):
        raise KeyError("lost")

    monkeypatch.setattr(StateExchange, "_send", broken)

    def work(transport):
        t = trainer(distributed=Strategy(overlap=2), accumulate=2)
        for _ in range(2):
            t.step({name: column[:4] for name, column in data().items()})

    with pytest.raises(KeyError, match="lost"):
        on_ranks(2, work)

"""A training step over an unknown number of images gets sessions in which the number is known: same results, same state."""

from collections import Counter

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.runtime import session, session_cache
from onnxgrad.errors import FeedError
from onnxgrad.training import Trainer

DRAW = np.random.default_rng(0)


def feed_of(number):
    return {"x": DRAW.normal(size=(number, 3, 8, 8)).astype(np.float32), "label": DRAW.integers(0, 5, number)}


@pytest.fixture
def step():
    """A function of the arguments of an Executor that gives a function of a feed: the loss, the scores and the mean of both"""
    paddle.seed(1)
    x, label = static.data("x", [None, 3, 8, 8]), static.data("label", [None], "int64")
    y = static.nn.batch_norm(static.nn.conv2d(x, 6, 3, padding=1), act="relu")
    y = paddle.nn.functional.max_pool2d(static.nn.conv2d(y, 4, 3, stride=2), 3)
    scores = static.nn.fc(paddle.flatten(y, 1), 5)
    loss = paddle.nn.functional.cross_entropy(scores, label)
    paddle.optimizer.Adam(0.01).minimize(loss)

    def start(**options):
        executor, scope = static.Executor(**options), static.Scope()
        executor.run(static.default_startup_program(), scope=scope)
        for p in static.default_main_program().parameters:
            value = np.random.default_rng(len(p.name)).normal(size=p.static_shape) * 0.3
            scope.set(p.name, value.astype(np.float32))

        def run(feed):
            return executor.run(feed=feed, fetch_list=[loss, scores], scope=scope)

        run.scope = scope
        return run

    return start


@pytest.fixture
def opened(monkeypatch):
    """The shapes that sessions of training steps were made for, in order"""
    found = []
    real = session_cache.prepare

    def prepare(program, fetches, place, threads, saved, shapes, *others):
        if program.updates:
            found.append(dict(shapes).get("x"))
        return real(program, fetches, place, threads, saved, shapes, *others)

    monkeypatch.setattr(session_cache, "prepare", prepare)
    return found


def test_same_losses_as_one_session_for_all(step, opened):
    feeds = [feed_of(n) for n in (8, 5, 8, 8, 5, 2, 8)]
    own, common = step(), step(shapes=0)
    for feed in feeds:
        for a, b in zip(own(feed), common(feed), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert [None if shape is None else shape[0] for shape in opened] == [8, None, 5, 2]


def test_the_number_of_sessions_is_limited(step, opened):
    run = step(shapes=2)
    for n in (4, 5, 6, 4, 7, 5):
        assert run(feed_of(n))[1].shape == (n, 5)
    assert [None if shape is None else shape[0] for shape in opened] == [4, 5, None]


def test_sessions_share_two_copies_of_the_state(step):
    own, common = step(), step(shapes=0)
    pointers = []
    for n in (4, 5, 5, 4, 5, 4, 6, 4):
        feed = feed_of(n)
        np.testing.assert_allclose(own(feed)[0], common(feed)[0], rtol=1e-4)
        pointers.append(own.scope.values["conv2d_0.w_0"].data_ptr())
    assert len(set(pointers)) == 2


def test_a_wrong_feed_is_named_and_opens_nothing(step, opened):
    run = step()
    with pytest.raises(FeedError, match="'x' has shape"):
        run({**feed_of(4), "x": np.zeros((4, 2, 8, 8), np.float32)})
    assert opened == [None]


def test_without_images_there_is_one_session(opened):
    x = static.data("x", [None, 3])
    loss = paddle.mean(static.nn.fc(x, 1))
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    for n in (2, 3, 4):
        executor.run(feed={"x": np.ones((n, 3), np.float32)}, fetch_list=[loss])
    assert opened == [None]


def _file(path, batch):
    """Depthwise and dense convolutions with BatchNormalization, as an exporter writes them"""
    main = static.Program()
    with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard():
        paddle.seed(5)
        x = static.data("x", [batch, 3, 40, 40])
        y = static.nn.conv2d(x, 6, 3, padding=1, bias_attr=False)
        y = paddle.nn.functional.relu6(static.nn.batch_norm(y))
        y = static.nn.batch_norm(static.nn.conv2d(y, 6, 3, padding=1, stride=2, groups=6, bias_attr=False), act="relu")
        scores = static.nn.fc(paddle.flatten(paddle.nn.functional.adaptive_avg_pool2d(y, 1), 1), 5)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        paddle.save_onnx(main.clone(for_test=True), path, [scores.name])
    return path


def test_a_file_with_a_free_batch_trains_as_one_with_a_known_batch(tmp_path, monkeypatch):
    """By the Trainer, as loaded: the same operators, but for two numbers that onnxruntime computes once"""
    found, real = [], session.write_model

    def write_model(graph, **options):
        if graph.updates and any(op.type == "BatchNormalization" for op in graph.operators):
            found.append([op.type for op in graph.operators])
        return real(graph, **options)

    monkeypatch.setattr(session, "write_model", write_model)
    data = {"x": DRAW.normal(size=(8, 3, 40, 40)).astype(np.float32), "target": DRAW.integers(0, 5, 8)}
    losses = []
    for batch in (8, None):
        trainer = Trainer(str(_file(tmp_path / f"{batch}.onnx", batch)), loss="cross_entropy", batch_norm="train")
        trainer.fit(data, batch_size=8, epochs=2)
        losses.append([row["loss"] for row in trainer.history])
    known, free = (Counter(types) for types in found)
    assert set(free - known) <= {"Cast", "Div"}
    assert not known - free
    assert free["ConvTranspose"] == 0
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)

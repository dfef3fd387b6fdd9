"""update_in_chunks: chains of an optimizer over large state as Scans, with that state as rows."""

import subprocess
import sys

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.step import make as making
from tests.peak_memory import PEAK

ROWS, WIDE = 24, 40


def build(optimizer, wide=WIDE):
    """A net whose first weight is large, and its loss"""
    x, y = static.data("x", [None, ROWS]), static.data("y", [None, 8])
    loss = paddle.mean((static.nn.fc(paddle.tanh(static.nn.fc(x, wide)), 8) - y) ** 2)
    optimizer.minimize(loss)
    return loss


def graph_of(loss, chunk=128, **options):
    return compile(loss.block.program, [loss], "cpu", state_as_inputs=True, ordered=True, chunk=chunk, **options)


def scans(graph):
    return [op for op in graph.operators if op.type == "Scan"]


def trained(make, chunk, monkeypatch, steps=4):
    """Losses of some steps and all state behind them, with updates in chunks of so many numbers, or as they are"""
    monkeypatch.setattr(making, "ROW", chunk)
    draw = np.random.default_rng(1)
    feed = {"x": draw.normal(size=(5, ROWS)).astype("float32"), "y": draw.normal(size=(5, 8)).astype("float32")}
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup), static.scope_guard(scope):
        paddle.seed(5)
        loss = build(make())
        executor = static.Executor(threads=1)
        executor.run(startup)
        losses = [executor.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(steps)]
        state = {v.name: v.get_value(scope) for v in main.list_vars() if v.persistable}
        found = len(scans(graph_of(loss, chunk)))
    return losses, state, found


OPTIMIZERS = {
    "Adam": lambda: paddle.optimizer.Adam(1e-2),
    "Adam with decay": lambda: paddle.optimizer.Adam(1e-2, weight_decay=0.1),
    "AdamW, clipped by the norm": lambda: paddle.optimizer.AdamW(1e-2, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1)),
    "Momentum": lambda: paddle.optimizer.Momentum(1e-2),
    "RMSProp": lambda: paddle.optimizer.RMSProp(1e-2),
    "Adagrad": lambda: paddle.optimizer.Adagrad(1e-2),
    "Adadelta": lambda: paddle.optimizer.Adadelta(1e-2),
    "clipped by value": lambda: paddle.optimizer.Momentum(1e-2, grad_clip=paddle.nn.ClipGradByValue(1e-3)),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_the_same_to_the_bit(make, monkeypatch):
    losses, state, found = trained(make, 128, monkeypatch)
    plain, expected, none = trained(make, 0, monkeypatch)
    assert (found, none) == (1, 0)
    np.testing.assert_array_equal(losses, plain)
    assert state.keys() == expected.keys()
    for name, array in state.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name, strict=True)


@pytest.mark.parametrize(
    ("make", "wide", "chunk"),
    [
        pytest.param(lambda: paddle.optimizer.SGD(1e-2), WIDE, 128, id="two operators"),
        pytest.param(lambda: paddle.optimizer.Lamb(1e-2), WIDE, 128, id="norms in between"),
        pytest.param(lambda: paddle.optimizer.Adam(1e-2), 8, 128, id="small"),
        pytest.param(lambda: paddle.optimizer.Adam(1e-2), 10007, 1000, id="no divisor"),
        pytest.param(lambda: paddle.optimizer.Adam(1e-2), WIDE, 0, id="not asked for"),
    ],
)
def test_other_updates_stay(make, wide, chunk):
    graph = graph_of(build(make(), wide), chunk)
    assert not scans(graph)
    assert not graph.own_shapes


def test_state_is_rows_and_what_reads_it_sees_its_shape():
    loss = build(paddle.optimizer.Adam(1e-2))
    graph = graph_of(loss)
    (scan,) = scans(graph)
    assert [v.static_shape for v in scan.outputs] == [(8, 1, 120)] * 3
    states = [v for v in graph.inputs if v in graph.own_shapes]
    assert [v.static_shape for v in states] == [(8, 1, 120)] * 3
    assert set(graph.own_shapes.values()) == {(ROWS, WIDE)}
    (weight,) = [v for v in states if v.is_parameter]
    readers = [op.type for op in graph.operators if any(v is weight for v in op.inputs)]
    assert readers.count("Scan") == 1
    assert set(readers) == {"Scan", "Reshape"}
    onnx.checker.check_model(write_model(graph, embeds=True), full_check=True)


def test_a_fetched_weight_keeps_its_shape(monkeypatch):
    monkeypatch.setattr(making, "ROW", 128)
    loss = build(paddle.optimizer.Adam(1e-2))
    weight = loss.block.program.all_parameters()[0]
    executor = static.Executor(threads=1)
    executor.run(static.default_startup_program())
    before = weight.get_value()
    draw = np.random.default_rng(1)
    feed = {"x": draw.normal(size=(5, ROWS)).astype("float32"), "y": draw.normal(size=(5, 8)).astype("float32")}
    _, found = executor.run(feed=feed, fetch_list=[loss, weight])
    assert found.shape == (ROWS, WIDE)
    assert not np.array_equal(weight.get_value(), before)
    assert np.array_equal(found, before) or np.array_equal(found, weight.get_value())


def test_two_programs_share_the_state(monkeypatch):
    monkeypatch.setattr(making, "ROW", 128)
    loss = build(paddle.optimizer.Adam(1e-2))
    main = static.default_main_program()
    judge = main.clone(for_test=True)
    executor = static.Executor(threads=1)
    executor.run(static.default_startup_program())
    draw = np.random.default_rng(1)
    feed = {"x": draw.normal(size=(5, ROWS)).astype("float32"), "y": draw.normal(size=(5, 8)).astype("float32")}
    for _ in range(3):
        (judged,) = executor.run(judge, feed=feed, fetch_list=[loss.name])
        (before,) = executor.run(main, feed=feed, fetch_list=[loss])
        np.testing.assert_allclose(judged, before, rtol=1e-6)


def test_an_export_for_the_cpu_has_the_states_shapes():
    loss = build(paddle.optimizer.Adam(1e-2))
    static.Executor().run(static.default_startup_program())
    model, manifest = paddle.to_training_step(loss.block.program, [loss], lowering="cpu")
    shapes = {info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in model.graph.input}
    for v in loss.block.program.all_parameters():
        assert shapes[v.name] == list(v.shape)
    assert manifest


@pytest.mark.process
@pytest.mark.exhaustive
def test_the_optimizers_results_on_the_way_take_no_memory():
    """Adam of 16 million numbers: 64 MB each for weight, moments, gradient and new state, and none for its chain"""
    script = (
        PEAK
        + """
import sys, numpy as np, onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.step import make as making
making.ROW = int(sys.argv[1])
x = static.data("x", [4, 4096])
loss = paddle.mean(static.nn.fc(x, 4096, bias_attr=False))
paddle.optimizer.Adam(1e-3).minimize(loss)
executor = static.Executor(threads=2, memory=None)
executor.run(static.default_startup_program())
for _ in range(3):
    executor.run(feed={"x": np.ones((4, 4096), np.float32)}, fetch_list=[loss])
print(peak())
"""
    )

    def peak(piece):
        done = subprocess.run([sys.executable, "-c", script, str(piece)], capture_output=True, text=True, check=True)
        return int(done.stdout) / 2**10

    assert peak(2**16) < peak(0) - 64

"""Frozen layers in 8-bit integers: how far results are off, whose gradients they have, and what files hold."""

import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as paddle
from onnxgrad.core.runtime import processor, session
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.static import CUDAPlace
from onnxgrad.training import Trainer, add_lora
from tests.distributed.test_trainer import on_ranks

WIDTH = 160
_BUILDING = threading.Lock()
"""Of networks on several threads, whose names are counted."""


def model(rows=2):
    """Gemm with turned weights and bias, Relu, MatMul on three axes, of which one holds several rows, and a small last layer"""
    draw = np.random.default_rng(0)
    weights = {
        "w1": draw.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5, "b1": draw.normal(size=WIDTH),
        "w2": draw.normal(size=(WIDTH, WIDTH)) * np.linspace(0, 1, WIDTH) / WIDTH**0.5, "w3": draw.normal(size=(WIDTH, 3)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h1"], transB=1), helper.make_node("Relu", ["h1"], ["h2"]),
        helper.make_node("Reshape", ["h2", "shape"], ["h3"]), helper.make_node("MatMul", ["h3", "w2"], ["h4"]),
        helper.make_node("Reshape", ["h4", "flat"], ["h5"]), helper.make_node("MatMul", ["h5", "w3"], ["y"]),
    ]  # fmt: skip
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    constants += [numpy_helper.from_array(np.array(v), n) for n, v in (("shape", [-1, rows, WIDTH]), ("flat", [-1, WIDTH]))]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", size]) for n, size in (("x", WIDTH), ("y", 3)))
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def trainer(frozen, rows=2, **named):
    program = paddle.from_onnx(model(rows))
    with paddle.state.fresh_names():
        add_lora(program, rank=4)
        return Trainer(program, loss="mse", target="target", frozen=frozen, learning_rate=1e-2, **named)


def data(rows=64):
    draw = np.random.default_rng(1)
    return {"x": draw.normal(size=(rows, WIDTH)).astype(np.float32), "target": draw.normal(size=(rows, 3)).astype(np.float32)}


def test_products_are_one_to_two_percent_off_and_gradients_pass_the_float_weights():
    batch, values = data(), []
    for frozen in (None, "int8"):
        one = trainer(frozen)
        program = one.program
        names = ["h1", "h4", *(f"{p.name}@GRAD" for p in one.trained)]
        values.append(dict(zip(names, one.executor.run(program, batch, names), strict=True)))
    plain, found = values
    for name in ("h1", "h4"):
        error = np.sqrt(np.mean((plain[name] - found[name]) ** 2) / np.mean(plain[name] ** 2))
        assert 1e-4 < error < 0.025
    # Where Relu stands at 0, rounding turns its gradient on or off.
    for name, value in plain.items():
        rest = np.sqrt(np.mean((found[name] - value) ** 2))
        assert rest <= 0.1 * np.sqrt(np.mean(value**2)), name


def test_the_gradient_of_a_layer_is_the_product_with_its_float_weight():
    one = Trainer(paddle.from_onnx(model()), loss="mse", target="target", freeze="w2", frozen="int8", learning_rate=1e-4)
    h3, h4, gy, gx = one.executor.run(one.program, data(), ["h3", "h4", "h4@GRAD", "h3@GRAD"])
    w2 = one.program.active_scope().get("w2")
    assert np.abs(h4 - h3 @ w2).max() > 1e-3
    np.testing.assert_allclose(gx, gy @ w2.T, rtol=1e-4, atol=1e-6 * np.abs(gx).max())


def test_a_run_learns_as_in_float32_and_exports_the_weights_of_the_file(tmp_path):
    losses = []
    for frozen in (None, "int8"):
        one = trainer(frozen)
        losses.append([one.step(data())["loss"] for _ in range(25)])
        if frozen:
            assert "2 products with frozen weights" in " ".join(one.remarks)
            one.export(tmp_path / "tuned.onnx")
            one.save(tmp_path / "check")
    assert losses[1][-1] < 0.8 * losses[1][0]
    # Roundings of 1 to 2 % go into each step.
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.1)
    tuned = onnx.load(tmp_path / "tuned.onnx")
    assert not {"MatMulInteger", "DynamicQuantizeLinear"} & {node.op_type for node in tuned.graph.node}
    held = {t.name: numpy_helper.to_array(t) for t in tuned.graph.initializer}
    before = {t.name: numpy_helper.to_array(t) for t in model().graph.initializer}
    np.testing.assert_array_equal(held["b1"], before["b1"])
    for name in ("w1", "w2"):
        # What was merged is a product of rank 4, and nothing was rounded to bytes.
        sizes = np.linalg.svd(held[name] - before[name], compute_uv=False)
        assert sizes[3] > 1e-2 and sizes[4] < 1e-5


def test_an_example_is_rounded_by_itself():
    """With one scale for the whole batch, one example that is 20 times as large moved the others by 9 %"""
    values = []
    for factor in (1, 20):
        one, batch = trainer("int8"), data()
        batch["x"][3] *= factor
        results = one.executor.run(one.program, batch, ["h1", "h4"])
        values.append([np.delete(h.reshape(-1, WIDTH), 3, 0) for h in results])
    for before, after in zip(*values, strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("options", [{"accumulate": 4}, {"distributed": True}, {"distributed": True, "accumulate": 2}], ids=str)
def test_parts_of_a_batch_train_what_the_whole_does(options):
    def fitted(accumulate=1, **distributed):
        with _BUILDING:
            one = trainer("int8", rows=1, accumulate=accumulate, optimizer="sgd", clip_norm=0.5, **distributed)
        one.fit(data(), 3, batch_size=16 // accumulate, shuffle=False, verbose=False)
        return {p.name: p.get_value() for p in one.trained}

    expected = fitted()
    results = on_ranks(2, lambda transport: fitted(**options)) if "distributed" in options else [fitted(**options)]
    for weights in results:
        for name, value in expected.items():
            # What float products round in another order may round to another integer.
            np.testing.assert_allclose(weights[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


def test_a_run_that_diverges_is_seen():
    """What rounds takes NaN for a number; other examples have nothing to do with it"""
    one = trainer("int8")
    program, batch = one.program, data()
    batch["x"][3, 5] = np.nan
    (h,) = one.executor.run(program, batch, ["h1"])
    assert not np.isfinite(h[3]).any() and np.isfinite(np.delete(h, 3, 0)).all()
    for p in one.trained:
        program.active_scope().set(p.name, np.full(p.shape, np.inf, np.float32))
    with pytest.raises(TrainingError):
        one.step(data())


def test_what_cannot_be_is_refused():
    with pytest.raises(ArgumentError, match="'int8' or None"):
        trainer("int4")
    with pytest.raises(ArgumentError, match="CPU provider"):
        trainer("int8", place=CUDAPlace(0))
    with pytest.raises(ArgumentError, match="no frozen MatMul"):
        Trainer(paddle.from_onnx(model()), loss="mse", target="target", frozen="int8")


@pytest.mark.parametrize("has", [True, False])
def test_sums_do_not_saturate_on_processors_without_vnni(monkeypatch, has):
    """The session is told to take the slower product"""
    entries = []

    class Options(onnxruntime.SessionOptions):
        def add_session_config_entry(self, name, value):
            entries.append(name)
            super().add_session_config_entry(name, value)

    monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
    monkeypatch.setattr(session, "has_integer_products", lambda: has)
    trainer("int8").step(data())
    assert ("session.x64quantprecision" in entries) is not has
    assert processor.has_integer_products() in (True, False)

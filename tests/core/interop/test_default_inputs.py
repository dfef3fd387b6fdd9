"""Graph inputs with a default value: they may be fed, and are not where they need not be."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import FeedError
from onnxgrad.training import Trainer, add_lora, save_adapters

X = np.array([[1.0, 2.0]], np.float32)


def with_default(text, ir=8, **values):
    """A model whose inputs of these names have a default"""
    model = parse_model(f'<ir_version: {ir}, opset_import: ["": 17]> f {text}')
    for name, value in values.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def scaled(ir=8):
    text = "(float[N, 2] x, float s) => (float y) { m = ReduceSum <keepdims = 0> (x)  y = Mul(m, s) }"
    return with_default(text, ir, s=np.array(2, np.float32))


def by_onnxruntime(model, feed):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)


def test_it_is_fed_or_has_its_default():
    program = og.from_onnx(scaled())
    assert [v.name for v in program.inputs] == ["x"]
    for feed in ({"x": X}, {"x": X, "s": np.array(5, np.float32)}, {"x": X}):
        (y,) = og.Executor().run(program, feed, program.outputs)
        assert y == by_onnxruntime(scaled(), feed)[0] == (15 if "s" in feed else 6)
    with pytest.raises(FeedError, match="'s'"):
        og.Executor().run(program, {"x": X, "s": np.ones(3, np.float32)}, program.outputs)


@pytest.mark.parametrize("copied", [False, True])
def test_it_is_written_as_input_and_initializer(copied):
    program = og.from_onnx(scaled())
    program = program.clone() if copied else program
    for model in (og.to_onnx(program), og.to_onnx(program, program.outputs)):
        assert [v.name for v in model.graph.input] == ["x", "s"] and [t.name for t in model.graph.initializer] == ["s"]
        assert by_onnxruntime(model, {"x": X, "s": np.array(5, np.float32)}) == [15]
        assert by_onnxruntime(model, {"x": X}) == [6]


def test_a_file_is_written_back_as_it_was():
    model = scaled()
    for node in model.graph.node:
        node.ClearField("domain")  # the parser of texts writes an empty one
    assert og.to_onnx(og.from_onnx(model)).graph == model.graph


def test_its_gradient_follows_what_is_fed():
    program = og.from_onnx(scaled())
    x, s = (program.global_block().vars[name] for name in "xs")
    x.stop_gradient = s.stop_gradient = False
    grads = og.gradients(program.outputs, [x, s])
    for value in (2, 5):
        feed = {"x": X} if value == 2 else {"x": X, "s": np.array(value, np.float32)}
        gx, gs = og.Executor().run(program, feed, grads)
        np.testing.assert_array_equal(gx, np.full_like(X, value))
        assert gs == 3
    model = og.to_onnx(program, grads)
    assert by_onnxruntime(model, {"x": X, "s": np.array(7, np.float32)})[0].tolist() == [[7, 7]]


def test_no_shape_is_concluded_from_it():
    text = "(float[N, 2] x, int64[K] shape) => (float[P, Q] y) { y = Reshape(x, shape) }"
    model = with_default(text, shape=np.array([1, -1]))
    program = og.from_onnx(model)
    for shape in ([1, -1], [-1, 1], [2, 2]):
        feed = {"x": np.ones((2, 2), np.float32), "shape": np.array(shape)}
        (y,) = og.Executor().run(program, feed, program.outputs)
        assert y.shape == by_onnxruntime(model, feed)[0].shape


def test_before_such_inputs_an_initializer_is_a_constant():
    program = og.from_onnx(scaled(ir=3))
    assert og.Executor().run(program, {"x": X}, program.outputs) == [6]
    assert program.global_block().vars["s"].value is not None


def test_a_weight_among_the_inputs_is_trained_and_has_what_is_fed_from_then_on():
    text = "(float[N, 2] x, float[2, 2] w) => (float[N, 2] y) { y = MatMul(x, w) }"
    program = og.from_onnx(with_default(text, w=np.eye(2, dtype=np.float32)))
    assert [p.name for p in program.parameters] == ["w"]
    fed = np.full((2, 2), 3, np.float32)
    np.testing.assert_array_equal(og.Executor().run(program, {"x": X, "w": fed}, program.outputs)[0], X @ fed)
    np.testing.assert_array_equal(og.Executor().run(program, {"x": X}, program.outputs)[0], X @ fed)
    model = og.to_onnx(program)
    assert [v.name for v in model.graph.input] == ["x", "w"] and len(model.graph.initializer) == 1


def classifier():
    text = "(float[N, 2] x, float t) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { m = MatMul(x, w)  y = Div(m, t) }"
    model = with_default(text, t=np.array(2, np.float32))
    model.graph.initializer.append(numpy_helper.from_array(np.array([[1, 2], [3, 4]], np.float32), "w")) if not any(
        t.name == "w" for t in model.graph.initializer
    ) else None
    return model


def test_a_trainer_needs_no_column_for_it_and_exports_it(tmp_path):
    trainer = Trainer(classifier(), loss="cross_entropy", learning_rate=0.1)
    data = {"x": np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32), "target": np.arange(12) % 2}
    rows = trainer.fit(data, 2, batch_size=4, verbose=False)
    assert rows[-1]["loss"] < rows[0]["loss"]
    trainer.export(tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    assert [v.name for v in model.graph.input] == ["x", "t"]
    plain, halved = (by_onnxruntime(model, {"x": data["x"], **more})[0] for more in ({}, {"t": np.array(4, np.float32)}))
    np.testing.assert_allclose(plain, halved * 2, rtol=1e-6)
    np.testing.assert_allclose(plain, trainer.predict({"x": data["x"]})["y"], rtol=1e-5)


def test_an_exported_step_needs_no_feed_for_it():
    program = og.from_onnx(classifier())
    with og.static.program_guard(program, og.static.Program()):
        loss = (program.outputs[0] ** 2).mean()
        og.optimizer.SGD(0.1).minimize(loss)
    model, manifest = og.to_training_step(program, [loss])
    assert [feed["name"] for feed in manifest["feeds"]] == ["x"]
    assert {"t", "x", "w"} <= {v.name for v in model.graph.input} and "t" in {t.name for t in model.graph.initializer}
    assert by_onnxruntime(model, {"x": X})[0] != by_onnxruntime(model, {"x": X, "t": np.array(4, np.float32)})[0]


def test_adapters_of_rank_0_are_fed(tmp_path):
    program = og.from_onnx(parse_model(
        '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }'
    ))  # fmt: skip
    add_lora(program, rank=1)
    for p in program.parameters:
        if p.name != "w":
            p.set_value(np.ones(p.static_shape, np.float32))
    save_adapters(program, tmp_path / "a.onnx_adapter")
    model = ModelProto.FromString((tmp_path / "a.onnx").read_bytes())
    feeds = {v.name: np.ones([d.dim_value or 1 for d in v.type.tensor_type.shape.dim], np.float32) for v in model.graph.input}
    feeds["x"] = X
    loaded = og.from_onnx(model)
    for feed in ({"x": X}, feeds):
        (y,) = og.Executor().run(loaded, feed, loaded.outputs)
        np.testing.assert_allclose(y, by_onnxruntime(model, feed)[0], rtol=1e-6)
    assert len(feeds) == 3


def test_a_layer_takes_it_as_its_last_argument(tmp_path):
    onnx.save(classifier(), tmp_path / "m.onnx")
    layer = og.jit.load(tmp_path / "m")
    halved = layer(og.to_tensor(X), og.to_tensor(np.array(4, np.float32)))
    np.testing.assert_array_equal(layer(og.to_tensor(X)).numpy(), halved.numpy() * 2)
    with pytest.raises(og.errors.ArgumentError, match="must be given"):
        layer()


def test_an_inference_model_keeps_it(tmp_path):
    program, executor = og.from_onnx(classifier()), og.Executor()
    fed = [program.global_block().vars["x"]]
    og.static.save_inference_model(str(tmp_path / "m"), fed, program.outputs, executor, program=program)
    loaded, names, fetches = og.static.load_inference_model(str(tmp_path / "m"), executor)
    assert names == ["x"]
    plain, halved = (executor.run(loaded, {"x": X, **more}, fetches)[0] for more in ({}, {"t": np.array(4, np.float32)}))
    np.testing.assert_array_equal(plain, halved * 2)


def test_bytes_of_a_program_keep_it():
    program = og.static.Program.parse_from_string(og.from_onnx(scaled()).serialize_to_string())
    for feed, y in (({"x": X}, 6), ({"x": X, "s": np.array(5, np.float32)}, 15)):
        assert og.Executor().run(program, feed, program.outputs) == [y]

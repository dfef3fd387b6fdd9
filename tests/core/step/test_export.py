"""Training steps as files: what the manifest says is what a caller without onnxgrad can rely on."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import NotInitialized

X = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)


def stored(folder, manifest):
    content = (folder / manifest["values"]).read_bytes()
    return {
        entry["name"]: np.frombuffer(content[entry["offset"] : entry["offset"] + entry["bytes"]], entry["dtype"]).reshape(
            entry["shape"]
        )
        for entry in manifest["state"] + manifest["constants"]
    }


@pytest.fixture
def loss():
    x = static.data("x", ["N", 2])
    loss = paddle.mean(paddle.square(static.nn.fc(x, 1) - 1.0))
    paddle.optimizer.Adam(0.1).minimize(loss)
    return loss


def test_saved_step_trains_from_its_three_files(loss, tmp_path):
    executor = static.Executor()
    executor.run(static.default_startup_program())
    paddle.save_training_step(loss.block.program, tmp_path / "step.onnx", [loss])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step.bin", "step.json", "step.onnx"]
    manifest = json.loads((tmp_path / "step.json").read_text())
    model = onnx.load(tmp_path / manifest["model"])
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    session = onnxruntime.InferenceSession(tmp_path / manifest["model"])
    names, state = [output.name for output in session.get_outputs()], stored(tmp_path, manifest)
    assert {entry.name for entry in session.get_inputs()} == {"x", *state}
    for _ in range(5):
        results = dict(zip(names, session.run(None, {"x": X, **state}), strict=True))
        state |= {entry["input"]: results[entry["output"]] for entry in manifest["state"]}
        (ours,) = executor.run(feed={"x": X}, fetch_list=[loss])
        np.testing.assert_allclose(results[manifest["fetches"][0]["name"]], ours, rtol=1e-6)


def test_manifest_says_which_input_is_the_learning_rate(loss, tmp_path):
    static.Executor().run(static.default_startup_program())
    manifest = paddle.save_training_step(loss.block.program, tmp_path / "step", [loss])
    (name,) = manifest["learning_rate"]
    assert stored(tmp_path, manifest)[name] == np.float32(0.1)
    session, state = onnxruntime.InferenceSession(tmp_path / "step.onnx"), stored(tmp_path, manifest)
    (weight,) = [entry for entry in manifest["state"] if entry["name"] == "fc_0.w_0"]
    (same,) = session.run([weight["output"]], {"x": X, **state, name: np.array(0.0, np.float32)})
    (other,) = session.run([weight["output"]], {"x": X, **state})
    np.testing.assert_array_equal(same, state["fc_0.w_0"])
    assert np.abs(other - same).max() > 0.01


def test_the_seed_of_dropout_is_an_input_that_a_caller_may_change(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) { y = Dropout(x) }"""
    program = paddle.from_onnx(onnx.parser.parse_model(text))
    program.random_seed = 4
    manifest = paddle.save_training_step(program.train(), tmp_path / "step", program.outputs)
    state = stored(tmp_path, manifest)
    assert state["dropout_seed"] == 4 and [entry["name"] for entry in manifest["state"]] == ["dropout_step"]
    session, ones = onnxruntime.InferenceSession(tmp_path / "step.onnx"), np.ones((100, 2), np.float32)
    for seed in (4, 9):
        program.random_seed = seed
        program.train()
        program.scope.set("dropout_step", np.array(0, np.int64))
        (ours,) = static.Executor().run(program, {"x": ones}, program.outputs)
        (theirs,) = session.run(["y"], {"x": ones, **state, "dropout_seed": np.array(seed)})
        np.testing.assert_array_equal(ours, theirs)


def test_values_begin_where_an_array_of_eight_byte_numbers_may(loss, tmp_path):
    static.Executor().run(static.default_startup_program())
    manifest = paddle.save_training_step(loss.block.program, tmp_path / "step", [loss])
    entries = manifest["state"] + manifest["constants"]
    assert all(entry["offset"] % 8 == 0 for entry in entries)
    assert (tmp_path / "step.bin").stat().st_size == max(entry["offset"] + entry["bytes"] for entry in entries)


def test_weights_without_a_value_are_refused_before_a_file_is_written(loss, tmp_path):
    with pytest.raises(NotInitialized):
        paddle.save_training_step(loss.block.program, tmp_path / "step", [loss])
    assert not list(tmp_path.iterdir())

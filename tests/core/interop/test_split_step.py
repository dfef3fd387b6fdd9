"""Gradients and their application as two models: together they are one training step."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ArgumentError

RANDOM = np.random.default_rng(0)
IMAGES, LABELS = RANDOM.normal(size=(8, 3)).astype(np.float32), RANDOM.integers(0, 2, 8)


class Runner:
    """A model and the part of the manifest that describes it."""

    def __init__(self, model, part):
        onnx.checker.check_model(model, full_check=True)
        assert {node.domain for node in model.graph.node} == {""}
        self.session = onnxruntime.InferenceSession(model.SerializeToString())
        self.part = part

    def __call__(self, given, state):
        held = {entry["name"]: state[entry["name"]] for entry in self.part["state"] + self.part["constants"]}
        results = dict(zip([o.name for o in self.session.get_outputs()], self.session.run(None, {**given, **held}), strict=True))
        state.update({entry["input"]: results[entry["output"]] for entry in self.part["state"]})
        return results


def network():
    image, label = static.data("image", ["N", 3]), static.data("label", ["N"], "int64")
    hidden = static.nn.batch_norm(static.nn.fc(image, 5), act="relu")
    loss = F.cross_entropy(static.nn.fc(F.dropout(hidden, 0.2), 2), label)
    optimizer = paddle.optimizer.AdamW(0.05, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5))
    optimizer.minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return loss, executor


def stored(manifest, folder):
    content = (folder / manifest["values"]).read_bytes()
    return {
        entry["name"]: np.frombuffer(content, entry["dtype"], np.prod(entry["shape"], dtype=int), entry["offset"]).reshape(
            entry["shape"]
        )
        for part in (manifest["gradients"], manifest["apply"])
        for entry in part["state"] + part["constants"]
    }


def test_two_files_train_as_the_program_does(tmp_path):
    loss, executor = network()
    paddle.save_split_training_step(loss.block.program, tmp_path / "step", [loss])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step.bin", "step.json", "step_apply.onnx", "step_gradients.onnx"]
    manifest = json.loads((tmp_path / "step.json").read_text())
    gradients, apply = (Runner(onnx.load(tmp_path / part["model"]), part) for part in (manifest["gradients"], manifest["apply"]))
    state = stored(manifest, tmp_path)
    feeds = {"image": IMAGES, "label": LABELS}
    for _ in range(4):
        results = gradients(feeds, state)
        apply({entry["gradient"]: results[entry["gradient"]] for entry in manifest["exchange"]}, state)
        (expected,) = executor.run(feed=feeds, fetch_list=[loss])
        np.testing.assert_allclose(results[manifest["gradients"]["fetches"][0]["name"]], expected, rtol=1e-6)


def test_exchange_is_one_gradient_for_each_parameter_and_nothing_else():
    loss, _ = network()
    _, _, manifest = paddle.to_split_training_step(loss.block.program, [loss])
    program = loss.block.program
    shapes = {entry["name"]: entry["shape"] for entry in manifest["apply"]["feeds"]}
    assert {entry["parameter"] for entry in manifest["exchange"]} == {p.name for p in program.parameters if p.trainable}
    assert {entry["gradient"] for entry in manifest["exchange"]} == set(shapes)
    for entry in manifest["exchange"]:
        assert shapes[entry["gradient"]] == list(program.find(entry["parameter"]).shape)
    assert [entry["name"] for entry in manifest["gradients"]["fetches"]] == [loss.name]
    assert manifest["gradients"]["learning_rate"] == [] and len(manifest["apply"]["learning_rate"]) == 1


def test_gradients_averaged_over_two_workers_are_those_of_the_whole_batch():
    x = static.data("x", ["N", 3])
    loss = paddle.mean(paddle.square(static.nn.fc(x, 1) - 1.0))
    paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    first, second, manifest = paddle.to_split_training_step(loss.block.program, [loss])
    gradients, apply = Runner(first, manifest["gradients"]), Runner(second, manifest["apply"])
    state = {t.name: onnx.numpy_helper.to_array(t) for model in (first, second) for t in model.graph.initializer}
    for _ in range(3):
        workers = [gradients({"x": part}, state) for part in (IMAGES[:4], IMAGES[4:])]
        apply({e["gradient"]: (workers[0][e["gradient"]] + workers[1][e["gradient"]]) / 2 for e in manifest["exchange"]}, state)
        executor.run(feed={"x": IMAGES})
    weight = loss.block.program.find("fc_0.w_0").get_value()
    np.testing.assert_allclose(state["fc_0.w_0"], weight, rtol=1e-5)


def test_a_program_without_optimizer_is_refused():
    loss = paddle.mean(static.nn.fc(static.data("x", ["N", 3]), 1))
    with pytest.raises(ArgumentError, match="minimize"):
        paddle.to_split_training_step(loss.block.program, [loss])

"""Exports in the forms of a provider: other operators, the same names, the same training."""

from collections import Counter
from functools import partial

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.providers.registry import PROVIDERS
from onnxgrad.errors import ArgumentError

DRAW = np.random.default_rng(0)
FEED = {"image": DRAW.normal(size=(8, 8, 4, 4)).astype(np.float32), "label": DRAW.integers(0, 5, 8)}


@pytest.fixture
def trained():
    """Loss and gradients of a program with what the lowerings rewrite; its values are set."""
    with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
        image, label = static.data("image", [8, 8, 4, 4]), static.data("label", [8], "int64")
        h = static.nn.batch_norm(static.nn.conv2d(image, 32, 3, padding=1), act="relu")
        loss = F.cross_entropy(static.nn.fc(paddle.flatten(h, 1), 5), label)
        _, pairs = paddle.optimizer.Momentum(0.05, 0.9).minimize(loss)
        static.Executor().run(static.default_startup_program())
        yield loss, [g for _, g in pairs]


def names(model):
    return [[v.name for v in entries] for entries in (model.graph.input, model.graph.output)]


def kinds(model):
    return Counter(node.op_type for node in model.graph.node)


REWRITTEN = {"cpu": ("Conv", "SoftmaxCrossEntropyLoss"), "cuda": ("BatchNormalization",)}


def check(plain, lowered, provider):
    onnx.checker.check_model(lowered, full_check=True)
    assert {node.domain for node in lowered.graph.node} == {""}
    assert names(lowered) == names(plain)
    assert any(kinds(lowered)[kind] < kinds(plain)[kind] for kind in REWRITTEN[provider])


@pytest.mark.parametrize("provider", REWRITTEN)
def test_a_training_step_trains_the_same(trained, provider):
    loss, _ = trained
    found, models = [], []
    for lowering in (None, provider):
        model, manifest = paddle.to_training_step(loss.block.program, [loss], lowering=lowering)
        models.append(model)
        session, state, losses = onnxruntime.InferenceSession(model.SerializeToString()), {}, []
        for _ in range(5):
            values = session.run(None, {**FEED, **state})
            results = dict(zip([output.name for output in session.get_outputs()], values, strict=True))
            state = {entry["input"]: results[entry["output"]] for entry in manifest["state"]}
            losses.append(results[manifest["fetches"][0]["name"]])
        found.append(losses)
    check(*models, provider)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)
    assert found[0][4] < found[0][0]


def test_files_of_a_step(trained, tmp_path):
    loss, _ = trained
    plain = paddle.save_training_step(loss.block.program, tmp_path / "plain", [loss])
    lowered = paddle.save_training_step(loss.block.program, tmp_path / "lowered", [loss], lowering="cpu")
    check(onnx.load(tmp_path / "plain.onnx"), onnx.load(tmp_path / "lowered.onnx"), "cpu")
    assert (tmp_path / "plain.bin").read_bytes() == (tmp_path / "lowered.bin").read_bytes()
    plain, lowered = ({k: v for k, v in m.items() if k not in ("model", "values")} for m in (plain, lowered))
    assert without_memory(plain) == without_memory(lowered)


def without_memory(manifest):
    """The forms of a provider take other memory, and nothing else that a manifest says differs"""
    parts = {k: without_memory(v) if isinstance(v, dict) else v for k, v in manifest.items()}
    return {k: v for k, v in parts.items() if k != "memory"}


@pytest.mark.parametrize("provider", REWRITTEN)
def test_two_models_of_a_step(trained, provider, tmp_path):
    loss, _ = trained
    plain = paddle.to_split_training_step(loss.block.program, [loss], batch_norm="local")
    lowered = paddle.to_split_training_step(loss.block.program, [loss], lowering=provider, batch_norm="local")
    check(plain[0], lowered[0], provider)
    assert names(plain[1]) == names(lowered[1]) and without_memory(plain[2]) == without_memory(lowered[2])
    values = [onnxruntime.InferenceSession(m.SerializeToString()).run(None, FEED) for m in (plain[0], lowered[0])]
    for a, b in zip(*values, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)
    paddle.save_split_training_step(loss.block.program, tmp_path / "step", [loss], lowering=provider, batch_norm="local")
    assert kinds(onnx.load(tmp_path / "step_gradients.onnx")) == kinds(lowered[0])


@pytest.mark.parametrize("provider", REWRITTEN)
def test_gradients(trained, provider, tmp_path):
    loss, gradients = trained
    plain = paddle.to_onnx(loss.block.program, [loss, *gradients])
    paddle.save_onnx(loss.block.program, tmp_path / "m.onnx", [loss, *gradients], lowering=provider)
    lowered = onnx.load(tmp_path / "m.onnx")
    check(plain, lowered, provider)
    values = [onnxruntime.InferenceSession(m.SerializeToString()).run(None, FEED) for m in (plain, lowered)]
    for a, b in zip(*values, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)
    roles = Counter(entry.value for node in lowered.graph.node for entry in node.metadata_props if entry.key == "onnxgrad.role")
    assert roles["backward"] > 10


def test_the_program_stays_as_it_was(trained):
    loss, _ = trained
    before = str(loss.block.program)
    first = paddle.to_training_step(loss.block.program, [loss])[0].SerializeToString(deterministic=True)
    paddle.to_training_step(loss.block.program, [loss], lowering="cpu")
    assert str(loss.block.program) == before
    assert paddle.to_training_step(loss.block.program, [loss])[0].SerializeToString(deterministic=True) == first


@pytest.mark.parametrize("name", ["CPU", "tensorrt", "", 1])
def test_a_lowering_that_there_is_not(trained, name):
    loss, _ = trained
    program = loss.block.program
    split = partial(paddle.to_split_training_step, batch_norm="local")
    for write in (paddle.to_training_step, split, paddle.to_onnx):
        said = f"{', '.join(map(repr, sorted(PROVIDERS)))} or None, not "
        with pytest.raises(ArgumentError, match=said):
            write(program, [loss], lowering=name)


def test_a_program_in_an_old_opset_is_refused():
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13]> f (float[2] x) => (float[2] y) { y = Tanh(x) }')
    program = paddle.from_onnx(model)
    with pytest.raises(ArgumentError, match="opset 13"):
        paddle.to_onnx(program, lowering="cpu")
    assert program.opset_version() == 13

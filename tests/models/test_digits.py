"""The main job: its model is what its script writes, and it learns."""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.training import load_checkpoint, save_checkpoint

FOLDER = Path(__file__).parents[2] / "models" / "digits"


def script(name):
    specification = importlib.util.spec_from_file_location(f"digits_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    import sys

    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def train_script():
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    return script("train")


@pytest.fixture
def job(train_script):
    return train_script.Job(FOLDER / "digits.onnx", paddle.optimizer.lr.CosineAnnealingDecay(3e-3, 100))


def test_committed_model_is_current():
    written = paddle.to_onnx(script("write_model").build())
    committed = onnx.load(FOLDER / "digits.onnx")
    assert [(n.op_type, list(n.input), list(n.output)) for n in written.graph.node] == [
        (n.op_type, list(n.input), list(n.output)) for n in committed.graph.node
    ]
    for new, old in zip(written.graph.initializer, committed.graph.initializer, strict=True):
        assert new.name == old.name
        np.testing.assert_allclose(onnx.numpy_helper.to_array(new), onnx.numpy_helper.to_array(old), rtol=1e-5, atol=1e-6)


def test_two_steps_lower_the_loss(job, train_script):
    digits = train_script.Digits.load()
    batch = slice(0, 64)
    losses = [job.step(digits.train_images[batch], digits.train_labels[batch])[0] for _ in range(3)]
    assert losses[2] < losses[0]


def test_split_is_stratified(train_script):
    digits = train_script.Digits.load()
    assert (len(digits.train_labels), len(digits.test_labels)) == (1437, 360)
    shares = np.bincount(digits.test_labels) / np.bincount(np.concatenate([digits.train_labels, digits.test_labels]))
    assert np.abs(shares - 0.2).max() < 0.01


def test_checkpoint_restores_everything(job, train_script, tmp_path):
    digits = train_script.Digits.load()
    images, labels = digits.train_images[:32], digits.train_labels[:32]
    job.step(images, labels)
    save_checkpoint(job.program, tmp_path / "c.safetensors")
    after = job.step(images, labels)
    load_checkpoint(job.program, tmp_path / "c.safetensors")
    assert job.step(images, labels) == after


def test_checkpoint_of_another_program_is_refused(job, tmp_path):
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 2])
        static.nn.fc(x, 2)
        static.Executor().run(static.default_startup_program())
        save_checkpoint(x.block.program, tmp_path / "other.safetensors")
    before = {name: job.program.scope.get(name) for name in job.program.scope.local_var_names()}
    with pytest.raises(paddle.errors.UnknownName, match="another program"):
        load_checkpoint(job.program, tmp_path / "other.safetensors")
    assert {name: job.program.scope.get(name) for name in job.program.scope.local_var_names()} == before


def test_damaged_checkpoint_is_refused(job, tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(paddle.errors.ModelError, match=r"bad\.safetensors"):
        load_checkpoint(job.program, tmp_path / "bad.safetensors")

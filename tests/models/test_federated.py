"""Federated training of the digits: a participant in Node.js, and Flower's own runtime with five nodes."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ExecutionError, TrainingError
from onnxgrad.federated import ProcessWorker, Worker, private_gradients, save_step
from tests.models.test_other_runtimes import WEB, install_packages

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "models" / "federated"


@pytest.fixture(scope="module")
def node():
    program = shutil.which("node")
    if program is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed: no participant was tried in it")
    with (WEB / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be installing them
        install_packages()
    return program


def digits(folder, private=False, dropout=False):
    """The files of a step of the digits' model"""
    program = paddle.from_onnx(ROOT / "models" / "digits" / "digits.onnx")
    if dropout:
        program.train("frozen")
    with static.program_guard(program):
        label = static.data("label", ["batch"], "int64")
        losses = paddle.reshape(F.cross_entropy(program.outputs[0], label, reduction="none"), [-1])
        loss = paddle.mean(losses)
        if private:
            pairs = private_gradients(losses, clip_norm=1.0, noise_multiplier=0.8)
            paddle.optimizer.SGD(0.1).apply_gradients(pairs)
        else:
            paddle.optimizer.AdamW(1e-2).minimize(loss)
    save_step(program, folder / "step", [loss])
    return folder / "step.json"


def data(count=24):
    rng = np.random.default_rng(0)
    return {"image": rng.random((count, 1, 8, 8), np.float32), "label": rng.integers(0, 10, count)}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "count"), [("plain", 24), ("private", 24), ("dropout", 1)])
def test_node_takes_part_with_the_same_steps(tmp_path, node, kind, count):
    """One batch an epoch, so that its order does not matter; masks, which it would change, of one example. Seeds give the same
    masks and noise here and there."""
    path = digits(tmp_path, kind == "private", kind == "dropout")
    there, here = ProcessWorker([node, WEB / "federated_worker.js", tmp_path], path, folder=WEB), Worker(path)
    start, found = here.get(), []
    for worker in (there, here):
        worker.set(start)
        found.append(worker.fit(data(count), epochs=3, batch_size=24, seed=5, proximal=0.5, learning_rate=5e-3, noise_seed=9))
    assert found[0]["examples"] == count and found[0]["loss"] == pytest.approx(found[1]["loss"], rel=1e-4)
    moved = max(np.abs(a - b).max() for a, b in zip(start, here.get(), strict=True))
    for name, a, b in zip(here.names, there.get(), here.get(), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-2 * moved, rtol=0, err_msg=name)


@pytest.mark.exhaustive
def test_errors_of_node_come_back(tmp_path, node):
    path = digits(tmp_path)
    worker = ProcessWorker([node, WEB / "federated_worker.js", tmp_path], path, folder=WEB)
    before = worker.get()
    with pytest.raises(TrainingError, match="poisson"):
        worker.fit(data(), sampling="poisson")
    with pytest.raises(ExecutionError, match="without an answer"):
        ProcessWorker([node, "-e", "0"], path).fit(data())
    with pytest.raises(ExecutionError, match="could not be run"):
        ProcessWorker(["no-such-program"], path).fit(data())
    half = """console.log('{"loss": 1, "arrays": [{"name": "w", "dtype": "float32", "shape": [9], "bytes": 36}]}')"""
    with pytest.raises(ExecutionError, match="without an answer"):
        ProcessWorker([node, "-e", half], path).fit(data())
    with pytest.raises(ExecutionError, match=r"has not answered within 0\.5 seconds"):
        ProcessWorker([node, "-e", "setTimeout(() => 0, 60000)"], path, timeout=0.5).fit(data())
    for a, b in zip(before, worker.get(), strict=True):
        np.testing.assert_array_equal(a, b)


def run_example(folder, *options):
    """The rows of the first run that models/federated writes"""
    for package in ("flwr", "sklearn", "matplotlib", "tqdm"):
        pytest.importorskip(package, reason=f"{package} is not installed: Flower's runtime was not tried")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, EXAMPLE / "run.py", "--out", folder, "--epochs", 2, *options]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=environment, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "accuracy.png").stat().st_size > 10_000
    (history,) = folder.glob("history_*.json")
    return json.loads(history.read_text())


@pytest.mark.exhaustive
def test_five_nodes_of_flower_learn_the_digits(tmp_path):
    rows = run_example(tmp_path, "--rounds", 2)
    assert [row["round"] for row in rows] == [0, 1, 2]
    assert rows[0]["accuracy"] < 0.2 and rows[2]["accuracy"] > 0.6 and rows[2]["train_loss"] < rows[1]["train_loss"]


@pytest.mark.exhaustive
def test_a_node_in_javascript_takes_part_in_secure_aggregation(tmp_path, node):
    rows = run_example(tmp_path, "--rounds", 1, "--secure", "--node")
    assert rows[1]["accuracy"] > 0.4

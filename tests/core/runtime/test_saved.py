"""Executor(cache=FOLDER): optimised graphs are kept, found again, and run as they did."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ExecutionError
from tests.peak_memory import PEAK

ROOT = Path(__file__).parents[3]
X = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)


def losses(folder, width=6):
    """Four steps of a program built anew, with a fresh Executor"""
    main, startup = static.Program(), static.Program()
    startup.random_seed = 3
    with paddle.state.fresh_names(), static.program_guard(main, startup), static.scope_guard(static.Scope()):
        h = static.data("x", ["batch", 6])
        for _ in range(6):
            h = F.gelu(static.nn.fc(h, width))
        loss = paddle.mean(h * h)
        paddle.optimizer.Adam(0.05).minimize(loss)
        static.Executor().run(startup)
        executor = static.Executor(cache=folder)
        return [executor.run(main, {"x": X}, [loss])[0].tobytes() for _ in range(4)]


@pytest.fixture
def opened(monkeypatch):
    """What sessions are opened from: paths or messages."""
    found, real = [], onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda source, *a, **k: found.append(source) or real(source, *a, **k))
    return found


def test_the_second_start_reads_the_file_and_trains_the_same(tmp_path, opened):
    first = losses(tmp_path / "graphs")
    (path,) = (tmp_path / "graphs").iterdir()
    opened.clear()
    assert losses(tmp_path / "graphs") == first
    assert opened[-1] == str(path)
    assert list((tmp_path / "graphs").iterdir()) == [path]


def test_another_program_has_another_file(tmp_path):
    losses(tmp_path)
    losses(tmp_path, width=5)
    assert len(list(tmp_path.iterdir())) == 2


def test_another_onnxruntime_has_another_file(tmp_path, monkeypatch):
    losses(tmp_path)
    monkeypatch.setattr(onnxruntime, "__version__", "0.1")
    losses(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_file_is_written_anew(tmp_path, opened):
    first = losses(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert losses(tmp_path) == first
    assert path.read_bytes() == whole


@pytest.mark.process
def test_another_process_finds_the_file(tmp_path):
    first = losses(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    code = "import sys; from tests.core.runtime.test_saved import losses; print(b''.join(losses(sys.argv[1])).hex())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "5"},
    )
    assert done.stdout.strip() == b"".join(first).hex()
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_refused_graph_leaves_nothing_behind(tmp_path):
    with static.program_guard(static.Program()):
        x = static.data("x", [2], "complex64")
        with pytest.raises(ExecutionError):
            static.Executor(cache=tmp_path).run(feed={"x": np.zeros(2, x.dtype.numpy)}, fetch_list=[paddle.assign(x)])
    assert list(tmp_path.iterdir()) == []


MEMORY = """
import sys
import numpy as np
import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static

h = static.data("x", [4096, 256])
for _ in range(16):
    h = F.gelu(paddle.tanh(static.nn.fc(h, 256)))
loss = paddle.mean(h * h)
paddle.optimizer.SGD(0.1).minimize(loss, checkpoints="auto")
static.Executor().run(static.default_startup_program())
executor = static.Executor(threads=1, cache=sys.argv[1])
before = peak()
for _ in range(2):
    executor.run(feed={"x": np.ones((4096, 256), np.float32)}, fetch_list=[loss])
print(peak() - before)
"""


@pytest.mark.process
@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_saved_graph_holds_no_more_memory(tmp_path):
    """Written in the order in which it ran, a file would run in another, and hold three times as much."""
    peaks = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PEAK + MEMORY, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        peaks.append(int(done.stdout))
    assert len(list(tmp_path.iterdir())) == 1
    assert peaks[1] < 1.15 * peaks[0]

"""Denormal numbers are zero in a training step and nowhere else."""

import subprocess
import sys

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.runtime.denormals import can_flush

SMALL = np.float32(1e-38)
DENORMAL = float(SMALL * np.float32(1e-3))

pytestmark = pytest.mark.skipif(not can_flush(), reason="the mode of a thread is changed on x86-64 with glibc only")


def gradient_of_a_product():
    x = static.data("x", [1])
    x.stop_gradient = False
    y = x * 1e-3
    (gradient,) = static.gradients([y], [x], [static.data("seed", [1])])
    return y, gradient


@pytest.mark.parametrize("threads", [1, 2])
def test_a_forward_pass_keeps_them_a_backward_pass_does_not(threads):
    assert DENORMAL > 0
    y, gradient = gradient_of_a_product()
    feed = {"x": np.full(1, SMALL), "seed": np.full(1, SMALL)}
    executor = static.Executor(threads=threads)
    assert executor.run(feed=feed, fetch_list=[gradient])[0].tolist() == [0.0]
    assert executor.run(feed=feed, fetch_list=[y])[0].tolist() == [DENORMAL]
    assert executor.run(feed={**feed, "seed": np.ones(1, np.float32)}, fetch_list=[gradient])[0] == np.float32(1e-3)
    assert float(SMALL * np.float32(1e-3)) == DENORMAL


PROCESS = """
import numpy as np
from tests.core.runtime.test_denormals import DENORMAL, SMALL, gradient_of_a_product
from onnxgrad import static
_, gradient = gradient_of_a_product()
static.Executor(threads=1).run(feed={"x": np.ones(1, "f4"), "seed": np.ones(1, "f4")}, fetch_list=[gradient])
assert float(SMALL * np.float32(1e-3)) == DENORMAL > 0
"""


@pytest.mark.process
def test_the_first_session_of_a_process_leaves_its_thread_as_it_was():
    subprocess.run([sys.executable, "-c", PROCESS], check=True)


def test_a_failed_run_puts_the_mode_back():
    y = static.data("x", [None]) + paddle.to_tensor(np.ones(3, np.float32))
    loss = paddle.mean(y * static.nn.fc(static.data("z", [1, 1]), 1))
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor(threads=1)
    executor.run(static.default_startup_program())
    with pytest.raises(paddle.errors.ExecutionError):
        executor.run(feed={"x": np.ones(2, np.float32), "z": np.ones((1, 1), np.float32)}, fetch_list=[loss])
    assert float(SMALL * np.float32(1e-3)) == DENORMAL

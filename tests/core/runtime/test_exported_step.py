"""A step that was written, run by onnxruntime and its manifest alone."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.runtime.exported_step import WrittenStep
from onnxgrad.errors import ArgumentTypeError, MissingFile, ModelError

FEED = {"x": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)}


@pytest.fixture
def net():
    """(program, loss, the losses of three steps) from the state that the program has now."""
    loss = paddle.mean(paddle.square(static.nn.fc(static.data("x", ["N", 3]), 2) - 1.0))
    paddle.optimizer.Adam(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    program = loss.block.program
    scope = program.active_scope().copy()
    return program, loss, [executor.run(program, FEED, [loss], scope=scope)[0] for _ in range(3)]


def test_files_and_a_message_give_the_steps_of_the_executor(net, tmp_path):
    program, loss, expected = net
    paddle.save_training_step(program, tmp_path / "step", [loss])
    for source in (tmp_path / "step.json", paddle.to_training_step(program, [loss])):
        step = WrittenStep(source, static.CPUPlace(), 1)
        found = [step.run(FEED)[0] for _ in range(3)]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_is_no_written_step_is_refused_by_name(net, tmp_path):
    program, loss, _ = net
    with pytest.raises(MissingFile, match=r"nothing\.json"):
        WrittenStep(tmp_path / "nothing", static.CPUPlace(), 1)
    with pytest.raises(ArgumentTypeError, match="not Program"):
        WrittenStep(program, static.CPUPlace(), 1)
    paddle.save_split_training_step(program, tmp_path / "two", [loss])
    with pytest.raises(ModelError, match="two models"):
        WrittenStep(tmp_path / "two.json", static.CPUPlace(), 1)


@pytest.mark.parametrize("part", ["feeds", "fetches", "state", "constants"])
def test_a_name_that_stands_twice_is_refused(net, tmp_path, part):
    """onnxruntime gives one result for it, so that those behind would go to others."""
    program, loss, _ = net
    model, manifest = paddle.to_training_step(program, [loss])
    manifest = {**manifest, part: [*manifest[part], manifest[part][0]]}
    with pytest.raises(ModelError, match="twice"):
        WrittenStep((model, manifest), static.CPUPlace(), 1)

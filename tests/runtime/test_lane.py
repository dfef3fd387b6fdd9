"""A training step writes over the state of two steps ago, but never over a value that somebody still holds."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static

FEED = {"x": np.ones((1, 3), np.float32)}


@pytest.fixture
def line():
    """Loss = sum(w) with learning rate 1, so that every step takes 1 off each of the three elements of w."""
    x = static.data("x", [1, 3])
    loss = paddle.sum(static.nn.fc(x, 1, weight_attr=paddle.ParamAttr("w", paddle.nn.initializer.Constant(10.0)), bias_attr=False))
    paddle.optimizer.SGD(1.0).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return lambda scope=None: executor.run(feed=FEED, fetch_list=[loss], scope=scope)[0]


def weights(value):
    return np.array(value.numpy()).ravel().tolist()


def test_buffers_are_used_again(line):
    scope = static.global_scope()
    found = []
    for _ in range(7):
        line()
        found.append(scope.values["w"].data_ptr())
    assert len(set(found)) == 2
    assert weights(scope.values["w"]) == [3.0] * 3


def test_held_values_stay(line):
    scope = static.global_scope()
    held = []
    for _ in range(6):
        line()
        held.append(scope.values["w"])
    assert [weights(value) for value in held] == [[10.0 - n] * 3 for n in range(1, 7)]


def test_going_back_to_a_held_value(line):
    scope = static.global_scope()
    line()
    held = scope.values["w"]
    for _ in range(3):
        line()
    scope.values["w"] = held
    losses = [float(line()) for _ in range(4)]
    assert losses == [27.0, 24.0, 21.0, 18.0]
    assert weights(held) == [9.0] * 3


def test_two_scopes_take_turns(line):
    first, second = static.global_scope(), static.Scope()
    second.set("w", np.full((3, 1), 20.0, np.float32))
    for name, value in first.values.items():
        if name != "w":
            second.values[name] = value
    for _ in range(5):
        line(first)
        line(second)
    assert weights(first.values["w"]) == [5.0] * 3
    assert weights(second.values["w"]) == [15.0] * 3


def test_setting_a_value_between_steps(line):
    line()
    line()
    static.global_scope().set("w", np.zeros((3, 1), np.float32))
    assert [float(line()) for _ in range(3)] == [0.0, -3.0, -6.0]

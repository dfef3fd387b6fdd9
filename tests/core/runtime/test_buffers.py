"""A training step writes over the state of two steps ago, but never over a value that somebody still holds."""

from types import SimpleNamespace

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.runtime.binding import DoubleBinding
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.values import value_of


@pytest.fixture(params=[3, 5000])
def line(request):
    """Loss = 3 mean(w), where every step takes 1 off each element of w. Large state has its room before the first step."""
    size = request.param
    x = static.data("x", [1, size])
    loss = paddle.sum(static.nn.fc(x, 1, weight_attr=paddle.ParamAttr("w", paddle.nn.initializer.Constant(10.0)), bias_attr=False))
    paddle.optimizer.SGD(1.0).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feed = {"x": np.ones((1, size), np.float32)}
    return lambda scope=None: executor.run(feed=feed, fetch_list=[loss], scope=scope)[0] * 3 / size


def weights(value):
    """Three elements, and that the others are the same"""
    found = np.array(value.numpy()).ravel()
    assert (found == found[0]).all()
    return found[:3].tolist()


def test_buffers_are_used_again(line):
    scope = static.global_scope()
    found = []
    for _ in range(7):
        line()
        found.append(scope.values["w"].data_ptr())
    assert len(set(found)) == 2
    assert weights(scope.values["w"]) == [3.0] * 3


def test_the_first_values_are_written_over(line):
    scope = static.global_scope()
    first = scope.values["w"].data_ptr()
    found = []
    for _ in range(4):
        line()
        found.append(scope.values["w"].data_ptr())
    assert found[0] == found[2] != first
    assert found[1] == found[3] == first
    assert weights(scope.values["w"]) == [6.0] * 3


def test_state_is_not_copied_where_something_large_is_fetched_too(monkeypatch):
    """Of which onnxruntime allocates the memory, as its size is not known"""
    copied = []
    own = DoubleBinding._own
    monkeypatch.setattr(DoubleBinding, "_own", lambda self, value: (copied.append(value), own(self, value))[1])
    hidden = static.nn.fc(static.data("x", [None, 3]), 4)
    loss = paddle.mean(hidden)
    paddle.optimizer.Adam(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    copied.clear()
    for _ in range(2):
        assert executor.run(feed={"x": np.ones((5, 3), np.float32)}, fetch_list=[loss, hidden])[1].shape == (5, 4)
    assert not copied


def test_first_values_that_are_held_stay(line):
    scope = static.global_scope()
    held = scope.values["w"]
    for _ in range(5):
        line()
    assert weights(held) == [10.0] * 3
    assert weights(scope.values["w"]) == [5.0] * 3


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
    second.set("w", np.full_like(np.asarray(first.get("w")), 20.0))
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
    static.global_scope().set("w", np.zeros_like(np.asarray(static.global_scope().get("w"))))
    assert [float(line()) for _ in range(3)] == [0.0, -3.0, -6.0]


def test_parameters_that_begin_with_one_value_do_not_share_memory_later():
    """The startup program gives equal constants as one value, which both names replace, and neither may write over for the other"""
    x = static.data("x", ["N", 4])
    first, second = paddle.nn.Linear(4, 4), paddle.nn.Linear(4, 4)
    loss = paddle.mean(paddle.square(second(paddle.tanh(first(x))) - 1.0))
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    program = loss.block.program
    biases = [program.find(layer.bias.name) for layer in (first, second)]
    for _ in range(4):
        before = [np.array(v.get_value()) for v in biases]
        fetched = executor.run(feed={"x": np.ones((2, 4), np.float32)}, fetch_list=[v.grad_name for v in biases])
        for v, old, gradient in zip(biases, before, fetched, strict=True):
            np.testing.assert_allclose(v.get_value(), old - np.float32(0.1) * gradient, rtol=1e-5, atol=1e-7)


class _Older:
    """What a session of an older release says."""

    def __init__(self, names):
        self._names = names

    def io_binding(self):
        return SimpleNamespace(bind_ortvalue_input=lambda name, value: None)

    def get_inputs(self):
        return [SimpleNamespace(name=name) for name in self._names]


class _OfTwoDevices(_Older):
    """One that reads its first input on the host and its second on a GPU."""

    def get_input_memory_infos(self):
        return [SimpleNamespace(name="Cpu"), SimpleNamespace(name="Cuda")]


def test_what_onnxruntime_copies_when_it_is_bound_is_bound_for_each_run():
    place = SimpleNamespace(device="cuda")
    scope = static.Scope()
    buffers = {name: Buffer(value_of(np.zeros(2, np.float32))) for name in ("host", "device")}
    for name, buffer in buffers.items():
        scope.put(name, buffer)
    binding = DoubleBinding(_OfTwoDevices(["host", "device"]), ["device", "host"], [], [], [], place)
    assert binding.outdated(scope) == [0, 1]
    binding.read(0, buffers["device"])
    binding.read(1, buffers["host"])
    assert binding.outdated(scope) == [1]
    binding = DoubleBinding(_Older(["host", "device"]), ["device", "host"], [], [], [], place)
    binding.read(0, buffers["device"])
    binding.read(1, buffers["host"])
    assert binding.outdated(scope) == [0, 1]

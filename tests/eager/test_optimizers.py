"""Eager optimizer steps give what a static program gives."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.eager import evaluate
from onnxgrad.errors import ArgumentError

W = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
B = np.array([0.1, -0.1], np.float32)
X = np.array([[1.0, 2.0], [-1.0, 0.5], [0.3, 0.2]], np.float32)

MAKERS = {
    "sgd": lambda p: paddle.optimizer.SGD(0.1, parameters=p),
    "momentum": lambda p: paddle.optimizer.Momentum(0.1, 0.9, parameters=p, weight_decay=0.01),
    "adam": lambda p: paddle.optimizer.Adam(0.1, parameters=p, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)),
    "adamw": lambda p: paddle.optimizer.AdamW(0.1, parameters=p),
    "schedule": lambda p: paddle.optimizer.SGD(paddle.optimizer.lr.StepDecay(0.1, 2, 0.5), parameters=p),
}


def loss_of(x, w, b):
    y = paddle.tanh(paddle.matmul(x, w) + b)
    return paddle.mean(y * y)


def in_static_mode(maker, steps):
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [3, 2])
        w, b = (static.create_parameter(list(a.shape), "float32", name=n) for n, a in (("w", W), ("b", B)))
        optimizer = maker(None)
        optimizer.minimize(loss_of(x, w, b))
        executor = static.Executor()
        executor.run(static.default_startup_program())
        w.set_value(W)
        b.set_value(B)
        for _ in range(steps):
            executor.run(feed={"x": X}, fetch_list=[])
            advance(optimizer)
        return w.get_value(), b.get_value()


def advance(optimizer):
    schedule = optimizer._learning_rate
    if hasattr(schedule, "step"):
        schedule.step()


@pytest.mark.parametrize("name", MAKERS)
def test_same_as_static(name):
    w, b = (paddle.to_tensor(a, stop_gradient=False) for a in (W, B))
    w.name, b.name = "w", "b"
    optimizer = MAKERS[name]([w, b])
    x = paddle.to_tensor(X)
    for _ in range(5):
        loss_of(x, w, b).backward()
        optimizer.step()
        optimizer.clear_grad()
        advance(optimizer)
    for found, wanted in zip((w, b), in_static_mode(MAKERS[name], 5), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_steps_after_the_second_build_nothing():
    w, b = (paddle.to_tensor(a, stop_gradient=False) for a in (W, B))
    optimizer = paddle.optimizer.Adam(0.1, parameters=[w, b])
    counts = []
    for _ in range(5):
        loss_of(paddle.to_tensor(X), w, b).backward()
        optimizer.step()
        optimizer.clear_grad()
        counts.append((evaluate.counts["sessions"], evaluate.counts["backward"]))
    assert counts[1] == counts[2] == counts[3] == counts[4]


def test_a_value_set_between_steps_counts():
    w = paddle.to_tensor([1.0], stop_gradient=False)
    optimizer = paddle.optimizer.SGD(0.5, parameters=[w])
    for start in (1.0, 10.0):
        w.set_value(np.array([start], np.float32))
        (w * 2.0).backward()
        optimizer.step()
        optimizer.clear_grad()
        assert w.tolist() == [start - 1.0]


def test_state_survives_a_step_in_which_only_some_have_gradients():
    w, v = (paddle.to_tensor([1.0], stop_gradient=False) for _ in range(2))
    optimizer = paddle.optimizer.Momentum(0.1, 0.5, parameters=[w, v])
    for tensors in ((w, v), (w,), (w, v)):
        paddle.add_n([t * 1.0 for t in tensors]).backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
    np.testing.assert_allclose(w.numpy(), [1 - 0.1 * (1 + 1.5 + 1.75)], rtol=1e-6)
    np.testing.assert_allclose(v.numpy(), [1 - 0.1 * (1 + 1.5)], rtol=1e-6)


def test_minimize_after_backward_and_the_missing_parameters():
    w = paddle.to_tensor([1.0], stop_gradient=False)
    optimizer = paddle.optimizer.SGD(0.5, parameters=[w])
    loss = w * 2.0
    loss.backward()
    operators, pairs = optimizer.minimize(loss)
    assert operators == []
    assert pairs[0][0] is w
    assert w.tolist() == [0.0]
    with pytest.raises(ValueError, match="holds no eager tensors"):
        paddle.optimizer.SGD(0.5).step()


def test_a_float16_parameter_is_updated_in_float32():
    w = paddle.to_tensor(np.ones(2, np.float16), stop_gradient=False)
    adam = paddle.optimizer.Adam(2e-5, parameters=[w])
    for _ in range(100):
        (paddle.sum(paddle.cast(w, "float32")) * 1e-4).backward()
        adam.step()
        adam.clear_grad()
    np.testing.assert_array_equal(w.numpy(), np.float16(1.0 - 100 * 2e-5))


def momentum_of(name):
    w = paddle.create_parameter([2], "float32", attr=paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Constant(1.0)))
    return w, paddle.optimizer.Momentum(0.1, 0.9, parameters=[w])


def stepped(w, optimizer):
    (w * paddle.to_tensor([1.0, 2.0])).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
    return w.tolist()


def test_state_that_is_set_before_the_first_step_is_kept_copied_and_checked():
    """It did nothing: a resumed run began its moments from 0"""
    with paddle.utils.unique_name.guard():
        w, first = momentum_of("w")
        stepped(w, first)
        state = first.state_dict()
        wanted = stepped(w, first)
    given = {name: np.array(value) for name, value in state.items()}
    w, again = momentum_of("w")
    w.set_value(np.array([0.9, 0.8], np.float32))
    again.set_state_dict(given)
    np.testing.assert_array_equal(again.state_dict()["w_velocity_0"], given["w_velocity_0"])
    assert stepped(w, again) == wanted
    np.testing.assert_array_equal(given["w_velocity_0"], state["w_velocity_0"])
    w, other = momentum_of("w")
    other.set_state_dict({"w_velocity_0": np.zeros(3, np.float32)})
    with pytest.raises(ArgumentError, match=r"w_velocity_0 has shape \[2\], its state \[3\]"):
        stepped(w, other)


def test_state_of_other_parameters_is_refused():
    w, optimizer = momentum_of("v")
    optimizer.set_state_dict({"w_velocity_0": np.ones(2, np.float32)})
    with pytest.raises(ArgumentError, match="it has w_velocity_0, not v_velocity_0"):
        stepped(w, optimizer)

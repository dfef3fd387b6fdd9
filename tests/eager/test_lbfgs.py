"""LBFGS finds the minima that are known, and those that scipy finds."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.lbfgs import _cubic_minimum
from onnxgrad.training.optimizers import optimizer_names

RANDOM = np.random.RandomState(5)
X = RANDOM.randn(40, 4)
LABEL = (X @ [1.0, -2.0, 0.5, 0.0] + RANDOM.randn(40) > 0) * 1.0


def rosenbrock(w):
    return (100.0 * (w[1:] - w[:-1] ** 2) ** 2 + (1.0 - w[:-1]) ** 2).sum()


def logistic(w):
    scores = paddle.matmul(paddle.to_tensor(X), w)
    loss = paddle.nn.functional.binary_cross_entropy_with_logits(scores, paddle.to_tensor(LABEL))
    return loss + 0.01 * (w * w).sum()


def closure_of(optimizer, loss_of, *tensors):
    def closure():
        optimizer.clear_grad()
        loss = loss_of(*tensors)
        loss.backward()
        return loss

    return closure


def minimised(loss_of, start, steps=1, **options):
    w = paddle.to_tensor(np.array(start), stop_gradient=False)
    optimizer = paddle.optimizer.LBFGS(parameters=[w], **{"tolerance_change": 1e-14, **options})
    for _ in range(steps):
        optimizer.step(closure_of(optimizer, loss_of, w))
    return w, optimizer


@pytest.mark.parametrize("count", [2, 5])
def test_it_finds_the_minimum_of_rosenbrock(count):
    w, _ = minimised(rosenbrock, [-1.2, 1.0, -0.5, 0.8, 1.3][:count], max_iter=100, line_search_fn="strong_wolfe")
    np.testing.assert_allclose(w.numpy(), np.ones(count), atol=1e-5)


@pytest.mark.parametrize("ends", [(0.0, 2.0), (2.0, 0.0), (0.5, 0.7)])
def test_a_cubic_is_smallest_where_its_slope_is_zero(ends):
    a, b = ((t, t**3 - t, None, 3 * t * t - 1) for t in ends)
    assert _cubic_minimum(a, b, 0.0, 2.0) == pytest.approx(3**-0.5)
    assert _cubic_minimum(a, b, 0.6, 2.0) == 0.6
    a, b = ((t, t * t - t, None, 2 * t - 1) for t in ends)
    assert _cubic_minimum(a, b, 0.0, 2.0) == pytest.approx(0.5)
    a, b = ((t, 3 * t, None, 3.0) for t in ends)
    assert _cubic_minimum(a, b, 0.0, 1.0) == 0.5  # a line has no such place


def test_it_finds_what_scipy_finds():
    optimize = pytest.importorskip("scipy.optimize")

    def by_hand(w):
        z = X @ w
        loss = np.mean(np.logaddexp(0.0, z) - LABEL * z) + 0.01 * w @ w
        return loss, X.T @ (1.0 / (1.0 + np.exp(-z)) - LABEL) / len(X) + 0.02 * w

    wanted = optimize.minimize(by_hand, np.zeros(4), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 1e-16})
    w, optimizer = minimised(logistic, np.zeros(4), max_iter=50, line_search_fn="strong_wolfe")
    np.testing.assert_allclose(w.numpy(), wanted.x, atol=1e-6)
    assert optimizer.state_dict()["state"]["func_evals"] <= 2 * wanted.nfev


def test_without_a_line_search_several_parameters_are_fitted():
    w, b = (paddle.to_tensor(np.zeros(shape), stop_gradient=False) for shape in ([4], [1]))
    optimizer = paddle.optimizer.LBFGS(max_iter=100, tolerance_change=1e-14, parameters=[w, b])
    wanted = X @ [1.0, 2.0, 3.0, 4.0] + 0.5
    loss_of = lambda w, b: ((paddle.matmul(paddle.to_tensor(X), w) + b - paddle.to_tensor(wanted)) ** 2).mean()  # noqa: E731
    first = optimizer.step(closure_of(optimizer, loss_of, w, b))
    assert float(first) == pytest.approx(float(np.mean(wanted**2)))
    np.testing.assert_allclose(w.numpy(), [1.0, 2.0, 3.0, 4.0], atol=1e-6)
    np.testing.assert_allclose(b.numpy(), [0.5], atol=1e-6)


def test_steps_go_on_from_the_history():
    options = {"max_iter": 3, "history_size": 5, "line_search_fn": "strong_wolfe"}
    whole, _ = minimised(rosenbrock, [-1.2, 1.0], steps=4, **options)
    w, optimizer = minimised(rosenbrock, [-1.2, 1.0], steps=2, **options)
    other = paddle.optimizer.LBFGS(parameters=[w], **{"tolerance_change": 1e-14, **options})
    other.set_state_dict(optimizer.state_dict())
    for _ in range(2):
        other.step(closure_of(other, rosenbrock, w))
    np.testing.assert_array_equal(w.numpy(), whole.numpy())
    assert other.state_dict()["state"]["func_evals"] > optimizer.state_dict()["state"]["func_evals"]


def test_the_limits_hold():
    _, few = minimised(rosenbrock, [-1.2, 1.0], max_iter=4, max_eval=6)
    assert few.state_dict()["state"]["func_evals"] <= 6
    w, none = minimised(rosenbrock, [1.0, 1.0])
    assert none.state_dict()["state"]["func_evals"] == 1
    np.testing.assert_array_equal(w.numpy(), [1.0, 1.0])


def test_what_it_does_not_take_is_refused():
    w = paddle.to_tensor([1.0], stop_gradient=False)
    with pytest.raises(ValueError, match="strong_wolfe"):
        paddle.optimizer.LBFGS(line_search_fn="armijo", parameters=[w])
    with pytest.raises(ValueError, match="weight_decay"):
        paddle.optimizer.LBFGS(weight_decay=0.1, parameters=[w])
    with pytest.raises(ValueError, match="closure"):
        paddle.optimizer.LBFGS(parameters=[w]).step()
    with pytest.raises(TypeError):
        paddle.optimizer.LBFGS(parameters=w)


def test_a_program_has_no_update_of_it():
    x = static.data("x", [2, 2])
    loss = paddle.mean(static.nn.fc(x, 2))
    before = list(loss.block.ops)
    with pytest.raises(ArgumentError, match="LBFGS evaluates the loss many times in a step"):
        paddle.optimizer.LBFGS().minimize(loss)
    assert loss.block.ops == before
    assert "lbfgs" not in optimizer_names()

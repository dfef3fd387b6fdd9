"""Jacobians, Hessians and products against what numpy says."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad.autograd import hessian, jacobian, jvp, vjp
from onnxgrad.incubate.autograd import Hessian, Jacobian

A = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], np.float32)
X = np.array([0.2, -0.4, 0.7], np.float32)


def leaf(data):
    return paddle.to_tensor(data, stop_gradient=False)


def function(x):
    return paddle.tanh(paddle.matmul(paddle.to_tensor(A), x))


def slope(x):
    return (1 - np.tanh(A @ x) ** 2)[:, None] * A


def test_jacobian():
    x = leaf(X)
    found = jacobian(function(x), x)
    assert found.shape == [2, 3]
    np.testing.assert_allclose(found.numpy(), slope(X), rtol=1e-5)


def test_jacobian_of_several():
    x, y = leaf(X), leaf(X * 2)
    outputs = (x * y, paddle.sum(x))
    (by_x, by_y), (sum_by_x, sum_by_y) = jacobian(outputs, (x, y))
    np.testing.assert_allclose(by_x.numpy(), np.diag(X * 2))
    np.testing.assert_allclose(by_y.numpy(), np.diag(X))
    assert sum_by_x.tolist() == [1, 1, 1]
    assert sum_by_y.tolist() == [0, 0, 0]


def test_jacobian_of_a_batch():
    batch = np.stack([X, -X, X * 3])
    x = leaf(batch)
    found = jacobian(paddle.tanh(paddle.matmul(x, paddle.to_tensor(A), transpose_y=True)), x, batch_axis=0)
    np.testing.assert_allclose(found.numpy(), np.stack([slope(row) for row in batch]), rtol=1e-5, atol=1e-6)
    assert jacobian(paddle.sum(x, axis=1), x, batch_axis=0).shape == [3, 3]


def test_jacobian_of_wrong_ranks():
    x = leaf(np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match="wrong rank"):
        jacobian(x * x, x)
    with pytest.raises(ValueError, match="batch_axis"):
        jacobian(x * x, x, batch_axis=1)


def test_hessian():
    x = leaf(X)
    np.testing.assert_allclose(hessian(paddle.sum(x * x * x), x).numpy(), np.diag(6 * X), rtol=1e-5)
    y = leaf(X)
    ((xx, xy), (yx, yy)) = hessian(paddle.sum(x * x * y), (x, y))
    np.testing.assert_allclose(xy.numpy(), np.diag(2 * X), rtol=1e-5)
    np.testing.assert_allclose(yx.numpy(), xy.numpy().T)
    np.testing.assert_allclose(xx.numpy(), np.diag(2 * X), rtol=1e-5)
    assert not yy.numpy().any()
    with pytest.raises(ValueError, match="must be one number"):
        hessian(x * x, x)


def test_hessian_of_a_batch():
    x = leaf(np.stack([X, 2 * X]))
    found = hessian(paddle.sum(x * x * x, axis=1), x, batch_axis=0)
    np.testing.assert_allclose(found.numpy(), np.stack([np.diag(6 * X), np.diag(12 * X)]), rtol=1e-5)


def test_products():
    v, w = np.array([1.0, -2.0], np.float32), np.array([0.5, 1.0, 2.0], np.float32)
    outputs, pulled = vjp(function, paddle.to_tensor(X), paddle.to_tensor(v))
    np.testing.assert_allclose(outputs.numpy(), np.tanh(A @ X), rtol=1e-5)
    np.testing.assert_allclose(pulled.numpy(), v @ slope(X), rtol=1e-5)
    _, pushed = jvp(function, paddle.to_tensor(X), paddle.to_tensor(w))
    np.testing.assert_allclose(pushed.numpy(), slope(X) @ w, rtol=1e-5)


def test_products_of_several():
    x, y = paddle.to_tensor(X), paddle.to_tensor(X * 2)
    outputs, pulled = vjp(lambda a, b: (a * b, paddle.sum(a)), [x, y])
    assert len(outputs) == 2
    np.testing.assert_allclose(pulled[0].numpy(), X * 2 + 1, rtol=1e-6)
    np.testing.assert_allclose(pulled[1].numpy(), X, rtol=1e-6)
    _, pushed = jvp(lambda a, b: (a * b, paddle.sum(a)), [x, y])
    np.testing.assert_allclose(pushed[0].numpy(), X * 3, rtol=1e-6)
    assert pushed[1].item() == 3


def test_matrices():
    matrix = Jacobian(lambda a, b: function(a) * paddle.sum(b), [paddle.to_tensor(X), paddle.to_tensor([1.0, 2.0])])
    assert matrix.shape == [2, 5]
    np.testing.assert_allclose(matrix[:, :3].numpy(), slope(X) * 3, rtol=1e-5)
    matrix = Hessian(lambda a: paddle.sum(a * a * a), paddle.to_tensor(X))
    np.testing.assert_allclose(matrix[:].numpy(), np.diag(6 * X), rtol=1e-5)
    with pytest.raises(ValueError, match="one number"):
        Hessian(function, paddle.to_tensor(X))

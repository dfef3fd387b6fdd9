"""Factors, solvers and products of matrices, checked by putting the parts together again."""

import numpy as np
import paddle

rng = np.random.RandomState(56)
a = paddle.to_tensor(rng.randn(4, 4))
s = paddle.matmul(a, a, transpose_y=True) + 4 * paddle.eye(4, dtype="float64")
b = paddle.to_tensor(rng.randn(4, 2))


def close(x, y):
    return bool(paddle.allclose(x, y, atol=1e-8))


q, r = paddle.linalg.qr(a)
print(close(q @ r, a), q.shape, r.shape)
low = paddle.linalg.cholesky(s)
print(close(low @ low.T, s), close(paddle.linalg.cholesky_solve(b, low), paddle.linalg.solve(s, b)))
print(paddle.linalg.det(a).numpy().round(4), paddle.linalg.slogdet(s).numpy().round(4))
print(close(paddle.linalg.inv(a) @ a, paddle.eye(4, dtype="float64")))
print(close(paddle.linalg.matrix_power(a, 3), a @ a @ a))
print(
    paddle.linalg.norm(a).numpy().round(4),
    paddle.linalg.norm(a, p=1, axis=0).numpy().round(4),
    paddle.norm(a, p=float("inf")).numpy().round(4),
)
print(close(paddle.linalg.triangular_solve(low, b, upper=False), paddle.linalg.solve(low, b)))
print(paddle.linalg.multi_dot([a, a, b]).shape)
print(paddle.einsum("ij,jk->ik", a, b).shape, close(paddle.einsum("ii", a), paddle.trace(a)), paddle.kron(b, b).shape)
print(
    paddle.cross(paddle.to_tensor([1.0, 0, 0]), paddle.to_tensor([0, 1.0, 0])).numpy(),
    paddle.dot(paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([3.0, 4.0])).item(),
)
print(
    paddle.bmm(paddle.ones([2, 3, 4]), paddle.ones([2, 4, 5])).shape,
    paddle.addmm(paddle.zeros([2, 2]), paddle.ones([2, 3]), paddle.ones([3, 2]), alpha=2.0).numpy(),
)
p = paddle.to_tensor(s.numpy(), stop_gradient=False)
paddle.linalg.slogdet(p)[1].backward()
print(close(p.grad, paddle.linalg.inv(s).T))
print(
    paddle.histogram(paddle.to_tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3).numpy(),
    paddle.bincount(paddle.to_tensor([1, 2, 1])).numpy(),
)
print(paddle.linalg.cov(b.T).numpy().shape, paddle.linalg.corrcoef(b.T)[0, 0].item())

"""Singular values and eigenvalues: principal components of points, a least-squares fit, a pseudo-inverse."""

import numpy as np
import paddle

rng = np.random.RandomState(56)
points = paddle.to_tensor(rng.randn(20, 3) * np.array([3.0, 1.0, 0.2]))
centred = points - points.mean(axis=0)
u, s, vh = paddle.linalg.svd(centred, full_matrices=False)
print(s.numpy().round(4), u.shape, vh.shape)
share = s**2 / (s**2).sum()
print("explained", share.numpy().round(4))
w, v = paddle.linalg.eigh(centred.T @ centred)
print(np.allclose(np.sort(w.numpy())[::-1], (s**2).numpy()), v.shape)
print(paddle.linalg.matrix_rank(centred).item(), paddle.linalg.cond(centred).numpy().round(3))
solution = paddle.linalg.lstsq(centred, paddle.ones([20, 1], dtype="float64"), driver="gelsd")[0]
inverse = paddle.linalg.pinv(centred)
print(np.allclose((inverse @ paddle.ones([20, 1], dtype="float64")).numpy(), solution.numpy()), inverse.shape)
reduced = centred @ vh[:2].T
print(reduced.shape, float(((reduced @ vh[:2] - centred) ** 2).sum()) - float(s[2] ** 2) < 1e-9)

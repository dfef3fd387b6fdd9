"""Embedding points by gradient descent on the points themselves, with momentum by hand."""

import numpy as np

import paddle

r = np.random.RandomState(5)
X = paddle.to_tensor(r.randn(8, 5).astype("float32"))
Y = paddle.to_tensor(r.randn(8, 2).astype("float32") * 0.1, stop_gradient=False)


def sq(a):
    return (a.unsqueeze(1) - a.unsqueeze(0)).pow(2).sum(-1)


P = paddle.exp(-sq(X)) * (1 - paddle.eye(8))
P = P / P.sum()
P = paddle.maximum((P + P.T) / 2, paddle.to_tensor(1e-12))
v = paddle.zeros_like(Y)
for i in range(5):
    q = 1 / (1 + sq(Y)) * (1 - paddle.eye(8))
    Q = (q / q.sum()).clip(min=1e-12)
    kl = (P * (P / Q).log()).sum()
    kl.backward()
    with paddle.no_grad():
        v = 0.5 * v - 1.0 * Y.grad
        Y.set_value(Y + v)
    Y.clear_grad()
    print(i, "%.5f" % kl)
print(Y.round(decimals=3)[:2], Y.is_leaf, Y.grad)

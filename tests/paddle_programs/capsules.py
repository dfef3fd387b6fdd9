"""Capsules: routing by agreement and the margin loss."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(7)


def squash(s, axis=-1):
    n2 = (s**2).sum(axis, keepdim=True)
    return n2 / (1 + n2) * s / (n2.sqrt() + 1e-8)


W = paddle.create_parameter(
    [1, 6, 3, 4, 2], "float32", default_initializer=nn.initializer.Assign(r.randn(1, 6, 3, 4, 2).astype("float32") * 0.3)
)
u = paddle.to_tensor(r.randn(2, 6, 1, 2, 1).astype("float32"))
uh = paddle.matmul(W.tile([2, 1, 1, 1, 1]), u.tile([1, 1, 3, 1, 1])).squeeze(-1)
b = paddle.zeros([2, 6, 3, 1])
for it in range(3):
    c = F.softmax(b, axis=2)
    v = squash((c * uh).sum(1, keepdim=True))
    if it < 2:
        b = b + (uh.detach() * v.detach()).sum(-1, keepdim=True)
length = paddle.norm(v.squeeze(1), axis=-1)
T = F.one_hot(paddle.to_tensor([0, 2]), 3)
loss = (T * F.relu(0.9 - length) ** 2 + 0.5 * (1 - T) * F.relu(length - 0.1) ** 2).sum(1).mean()
loss.backward()
print(loss, length, c[0, 0].flatten())
print(W.grad.abs().mean(), W.grad.shape, v.shape)

"""Quantisation by a code book with the straight-through estimator and a buffer of counts."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(6)


class VQ(nn.Layer):
    def __init__(self, n=5, d=3):
        super().__init__()
        self.codebook = self.create_parameter([n, d], default_initializer=nn.initializer.Assign(r.randn(n, d).astype("float32")))
        self.register_buffer("usage", paddle.zeros([n]))

    def forward(self, z):
        d = (z**2).sum(1, keepdim=True) - 2 * z @ self.codebook.T + (self.codebook**2).sum(1)
        idx = d.argmin(axis=1)
        q = F.embedding(idx, self.codebook)
        self.usage += F.one_hot(idx, 5).sum(0).detach()
        loss = F.mse_loss(q.detach(), z) * 0.25 + F.mse_loss(q, z.detach())
        return z + (q - z).detach(), loss, idx


vq = VQ()
z = paddle.to_tensor(r.randn(7, 3).astype("float32"), stop_gradient=False)
q, loss, idx = vq(z)
(q.sum() + loss).backward()
print(q[0], loss, idx)
print(z.grad[0], vq.codebook.grad, vq.usage)
print(list(vq.state_dict()), vq)
print(vq.codebook)
probs = vq.usage / vq.usage.sum()
print(paddle.exp(-(probs * paddle.log(probs + 1e-10)).sum()))

"""Affine couplings with their log-determinants; densities trained by maximum likelihood; exact inverse."""

import math

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(95)


class Coupling(nn.Layer):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))
        for p in self.net.parameters():
            p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))

    def forward(self, x):
        a, b = paddle.split(x, 2, axis=1)
        if self.flip:
            a, b = b, a
        s, t = paddle.chunk(self.net(a), 2, axis=1)
        s = paddle.tanh(s)
        b = b * paddle.exp(s) + t
        return paddle.concat([b, a] if self.flip else [a, b], axis=1), s.sum(axis=1)

    def inverse(self, y):
        a, b = paddle.split(y, 2, axis=1)
        if self.flip:
            a, b = b, a
        s, t = paddle.chunk(self.net(a), 2, axis=1)
        b = (b - t) * paddle.exp(-paddle.tanh(s))
        return paddle.concat([b, a] if self.flip else [a, b], axis=1)


flows = nn.LayerList([Coupling(i % 2 == 1) for i in range(3)])
opt = paddle.optimizer.Adam(0.01, parameters=flows.parameters())
data = rng.randn(32, 2).astype("float32")
data[:, 1] = data[:, 0] ** 2 * 0.5 + 0.3 * data[:, 1]
data = paddle.to_tensor(data)
for step in range(5):
    z, logdet = data, 0.0
    for flow in flows:
        z, more = flow(z)
        logdet = logdet + more
    log_prob = -0.5 * (z**2).sum(axis=1) - math.log(2 * math.pi) + logdet
    loss = -log_prob.mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(f"step {step} nll {loss.item():.4f}")
with paddle.no_grad():
    z = data
    for flow in flows:
        z, _ = flow(z)
    for flow in list(flows)[::-1]:
        z = flow.inverse(z)
print("largest error below 1e-4:", float((z - data).abs().max()) < 1e-4, len(flows.parameters()))

"""Recomputed blocks give the gradients of kept ones."""

import numpy as np
import paddle
import paddle.nn as nn
from paddle.distributed.fleet.utils import recompute

rng = np.random.RandomState(4)


def block(index, size):
    layers = nn.Sequential(
        ("norm_" + str(index), nn.LayerNorm(size)),
        ("fc1_" + str(index), nn.Linear(size, 2 * size)),
        ("act_" + str(index), nn.GELU()),
        ("fc2_" + str(index), nn.Linear(2 * size, size)),
    )
    return layers


class Net(nn.Layer):
    def __init__(self, depth=3, size=8, recomputed=()):
        super().__init__()
        self.blocks = nn.LayerList([block(i, size) for i in range(depth)])
        self.recomputed = recomputed

    def forward(self, x):
        for i, run in enumerate(self.blocks):
            x = x + (recompute(run, x) if i in self.recomputed else run(x))
        return x.mean()


values = None
x_data = rng.randn(4, 8).astype("float32")
target = []
for recomputed in [(), (0, 2), (0, 1, 2)]:
    net = Net(recomputed=recomputed)
    if values is None:
        values = [rng.randn(*p.shape).astype("float32") * 0.2 for p in net.parameters()]
    for p, value in zip(net.parameters(), values):
        p.set_value(value)
    opt = paddle.optimizer.SGD(learning_rate=0.5, parameters=net.parameters())
    losses = []
    for _ in range(3):
        x = paddle.to_tensor(x_data, stop_gradient=False)
        loss = net(x)
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(round(loss.item(), 4))
    print(recomputed, losses, "%.6f" % float(x.grad.abs().sum()))

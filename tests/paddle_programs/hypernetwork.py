"""Weights that another network makes; parameters replaced for a call; Polyak averages in place."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(132)
hyper = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 4 * 2 + 2))
for p in hyper.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
tasks = paddle.eye(3)
x = paddle.to_tensor(rng.randn(7, 4).astype("float32"))
targets = paddle.to_tensor(rng.randn(3, 7, 2).astype("float32"))
opt = paddle.optimizer.Adam(0.02, parameters=hyper.parameters())
for step in range(4):
    made = hyper(tasks)
    weight, bias = made[:, :8].reshape([3, 4, 2]), made[:, 8:].unsqueeze(1)
    out = paddle.matmul(x.unsqueeze(0), weight) + bias
    loss = F.mse_loss(out, targets)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d %.5f" % (step, loss), out.shape)
one = paddle.stack([F.linear(x, w, b[0]) for w, b in zip(weight, bias)])
print(np.allclose(one.numpy(), out.numpy(), atol=1e-6))
slow = nn.Linear(4, 2)
slow.weight.set_value(np.zeros([4, 2], "float32"))
for decay in (0.5, 0.9):
    with paddle.no_grad():
        slow.weight.scale_(decay)
        slow.weight.add_((1 - decay) * weight[0].detach())
print(slow.weight.abs().sum().item().__round__(5), slow.weight.stop_gradient, slow.weight.is_leaf)

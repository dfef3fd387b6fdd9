"""A pendulum by Euler steps of a learned field, and a physics-informed network by second derivatives."""

import math

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(94)
field = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2))
for p in field.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
times = np.linspace(0, 1, 6)
truth = paddle.to_tensor(np.stack([np.cos(2 * times), -np.sin(2 * times)], axis=1).astype("float32"))
opt = paddle.optimizer.Adam(0.02, parameters=field.parameters())
for step in range(4):
    state, path = truth[0], [truth[0]]
    for _ in range(5):
        state = state + 0.2 * field(state)
        path.append(state)
    loss = ((paddle.stack(path) - truth) ** 2).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("ode step %d loss %.5f" % (step, loss.item()))

u = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
for p in u.parameters():
    p.set_value((rng.randn(*p.shape) * 0.5).astype("float32"))
opt = paddle.optimizer.Adam(0.01, parameters=u.parameters())
x = paddle.to_tensor(np.linspace(0, 1, 12).reshape(-1, 1).astype("float32"), stop_gradient=False)
for step in range(4):
    y = u(x)
    (dy,) = paddle.grad(y, x, grad_outputs=paddle.ones_like(y), create_graph=True)
    (ddy,) = paddle.grad(dy, x, grad_outputs=paddle.ones_like(dy), create_graph=True)
    residual = ddy + math.pi**2 * paddle.sin(math.pi * x)
    boundary = u(paddle.to_tensor([[0.0], [1.0]]))
    loss = (residual**2).mean() + 10 * (boundary**2).mean()
    opt.clear_grad()
    loss.backward()
    opt.step()
    print("pinn step %d loss %.4f" % (step, loss.item()))

"""An image fitted by a network of sines, coordinates to grey values, with its gradients in space."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(111)


class Sine(nn.Layer):
    def __init__(self, w0):
        super().__init__()
        self.w0 = w0

    def forward(self, x):
        return paddle.sin(self.w0 * x)


net = nn.Sequential(nn.Linear(2, 16), Sine(5.0), nn.Linear(16, 16), Sine(1.0), nn.Linear(16, 1))
for p in net.parameters():
    p.set_value(rng.uniform(-1, 1, p.shape).astype("float32") * np.sqrt(6 / 16).astype("float32") * 0.5)
axis = paddle.linspace(-1, 1, 8)
grid = paddle.stack(paddle.meshgrid(axis, axis), axis=-1).reshape([-1, 2])
grid.stop_gradient = False
image = paddle.to_tensor(np.fromfunction(lambda i, j: np.sin(i) * np.cos(j), (8, 8)).reshape(-1, 1).astype("float32"))
opt = paddle.optimizer.Adam(learning_rate=5e-3, parameters=net.parameters())
for step in range(5):
    out = net(grid)
    loss = nn.functional.mse_loss(out, image)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(f"step {step} loss {loss.item():.5f}")
slope = paddle.grad(net(grid).sum(), grid)[0]
print(slope.shape, np.isfinite(slope.numpy()).all())

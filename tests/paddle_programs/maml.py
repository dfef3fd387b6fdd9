"""Model-agnostic meta-learning of sine waves: gradients through an inner step."""

import numpy as np
import paddle
import paddle.nn.functional as F

rng = np.random.RandomState(53)
params = []
for shape in [(1, 16), (16,), (16, 1), (1,)]:
    p = paddle.create_parameter(
        shape, "float32", default_initializer=paddle.nn.initializer.Assign((rng.randn(*shape) * 0.4).astype("float32"))
    )
    params.append(p)


def forward(x, w):
    return F.linear(paddle.tanh(F.linear(x, w[0], w[1])), w[2], w[3])


def task():
    amplitude, phase = rng.uniform(0.5, 2.0), rng.uniform(0, 3)
    x = rng.uniform(-3, 3, (10, 1)).astype("float32")
    return paddle.to_tensor(x), paddle.to_tensor((amplitude * np.sin(x + phase)).astype("float32"))


meta = paddle.optimizer.Adam(learning_rate=0.01, parameters=params)
for iteration in range(4):
    total = 0.0
    for _ in range(2):
        x, y = task()
        loss = F.mse_loss(forward(x[:5], params), y[:5])
        grads = paddle.grad(loss, params, create_graph=True)
        fast = [p - 0.1 * g for p, g in zip(params, grads)]
        outer = F.mse_loss(forward(x[5:], fast), y[5:])
        total = total + outer
    total = total / 2
    total.backward()
    meta.step()
    meta.clear_grad()
    print("iteration %d meta loss %.4f" % (iteration, total.item()))
x, y = task()
before = F.mse_loss(forward(x, params), y).item()
adapted = [p.detach() for p in params]
for p in adapted:
    p.stop_gradient = False
grads = paddle.grad(F.mse_loss(forward(x, adapted), y), adapted)
after = F.mse_loss(forward(x, [p - 0.05 * g for p, g in zip(adapted, grads)]), y).item()
print("%.3f" % before, "%.3f" % after, after < before)

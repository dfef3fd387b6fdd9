"""Four small batches make the update of one large one."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(52)
values = [rng.randn(*shape).astype("float32") * 0.4 for shape in [(6, 8), (8,), (8, 1), (1,)]]
data = rng.randn(16, 6).astype("float32")
target = rng.randn(16, 1).astype("float32")


def build():
    net = nn.Sequential(nn.Linear(6, 8), nn.Sigmoid(), nn.Linear(8, 1))
    for p, value in zip(net.parameters(), values):
        p.set_value(value)
    return net, paddle.optimizer.Momentum(0.1, parameters=net.parameters())


net, opt = build()
for _ in range(3):
    loss = nn.functional.mse_loss(net(paddle.to_tensor(data)), paddle.to_tensor(target))
    loss.backward()
    opt.step()
    opt.clear_grad()
whole = [p.numpy() for p in net.parameters()]
print("whole   %.5f" % loss)

net, opt = build()
accumulation = 4
for _ in range(3):
    total = 0.0
    for i in range(accumulation):
        part = slice(4 * i, 4 * i + 4)
        loss = nn.functional.mse_loss(net(paddle.to_tensor(data[part])), paddle.to_tensor(target[part])) / accumulation
        loss.backward()
        total += loss.item()
        if (i + 1) % accumulation == 0:
            norms = [float(p.grad.norm()) for p in net.parameters()]
            opt.step()
            opt.clear_grad()
print("in parts %.5f" % total)
print(np.round(norms, 4))
print(all(np.allclose(p.numpy(), value, atol=1e-5) for p, value in zip(net.parameters(), whole)))

x = paddle.to_tensor([2.0], stop_gradient=False)
for i in range(3):
    (x * (i + 1)).backward()
    print(x.grad.item(), end=" ")
x.clear_grad()
print(x.grad)
x.clear_gradient(False)
print(x.grad)

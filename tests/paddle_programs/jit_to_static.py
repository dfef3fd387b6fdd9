"""One model eager and by to_static: the same losses."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(20)
values = [rng.randn(*shape).astype("float32") * 0.3 for shape in [(6, 10), (10,), (10, 3), (3,)]]
data = rng.randn(12, 6).astype("float32")
target = rng.randint(0, 3, (12,)).astype("int64")


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 10)
        self.fc2 = nn.Linear(10, 3)

    def forward(self, x, scale=1.0):
        h = nn.functional.relu(self.fc1(x))
        if h.mean() > 0.3:
            h = h * scale
        else:
            h = h + 0.1
        for _ in range(2):
            h = h * 0.9
        return self.fc2(h)


def train(to_static):
    net = Net()
    for p, value in zip(net.parameters(), values):
        p.set_value(value)
    if to_static:
        net = paddle.jit.to_static(net)
    opt = paddle.optimizer.Adam(0.01, parameters=net.parameters())
    losses = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(net(paddle.to_tensor(data)), paddle.to_tensor(target))
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append("%.4f" % loss.item())
    net.eval()
    return losses, net(paddle.to_tensor(data[:5])).shape


print(train(False))
print(train(True))


@paddle.jit.to_static
def clipped_sum(x, limit):
    total = paddle.zeros([1])
    for i in range(x.shape[0]):
        total += paddle.minimum(x[i], limit)
    return total


print(clipped_sum(paddle.to_tensor([1.0, 5.0, 3.0]), paddle.to_tensor(4.0)).numpy())

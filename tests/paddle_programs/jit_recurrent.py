"""A recurrent classifier that is traced, saved, loaded; functions with loops and branches."""

import numpy as np

import paddle
import paddle.nn as nn
from paddle.static import InputSpec

r = np.random.RandomState(0)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 6)
        self.fc = nn.Linear(6, 3)

    def forward(self, ids):
        h, (a, c) = self.lstm(self.embedding(ids))
        return self.fc(h.mean(axis=1)), a


net = Net()
for p in net.parameters():
    p.set_value(r.uniform(-0.5, 0.5, p.shape).astype("float32"))
net.eval()
ids = paddle.to_tensor(r.randint(0, 30, [4, 7]))
static = paddle.jit.to_static(net, full_graph=True, input_spec=[InputSpec([None, None], "int64", name="ids")])
out = static(ids)
print(type(out), len(out), out[0])
paddle.jit.save(static, "m/net")
loaded = paddle.jit.load("m/net")
res = loaded(ids)
print(type(res), len(res), [list(o.shape) for o in res])
print(len(loaded.parameters()), loaded.program() is not None)


@paddle.jit.to_static(full_graph=True)
def loop(x, n):
    s = paddle.zeros([1])
    for i in range(n):
        if x.sum() > i:
            s += x[i]
        else:
            s -= x[i]
    while s < 10:
        s = s * 2
    return s


print(loop(paddle.to_tensor([1.0, 2.0, 3.0]), 3))
print(loop(paddle.to_tensor([1.0, 2.0, 3.0]), paddle.to_tensor(2)))


@paddle.jit.to_static(full_graph=True)
def early(x):
    if x.mean() > 0:
        return x * 2
    return x - 1


print(early(paddle.to_tensor([1.0])), early(paddle.to_tensor([-1.0])))


@paddle.jit.to_static(full_graph=True)
def lists(x):
    outs = []
    for row in x:
        outs.append(row.sum())
    return paddle.stack(outs), len(outs)


print(lists(paddle.ones([3, 2])))


@paddle.jit.to_static(full_graph=True)
def nested(x):
    y = paddle.zeros_like(x)
    i = paddle.to_tensor(0)
    while i < 3:
        if i == 1:
            i += 1
            continue
        y = y + x * i
        i += 1
    assert y.sum() > 0
    return y if y.sum() > 3 else -y


print(nested(paddle.ones([2])))

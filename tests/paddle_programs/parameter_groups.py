"""A backbone that learns slowly and a head that learns fast, with decay on one of them."""

import numpy as np
import paddle
from paddle import nn

rng = np.random.RandomState(3)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh())
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


model = Net()
for name, p in model.named_parameters():
    p.set_value(rng.randn(*p.shape).astype("float32") * 0.3)
    print(name, p.shape, p.stop_gradient)

before = {name: p.numpy().copy() for name, p in model.named_parameters()}
opt = paddle.optimizer.Momentum(
    learning_rate=0.1,
    momentum=0.9,
    parameters=[
        {"params": model.backbone.parameters(), "learning_rate": 0.1},
        {"params": model.head.parameters(), "weight_decay": 0.01},
    ],
)
x = paddle.to_tensor(rng.randn(32, 6).astype("float32"))
y = paddle.to_tensor(rng.randint(0, 2, (32, 1)))
for step in range(6):
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(f"step {step} loss {float(loss):.4f}")
for name, p in model.named_parameters():
    print(name, "moved by %.4f" % np.abs(p.numpy() - before[name]).mean())
acc = paddle.metric.accuracy(nn.functional.softmax(model(x)), y)
print("accuracy", acc.item())

frozen = paddle.optimizer.SGD(
    0.1, parameters=[{"params": [model.head.weight]}, {"params": [model.head.bias], "learning_rate": 0.0}]
)
bias = model.head.bias.numpy().copy()
nn.functional.cross_entropy(model(x), y).backward()
frozen.step()
frozen.clear_grad()
print("bias kept:", bool((model.head.bias.numpy() == bias).all()))

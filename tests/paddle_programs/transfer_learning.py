"""A trained body under a new head: load what fits, freeze, train the rest, save."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(48)


class Body(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2D(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2D(4, 4, 3, stride=2)

    def forward(self, x):
        return nn.functional.relu(self.conv2(nn.functional.relu(self.conv1(x)))).mean(axis=[2, 3])


class Net(nn.Layer):
    def __init__(self, classes):
        super().__init__()
        self.body = Body()
        self.head = nn.Linear(4, classes)

    def forward(self, x):
        return self.head(self.body(x))


pretrained = Net(10)
for p in pretrained.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
paddle.save(pretrained.state_dict(), "pretrained.pdparams")

net = Net(3)
state = paddle.load("pretrained.pdparams")
own = net.state_dict()
matching = {k: v for k, v in state.items() if k in own and list(own[k].shape) == list(v.shape)}
print(sorted(set(state) - set(matching)))
net.set_state_dict({**own, **matching})
net.head.weight.set_value(np.full([4, 3], 0.1, "float32") * np.array([1, 2, 3], "float32"))
for p in net.body.parameters():
    p.stop_gradient = True
print([name for name, p in net.named_parameters() if not p.stop_gradient])
body_before = net.body.conv1.weight.numpy().copy()
opt = paddle.optimizer.Adam(0.05, parameters=net.head.parameters())
x = paddle.to_tensor(rng.rand(6, 1, 7, 7).astype("float32"))
y = paddle.to_tensor(rng.randint(0, 3, 6))
for step in range(4):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step", step, "%.4f" % loss)
print(net.body.conv1.weight.grad, np.array_equal(net.body.conv1.weight.numpy(), body_before))
again = Net(3)
paddle.save(net.state_dict(), "net.pdparams")
again.load_dict(paddle.load("net.pdparams"))
print(np.array_equal(again(x).numpy(), net(x).numpy()))
paddle.save({"epoch": 4, "best": 0.5, "weights": [p for p in net.head.parameters()]}, "extra.pdparams")
extra = paddle.load("extra.pdparams")
print(extra["epoch"], extra["best"], [list(w.shape) for w in extra["weights"]])

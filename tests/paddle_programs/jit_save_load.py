"""A network saved for inference with jit.save and loaded again without its code."""

import os

import numpy as np
import paddle
import paddle.nn as nn
from paddle.static import InputSpec

rng = np.random.RandomState(21)


class LeNet(nn.Layer):
    def __init__(self, num_classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, stride=1, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 8, 5, stride=1, padding=0),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
        )
        self.fc = nn.Sequential(nn.Linear(8 * 4 * 4, 24), nn.Linear(24, num_classes))

    def forward(self, inputs):
        x = self.features(inputs)
        x = paddle.flatten(x, 1)
        return self.fc(x)


net = LeNet()
for p in net.parameters():
    p.set_value(rng.uniform(-0.2, 0.2, p.shape).astype("float32"))
net.eval()
x = rng.rand(3, 1, 28 - 4, 28 - 4).astype("float32")
expected = net(paddle.to_tensor(x))
print(expected.shape, "%.4f" % expected.sum().item(), expected.argmax(axis=1).tolist())

paddle.jit.save(net, "saved/lenet", input_spec=[InputSpec([None, 1, 24, 24], "float32", name="image")])
print(os.path.isdir("saved"))
loaded = paddle.jit.load("saved/lenet")
loaded.eval()
print(np.abs(loaded(paddle.to_tensor(x)).numpy() - expected.numpy()).max() < 1e-4)
print(loaded(paddle.to_tensor(x[:1])).shape)


class Doubled(nn.Layer):
    @paddle.jit.to_static(input_spec=[InputSpec(shape=[None, 2], dtype="float32")])
    def forward(self, x):
        return x * 2, x.sum(axis=1)


paddle.jit.save(Doubled(), "saved/doubled")
first, second = paddle.jit.load("saved/doubled")(paddle.ones([2, 2]))
print(first.tolist(), second.tolist())
state = paddle.load("saved/lenet.pdiparams") if os.path.exists("saved/lenet.pdiparams") and False else net.state_dict()
print([tuple(v.shape) for v in state.values()][:3])

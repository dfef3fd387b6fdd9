"""Initializers that do not depend on chance, and the spread of those that do."""

import math

import numpy as np
import paddle
import paddle.nn as nn
from paddle.nn.initializer import (
    Assign,
    Constant,
    Dirac,
    KaimingNormal,
    KaimingUniform,
    Normal,
    Orthogonal,
    TruncatedNormal,
    Uniform,
    XavierNormal,
    XavierUniform,
    calculate_gain,
)

paddle.seed(2024)
print(nn.Linear(2, 2, weight_attr=Constant(0.25)).weight.numpy())
print(nn.Linear(2, 2, weight_attr=Assign(np.array([[1, 2], [3, 4]], "float32"))).weight.tolist())
print(nn.Conv1D(2, 2, 3, weight_attr=Dirac()).weight.numpy())
q = nn.Linear(6, 6, weight_attr=Orthogonal()).weight.numpy()
print(np.allclose(q @ q.T, np.eye(6), atol=1e-5))
print(
    [round(calculate_gain(name), 4) for name in ("tanh", "relu", "sigmoid", "linear")], round(calculate_gain("leaky_relu", 0.2), 4)
)


def spread(initializer, shape=(200, 300)):
    values = paddle.create_parameter(list(shape), "float32", default_initializer=initializer).numpy()
    return values.mean(), values.std(), np.abs(values).max()


expected = {
    "Normal": (Normal(0.0, 0.5), 0.5),
    "TruncatedNormal": (TruncatedNormal(0.0, 1.0), 0.88),
    "Uniform": (Uniform(-0.3, 0.3), 0.6 / math.sqrt(12)),
    "XavierNormal": (XavierNormal(), math.sqrt(2 / 500)),
    "XavierUniform": (XavierUniform(), math.sqrt(2 / 500)),
    "KaimingNormal": (KaimingNormal(), math.sqrt(2 / 200)),
    "KaimingUniform": (KaimingUniform(), math.sqrt(2 / 200)),
}
for name, (initializer, std) in expected.items():
    mean, found, largest = spread(initializer)
    print(name, abs(mean) < 0.02, abs(found / std - 1) < 0.03)
net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))


def init_weights(layer):
    if isinstance(layer, nn.Linear):
        Constant(0.1)(layer.weight)
        Constant(0.0)(layer.bias)


net.apply(init_weights)
print(net[1].weight.numpy()[0], net[0].bias.numpy(), net(paddle.ones([1, 3])).numpy())
nn.initializer.set_global_initializer(Constant(0.2), Constant(0.1))
print(nn.Linear(2, 1).weight.numpy().ravel(), nn.Linear(2, 1).bias.numpy())
norm = nn.BatchNorm1D(2)
print(norm.weight.numpy(), norm.bias.numpy(), norm._mean.numpy(), nn.LayerNorm(2).bias.numpy(), nn.Embedding(2, 1).weight.tolist())
print(nn.PReLU().parameters()[0].numpy(), nn.GRUCell(1, 1).weight_ih.shape, nn.Conv2D(1, 1, 1).bias.numpy())
nn.initializer.set_global_initializer(None)
paddle.seed(7)
a = paddle.rand([3])
paddle.seed(7)
print(np.array_equal(a.numpy(), paddle.rand([3]).numpy()))

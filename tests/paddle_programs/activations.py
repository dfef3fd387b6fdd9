"""All activations at the same points, with their gradients."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

points = np.array([-3.0, -1.0, -0.4, 0.3, 1.2, 4.0], "float32")
layers = [
    nn.CELU(), nn.ELU(0.5), nn.GELU(), nn.GELU(approximate=True), nn.Hardshrink(), nn.Hardsigmoid(), nn.Hardswish(), nn.Hardtanh(),
    nn.LeakyReLU(), nn.LogSigmoid(), nn.Mish(), nn.PReLU(init=0.1), nn.ReLU(), nn.ReLU6(), nn.SELU(), nn.Sigmoid(), nn.Silu(),
    nn.Softplus(), nn.Softshrink(), nn.Softsign(), nn.Swish(), nn.Tanh(), nn.Tanhshrink(), nn.ThresholdedReLU(),
]  # fmt: skip
for layer in layers:
    x = paddle.to_tensor(points, stop_gradient=False)
    y = layer(x)
    y.sum().backward()
    print(layer, y.numpy().round(4).tolist(), x.grad.numpy().round(4).tolist())
x = paddle.to_tensor(points.reshape(2, 3), stop_gradient=False)
for name, function in {
    "softmax": lambda t: F.softmax(t, axis=1),
    "log_softmax": lambda t: F.log_softmax(t, axis=0),
    "glu": lambda t: F.glu(t.reshape([3, 2])),
    "maxout": lambda t: F.maxout(t.reshape([1, 6, 1, 1]), groups=2),
    "rrelu": lambda t: F.rrelu(t, 0.1, 0.3, training=False),
}.items():
    y = function(x)
    print(name, y.shape, y.numpy().ravel().round(4))
    (grad,) = paddle.grad((y * y).sum(), x)
    print(grad.numpy().round(4).tolist())
gumbel = F.gumbel_softmax(paddle.to_tensor(points.reshape(2, 3)), hard=True)
print(gumbel.sum(axis=-1).numpy(), F.dropout(paddle.ones([4]), 0.5, training=False).numpy())
kept = F.dropout(paddle.ones([2000]), 0.25).numpy()
print(sorted(set(kept.round(4).tolist())), abs((kept == 0).mean() - 0.25) < 0.05)
down = F.dropout(paddle.ones([2, 4]), 0.25, mode="downscale_in_infer", training=False)
print(down.numpy())

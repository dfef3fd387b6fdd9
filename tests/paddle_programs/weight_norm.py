"""Weight normalization put on and taken off, spectral normalization, and how they train."""

import numpy as np
import paddle
import paddle.nn as nn
from paddle.nn.utils import remove_weight_norm, weight_norm

rng = np.random.RandomState(47)
w = rng.randn(4, 3).astype("float32")
layer = nn.Linear(4, 3, weight_attr=nn.initializer.Assign(w), bias_attr=False)
x = paddle.to_tensor(rng.randn(5, 4).astype("float32"))
before = layer(x).numpy()
weight_norm(layer, "weight", dim=1)
print(sorted(name for name, _ in layer.named_parameters()), layer.weight_g.shape, layer.weight_v.shape)
print(np.allclose(layer(x).numpy(), before, atol=1e-5))
opt = paddle.optimizer.SGD(0.5, parameters=layer.parameters())
for _ in range(3):
    loss = (layer(x) ** 2).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("%.5f" % loss.item(), layer.weight_g.numpy().round(4))
after = layer(x).numpy()
remove_weight_norm(layer)
print(sorted(name for name, _ in layer.named_parameters()), np.allclose(layer(x).numpy(), after, atol=1e-5))

conv = nn.Conv2D(2, 3, 3, weight_attr=nn.initializer.Assign(rng.randn(3, 2, 3, 3).astype("float32")))
weight_norm(conv)
out = conv(paddle.ones([1, 2, 5, 5]))
print(conv.weight_g.shape, out.shape, "%.4f" % out.sum().item())
net = nn.Sequential(weight_norm(nn.Linear(3, 4)), nn.ReLU(), weight_norm(nn.Linear(4, 1), dim=None))
print([tuple(p.shape) for p in net.parameters()])

spectral = nn.utils.spectral_norm(
    nn.Linear(4, 4, weight_attr=nn.initializer.Assign(rng.randn(4, 4).astype("float32"))), n_power_iterations=30
)
spectral(paddle.ones([1, 4]))
print("%.3f" % np.linalg.svd(spectral.weight.numpy())[1].max(), sorted(name for name, _ in spectral.named_parameters()))

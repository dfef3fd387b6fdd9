"""Normalization layers and functions, in training and evaluation."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(91)
x = paddle.to_tensor(rng.randn(4, 6, 3, 3).astype("float32") * 2 + 1)
layers = [
    nn.BatchNorm2D(6), nn.InstanceNorm2D(6), nn.GroupNorm(3, 6), nn.LayerNorm([6, 3, 3]), nn.LocalResponseNorm(3),
    nn.BatchNorm2D(6, momentum=0.5, weight_attr=False, bias_attr=False), nn.BatchNorm2D(6, use_global_stats=True),
]  # fmt: skip
for layer in layers:
    y = layer(x)
    print(layer)
    print("train %.4f %.4f" % (y.mean(), y.std()), end=" ")
    layer.eval()
    y = layer(x)
    print("eval %.4f %.4f" % (y.mean(), y.std()), [n for n, _ in layer.named_parameters() if "_" not in n])
bn = nn.BatchNorm1D(3, momentum=0.9)
for _ in range(3):
    bn(paddle.to_tensor(rng.randn(8, 3).astype("float32") + 5))
print(bn._mean.numpy().round(4), bn._variance.numpy().round(4))
h = paddle.to_tensor(rng.randn(5, 4).astype("float32"), stop_gradient=False)
print(F.normalize(h, p=2, axis=1).norm(axis=1).numpy().round(4), F.layer_norm(h, 4).std(axis=1, unbiased=False).numpy().round(3))
(F.layer_norm(h, [4], weight=paddle.full([4], 2.0), bias=paddle.ones([4])) ** 2).sum().backward()
print(h.grad.abs().sum().item() < 1e-3)
out = F.batch_norm(h, paddle.zeros([4]), paddle.ones([4]), training=False)
print(np.allclose(out.numpy(), h.numpy() / np.sqrt(1 + 1e-5), atol=1e-5))
print(F.instance_norm(x).std().item(), F.local_response_norm(x, 3).mean().item(), F.group_norm(x, 2).mean().abs().item() < 1e-4)
spectral = nn.SpectralNorm([3, 4], dim=0, power_iters=20)
weight = paddle.to_tensor(rng.randn(3, 4).astype("float32"))
print("%.3f" % np.linalg.svd(spectral(weight).numpy())[1].max())

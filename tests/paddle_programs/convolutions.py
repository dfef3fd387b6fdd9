"""Convolutions and poolings in all their forms: shapes and sums."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(92)


def show(name, layer, x):
    for p in layer.parameters():
        p.set_value(rng.uniform(-0.5, 0.5, p.shape).astype("float32"))
    y = layer(x)
    print(name, list(y.shape), "%.4f" % y.sum())


x1, x2, x3 = (paddle.to_tensor(rng.randn(2, 4, *[7] * n).astype("float32")) for n in (1, 2, 3))
show("1d", nn.Conv1D(4, 6, 3, stride=2, padding=1), x1)
show("1d same", nn.Conv1D(4, 6, 4, padding="same"), x1)
show("1d transposed", nn.Conv1DTranspose(4, 2, 3, stride=2, output_padding=1), x1)
show("2d dilated", nn.Conv2D(4, 6, 3, dilation=2), x2)
show("2d groups", nn.Conv2D(4, 8, 3, groups=2, bias_attr=False), x2)
show("2d depthwise", nn.Conv2D(4, 4, 3, groups=4, padding=1), x2)
show("2d uneven", nn.Conv2D(4, 3, (1, 3), stride=(1, 2), padding=[[0, 0], [0, 0], [1, 0], [0, 2]]), x2)
show("2d reflect", nn.Conv2D(4, 3, 3, padding=1, padding_mode="reflect"), x2)
show("2d last", nn.Conv2D(4, 3, 3, data_format="NHWC"), x2.transpose([0, 2, 3, 1]))
show("2d transposed", nn.Conv2DTranspose(4, 2, 4, stride=2, padding=1, groups=2), x2)
show("3d", nn.Conv3D(4, 2, 3, padding=1, stride=2), x3)
show("3d transposed", nn.Conv3DTranspose(4, 2, 2, stride=2), x3)
pools = {
    "max": nn.MaxPool2D(3, stride=2, padding=1), "max ceil": nn.MaxPool2D(2, ceil_mode=True), "avg": nn.AvgPool2D(3, padding=1),
    "avg inclusive": nn.AvgPool2D(3, padding=1, exclusive=False), "adaptive avg": nn.AdaptiveAvgPool2D((3, None)),
    "adaptive max": nn.AdaptiveMaxPool2D(2),
}  # fmt: skip
for name, pool in pools.items():
    y = pool(x2)
    print(name, list(y.shape), "%.4f" % y.sum())
y, indices = F.max_pool2d(x2, 2, 2, return_mask=True)
print(indices.shape, F.max_unpool2d(y, indices, 2, 2, output_size=[7, 7]).sum().item() - y.sum().item() < 1e-4)
print(F.avg_pool1d(x1, 2).shape, F.max_pool3d(x3, 2).shape, F.adaptive_avg_pool1d(x1, 3).shape, F.lp_pool2d(x2.abs(), 2, 2).shape)
print(
    F.pad(x2, [1, 2, 0, 1], mode="replicate").shape,
    F.pad(x2, [1, 1, 1, 1], value=2.0).sum().item().__round__(3),
    nn.ZeroPad2D([1, 0, 0, 1])(x2).shape,
)
print(
    F.unfold(x2, 3).shape,
    F.fold(F.unfold(x2, 2, strides=1), [7, 7], 2).shape,
    F.pixel_shuffle(x2, 2).shape,
    F.pixel_unshuffle(x2[:, :, :6, :6], 2).shape,
)
print(
    F.interpolate(x2, scale_factor=2, mode="bilinear").sum().item().__round__(3),
    F.upsample(x2, size=[5, 5], mode="nearest").shape,
    F.channel_shuffle(x2, 2).sum().item().__round__(3),
)
theta = paddle.to_tensor([[[1.0, 0.2, 0.0], [0.0, 0.8, 0.1]]] * 2)
print("%.4f" % F.grid_sample(x2, F.affine_grid(theta, [2, 4, 5, 5], align_corners=False), align_corners=False).sum())

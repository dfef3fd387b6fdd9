"""A small U-Net on shapes: down, up by transposed convolution and interpolation, skip connections."""

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

rng = np.random.RandomState(43)


class DoubleConv(nn.Layer):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2D(in_channels, out_channels, 3, padding="same"),
            nn.GroupNorm(2, out_channels),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.net(x)


class UNet(nn.Layer):
    def __init__(self, classes=3, bilinear=False):
        super().__init__()
        self.down1 = DoubleConv(1, 4)
        self.down2 = DoubleConv(4, 8)
        self.pool = nn.MaxPool2D(2)
        self.bilinear = bilinear
        self.up = nn.Conv2D(8, 4, 1) if bilinear else nn.Conv2DTranspose(8, 4, 2, stride=2)
        self.merge = DoubleConv(8, 4)
        self.out = nn.Conv2D(4, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        if self.bilinear:
            b = F.interpolate(self.up(b), size=a.shape[2:], mode="bilinear", align_corners=False)
        else:
            b = self.up(b)
        return self.out(self.merge(paddle.concat([a, b], axis=1)))


images = paddle.to_tensor(rng.rand(2, 1, 8, 8).astype("float32"))
masks = paddle.to_tensor(rng.randint(0, 3, (2, 8, 8)).astype("int64"))
for bilinear in (False, True):
    net = UNet(bilinear=bilinear)
    for name, p in net.named_parameters():
        if p.ndim == 4:
            p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
    opt = paddle.optimizer.RMSProp(learning_rate=0.01, rho=0.9, momentum=0.9, epsilon=1e-4, parameters=net.parameters())
    for step in range(3):
        logits = net(images)
        loss = F.cross_entropy(logits, masks, axis=1)
        loss.backward()
        opt.step()
        opt.clear_grad()
        print(f"bilinear={bilinear} step {step} loss {loss.item():.3f}", logits.shape)
predicted = logits.argmax(axis=1)
inter = ((predicted == masks) & (masks > 0)).astype("int32").sum()
print(predicted.dtype, predicted.shape, inter.item() >= 0)

"""Depthwise separable convolutions, inverted residuals, squeeze and excitation, hard activations."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(62)


class ConvBNLayer(nn.Layer):
    def __init__(self, cin, cout, kernel, stride=1, groups=1, act=None):
        super().__init__()
        self.conv = nn.Conv2D(cin, cout, kernel, stride, padding=(kernel - 1) // 2, groups=groups, bias_attr=False)
        self.bn = nn.BatchNorm(cout, act=None)
        self.act = act

    def forward(self, x):
        x = self.bn(self.conv(x))
        if self.act == "relu":
            x = nn.functional.relu6(x)
        elif self.act == "hardswish":
            x = nn.functional.hardswish(x)
        return x


class SEModule(nn.Layer):
    def __init__(self, channel, reduction=2):
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2D(1)
        self.conv1 = nn.Conv2D(channel, channel // reduction, 1)
        self.conv2 = nn.Conv2D(channel // reduction, channel, 1)

    def forward(self, inputs):
        x = self.conv2(nn.functional.relu(self.conv1(self.avg_pool(inputs))))
        return paddle.multiply(inputs, nn.functional.hardsigmoid(x, slope=0.2, offset=0.5))


class Unit(nn.Layer):
    def __init__(self, cin, mid, cout, stride, act):
        super().__init__()
        self.shortcut = stride == 1 and cin == cout
        self.expand = ConvBNLayer(cin, mid, 1, act=act)
        self.depthwise = ConvBNLayer(mid, mid, 3, stride, groups=mid, act=act)
        self.se = SEModule(mid)
        self.linear = ConvBNLayer(mid, cout, 1)

    def forward(self, x):
        y = self.linear(self.se(self.depthwise(self.expand(x))))
        return paddle.add(x, y) if self.shortcut else y


net = nn.Sequential(
    ConvBNLayer(3, 4, 3, stride=2, act="hardswish"),
    Unit(4, 8, 4, 1, "relu"),
    Unit(4, 8, 6, 2, "hardswish"),
    nn.AdaptiveAvgPool2D((1, 1)),
    nn.Flatten(),
    nn.Linear(6, 3),
)
for p in net.parameters():
    if p.ndim > 1:
        p.set_value((rng.randn(*p.shape) * 0.4).astype("float32"))
print(net[1].depthwise)
opt = paddle.optimizer.Momentum(0.05, 0.9, parameters=net.parameters(), weight_decay=1e-4)
x = paddle.to_tensor(rng.rand(6, 3, 16, 16).astype("float32"))
y = paddle.to_tensor(rng.randint(0, 3, (6, 1)))
for step in range(3):
    loss = nn.functional.softmax_with_cross_entropy(net(x), y).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d %.3f" % (step, loss.item()))
net.eval()
print(net(x[:2]).shape, np.isfinite(net(x).numpy()).all())

"""A small ResNet with batch normalization, trained and evaluated."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(8)


class BasicBlock(nn.Layer):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2D(inplanes, planes, 3, padding=1, stride=stride, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Layer):
    def __init__(self, num_classes=4):
        super().__init__()
        self.inplanes = 4
        self.conv1 = nn.Conv2D(1, 4, kernel_size=3, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(4)
        self.maxpool = nn.MaxPool2D(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(4, 1)
        self.layer2 = self._make_layer(8, 2, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2D((1, 1))
        self.fc = nn.Linear(8, num_classes)

    def _make_layer(self, planes, blocks, stride=1):
        downsample = None
        if stride != 1 or self.inplanes != planes:
            downsample = nn.Sequential(nn.Conv2D(self.inplanes, planes, 1, stride=stride, bias_attr=False), nn.BatchNorm2D(planes))
        layers = [BasicBlock(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes
        layers += [BasicBlock(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layer2(self.layer1(x)))
        return self.fc(paddle.flatten(x, 1))


model = ResNet()
for name, p in model.named_parameters():
    if "bn" not in name and "downsample.1" not in name:
        p.set_value((rng.randn(*p.shape) * 0.2).astype("float32"))
print(len(model.state_dict()), list(model.state_dict())[:6])
opt = paddle.optimizer.Momentum(0.05, 0.9, parameters=model.parameters(), weight_decay=paddle.regularizer.L2Decay(1e-4))
images = paddle.to_tensor(rng.rand(8, 1, 16, 16).astype("float32"))
labels = paddle.to_tensor(rng.randint(0, 4, (8, 1)).astype("int64"))
for step in range(4):
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    opt.minimize(loss)
    model.clear_gradients()
    print("step {} loss {:.3f}".format(step, loss.numpy()))
print("running", np.round(model.bn1._mean.numpy(), 3), np.round(model.bn1._variance.numpy(), 3))
model.eval()
with paddle.no_grad():
    print("eval loss %.2f" % F.cross_entropy(model(images), labels))

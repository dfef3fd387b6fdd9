"""PointNet: a transform that is learned, a maximum over points, a penalty on the transform."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(3)


class TNet(nn.Layer):
    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.conv = nn.Conv1D(k, 8, 1)
        self.bn = nn.BatchNorm1D(8, momentum=0.8, epsilon=1e-4)
        self.fc = nn.Linear(8, k * k, weight_attr=nn.initializer.Constant(0.0), bias_attr=nn.initializer.Constant(0.0))

    def forward(self, x):
        h = F.relu(self.bn(self.conv(x)))
        h = paddle.max(h, axis=2)
        eye = paddle.eye(self.k).flatten().unsqueeze(0).tile([x.shape[0], 1])
        return (self.fc(h) + eye).reshape([-1, self.k, self.k])


class PointNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.t = TNet()
        self.convs = nn.Sequential(nn.Conv1D(3, 8, 1), nn.ReLU(), nn.Conv1D(8, 16, 1))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        t = self.t(x)
        x = paddle.bmm(t, x)
        g = self.convs(x).max(-1)
        return self.head(g), t


net = PointNet()
for n, p in net.named_parameters():
    if "fc" not in n and "bn" not in n:
        p.set_value(r.randn(*p.shape).astype("float32") * 0.4)
x = paddle.to_tensor(r.randn(6, 3, 10).astype("float32"))
y = paddle.to_tensor([0, 1, 2, 3, 0, 1])
opt = paddle.optimizer.Adam(0.01, parameters=net.parameters(), weight_decay=paddle.regularizer.L2Decay(1e-4))
for e in range(3):
    logits, t = net(x)
    orth = paddle.linalg.norm(paddle.eye(3) - paddle.bmm(t, t.transpose([0, 2, 1])), axis=(1, 2)).mean()
    loss = F.cross_entropy(logits, y) + 0.001 * orth
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(f"Epoch: {e}, loss: {loss.item():.4f}, acc: {(logits.argmax(1) == y).astype('float32').mean().item():.3f}")
net.eval()
print(net(x)[0][0])
print(net.t.bn._mean[:3], net.t.bn._variance.shape)

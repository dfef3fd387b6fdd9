"""A mixture of Gaussians by expectation and maximization, and by gradients."""

import math

import numpy as np
import paddle
import paddle.nn.functional as F

rng = np.random.RandomState(130)
data = np.concatenate([rng.randn(20, 1) - 3, rng.randn(20, 1) * 0.5 + 2]).astype("float32")
x = paddle.to_tensor(data)
mean, std, weight = paddle.to_tensor([-1.0, 1.0]), paddle.to_tensor([1.0, 1.0]), paddle.to_tensor([0.5, 0.5])


def log_joint(mean, std, weight):
    return -0.5 * ((x - mean) / std) ** 2 - paddle.log(std) - 0.5 * math.log(2 * math.pi) + paddle.log(weight)


for step in range(4):
    joint = log_joint(mean, std, weight)
    resp = F.softmax(joint, axis=1)
    count = resp.sum(axis=0)
    mean = (resp * x).sum(axis=0) / count
    std = paddle.sqrt((resp * (x - mean) ** 2).sum(axis=0) / count)
    weight = count / count.sum()
    print("em %d likelihood %.4f" % (step, paddle.logsumexp(joint, axis=1).mean()), mean.numpy().round(3))
m = paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Assign(np.array([-1, 1], "float32")))
s = paddle.create_parameter([2], "float32", is_bias=True)
w = paddle.create_parameter([2], "float32", is_bias=True)
opt = paddle.optimizer.Adam(0.2, parameters=[m, s, w])
for step in range(4):
    loss = -paddle.logsumexp(log_joint(m, paddle.exp(s), F.softmax(w)), axis=1).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("gradient %d %.4f" % (step, loss.item()))

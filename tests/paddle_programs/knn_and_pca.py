"""Nearest neighbours, principal directions by power iteration, a confusion matrix, all with tensors."""

import numpy as np
import paddle

rng = np.random.RandomState(131)
labels = np.arange(30) % 3
points = paddle.to_tensor((rng.randn(30, 5) + 2 * np.eye(3, 5)[labels] * 2).astype("float32"))
target = paddle.to_tensor(labels)
distance = paddle.sqrt(paddle.sum((points[:, None] - points[None]) ** 2, axis=-1) + 1e-12)
distance = distance + paddle.diag(paddle.full([30], 1e9))
_, nearest = paddle.topk(distance, k=5, axis=1, largest=False)
votes = paddle.nn.functional.one_hot(target[nearest.flatten()].reshape([30, 5]), 3).sum(axis=1)
predicted = votes.argmax(axis=1)
print("accuracy %.3f" % (predicted == target).astype("float32").mean())
confusion = paddle.bincount(target * 3 + predicted, minlength=9).reshape([3, 3])
print(confusion.numpy(), confusion.sum().item(), paddle.trace(confusion).item())
precision = paddle.diag(confusion).astype("float32") / confusion.sum(axis=0).astype("float32").clip(min=1)
print(precision.numpy().round(3))
centred = points - points.mean(axis=0, keepdim=True)
covariance = centred.t() @ centred / 29
v = paddle.ones([5, 1]) / 5**0.5
for _ in range(30):
    v = covariance @ v
    v = v / v.norm()
value = (v.t() @ covariance @ v).item()
print("largest eigenvalue %.4f of %.4f" % (value, paddle.trace(covariance).item()))
projected = (centred @ v).squeeze(1)
print(np.isclose(projected.var().item(), value, rtol=1e-3), projected.shape, paddle.histogram(projected, bins=4).sum().item())
ranks = paddle.argsort(paddle.argsort(projected))
print(sorted(ranks.tolist()) == list(range(30)), paddle.median(projected).shape, paddle.quantile(projected, [0.25, 0.75]).shape)

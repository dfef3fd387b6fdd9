"""Tensors of integers and booleans: what their sums, means, quotients and comparisons are."""

import numpy as np

import paddle
import paddle.nn.functional as F

x = paddle.to_tensor([[1, 2, 4], [3, -5, 7]])
print(x.mean(), paddle.mean(x, axis=1), paddle.mean(x, axis=[0, 1], keepdim=True), x.astype("int32").mean(0))
print(x.sum(), x.max(), x.min(axis=1), x.prod(), x.cumsum(1), x.abs().mean())
print(x / 2, x // 2, x % 3, -x, x**2, x * 1.5, x + 0.5, x - True)
print(x.astype("float32").mean(), paddle.mean(x, dtype="float64"))
right = paddle.to_tensor([0, 1, 2, 2]) == paddle.to_tensor([0, 2, 2, 2])
print(right, right.sum(), right.astype("float32").mean(), right.astype("int64").mean(), right.any(), right.all())
print(paddle.clip(x, 0, 4), paddle.where(x > 2, x, paddle.zeros_like(x)), x[x > 2], paddle.bincount(paddle.to_tensor([1, 2, 1])))
print(
    F.one_hot(paddle.to_tensor([0, 2]), 3),
    paddle.argmax(x, axis=1),
    paddle.topk(x, 2, axis=1)[0],
    paddle.sort(x, axis=1, descending=True),
)
print(
    paddle.to_tensor([7, -7]) // paddle.to_tensor([2, 2]), paddle.floor_divide(paddle.to_tensor([7, -7]), paddle.to_tensor([2, 2]))
)
print(
    paddle.bitwise_and(x, paddle.to_tensor(6)),
    x & paddle.to_tensor(1),
    x ^ paddle.to_tensor(3),
    ~x,
    paddle.arange(5).astype("uint8"),
)
print(np.mean(x.numpy()), x.numpy().dtype, int(x[0, 2]), x.tolist(), x.median(), x.astype("float32").std())

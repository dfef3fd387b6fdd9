"""Slices, masks, gathers and scatters, and writing into tensors."""

import numpy as np
import paddle

x = paddle.arange(24, dtype="float32").reshape([2, 3, 4])
print(x[0].shape, x[:, 1].tolist(), x[..., -1].tolist())
print(x[1, ::2, 1:3].numpy())
print(x[:, None, :, 0].shape, x[[1, 0], [0, 2]].numpy())
print(x[x > 20].numpy(), paddle.masked_select(x, x < 2).numpy())
y = x.clone()
y[0, 0] = -1.0
y[:, 1, 1] = paddle.to_tensor([100.0, 200.0])
y[y > 150] = 0
print(y.numpy())

index = paddle.to_tensor([[0, 1], [1, 2]])
print(paddle.gather(x, paddle.to_tensor([1]), axis=0).shape, paddle.gather_nd(x, index).numpy())
print(paddle.index_select(x, paddle.to_tensor([0, 2]), axis=1).shape)
print(paddle.take_along_axis(x[0], paddle.to_tensor([[0], [1], [2]]), axis=1).numpy().ravel())
base = paddle.zeros([4, 2])
print(paddle.scatter(base, paddle.to_tensor([2, 0]), paddle.to_tensor([[1.0, 1.0], [2.0, 2.0]])).numpy())
print(paddle.scatter_nd_add(base, paddle.to_tensor([[1], [1]]), paddle.ones([2, 2])).numpy())
print(paddle.put_along_axis(base, paddle.to_tensor([[0], [1], [0], [1]]), 5.0, axis=1).numpy())
values, order = paddle.topk(paddle.to_tensor([3.0, 9.0, 1.0, 7.0]), k=2)
print(values.numpy(), order.numpy(), paddle.argsort(paddle.to_tensor([3, 1, 2])).numpy())
print(paddle.nonzero(paddle.to_tensor([0, 3, 0, 4])).numpy().ravel(), paddle.where(x[0] > 5, x[0], -x[0]).numpy())
parts = paddle.split(x, [1, 2], axis=1)
print([list(p.shape) for p in parts], [list(p.shape) for p in paddle.chunk(x, 2, axis=-1)], len(paddle.unbind(x, axis=1)))
w = paddle.to_tensor(np.ones((3, 2), "float32"), stop_gradient=False)
(w[1] * 3 + w[[0, 0]].sum()).sum().backward()
print(w.grad.numpy())
print(len(x), [row.shape for row in x][0], paddle.flip(x[0, 0], axis=[0]).tolist(), paddle.roll(x[0, 0], 1).tolist())

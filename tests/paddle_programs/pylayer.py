"""Functions with a backward pass of their own."""

import numpy as np
import paddle
from paddle.autograd import PyLayer


class CusTanh(PyLayer):
    @staticmethod
    def forward(ctx, x, func1, func2=paddle.square):
        ctx.func = func2
        y = func1(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensor()
        return dy * (1 - ctx.func(y))


class Swap(PyLayer):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return b * 2, a * 3

    @staticmethod
    def backward(ctx, g1, g2):
        a, b = ctx.saved_tensor()
        print("backward of", a.shape, b.shape)
        return g2 * 3, g1 * 2


class StraightThrough(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return paddle.sign(x)

    @staticmethod
    def backward(ctx, dy):
        return dy


data = paddle.to_tensor(np.linspace(-1, 1, 6).reshape(2, 3).astype("float64"))
data.stop_gradient = False
z = CusTanh.apply(data, func1=paddle.tanh)
z.mean().backward()
print(z.numpy().round(4), data.grad.numpy().round(5))

a = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
b = paddle.to_tensor([3.0], stop_gradient=False)
c, d = Swap.apply(a, b)
(c.sum() + (d * d).sum()).backward()
print(a.grad.numpy(), b.grad.numpy())

w = paddle.to_tensor([-0.4, 0.7, 0.1], stop_gradient=False)
opt = paddle.optimizer.SGD(0.2, parameters=[w])
for _ in range(4):
    loss = ((StraightThrough.apply(w) - paddle.to_tensor([1.0, 1.0, -1.0])) ** 2).sum()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(loss.item(), w.numpy())

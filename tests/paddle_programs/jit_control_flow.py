"""Python's own if, while, for and break within to_static functions."""

import numpy as np
import paddle


@paddle.jit.to_static
def branch(x):
    if paddle.mean(x) > 0:
        y = x - 1
    else:
        y = x + 1
    return y


@paddle.jit.to_static
def collatz(n):
    steps = paddle.zeros([1], dtype="int64")
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@paddle.jit.to_static
def halve_until(x, limit):
    for _ in range(10):
        if paddle.max(x) < limit:
            break
        x = x / 2
    return x


@paddle.jit.to_static
def collect(x):
    rows = []
    for i in range(3):
        rows.append(x * (i + 1))
    return paddle.stack(rows)


class Gate(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.weight = self.create_parameter([2], default_initializer=paddle.nn.initializer.Constant(2.0))

    @paddle.jit.to_static
    def forward(self, x, flag=True):
        y = x * self.weight
        if flag:
            y = y + 1
        return y if y.sum() > 0 else -y


print(branch(paddle.to_tensor([1.0, 2.0])).numpy(), branch(paddle.to_tensor([-1.0, -2.0])).numpy())
print([int(collatz(paddle.to_tensor([n]))[0]) for n in (1, 6, 7)])
print(halve_until(paddle.to_tensor([8.0, 3.0]), 1.5).numpy())
print(collect(paddle.to_tensor([1.0, 2.0])).numpy())
gate = Gate()
print(gate(paddle.to_tensor([1.0, 1.0])).numpy(), gate(paddle.to_tensor([-1.0, -2.0]), flag=False).numpy())
x = paddle.to_tensor([3.0, -1.0], stop_gradient=False)
branch(x * x).sum().backward()
print(x.grad.numpy())
out = gate(paddle.to_tensor([-3.0, -1.0]))
out.sum().backward()
print(gate.weight.grad.numpy())

"""Where gradients stop: no_grad as context and decorator, set_grad_enabled, detach, eval."""

import numpy as np
import paddle

w = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
x = paddle.to_tensor([[1.0, 1.0]])


@paddle.no_grad()
def evaluate(v):
    return paddle.matmul(v, w)


def generator():
    with paddle.no_grad():
        yield evaluate(x)


print(evaluate(x).stop_gradient, next(generator()).stop_gradient, paddle.matmul(x, w).stop_gradient)
with paddle.no_grad():
    y = paddle.matmul(x, w)
    print(paddle.is_grad_enabled(), y.stop_gradient)
    with paddle.enable_grad():
        z = paddle.matmul(x, w)
        print(paddle.is_grad_enabled(), z.stop_gradient)
with paddle.set_grad_enabled(False):
    print(paddle.matmul(x, w).stop_gradient)
print(paddle.is_grad_enabled())

a = paddle.to_tensor(3.0, stop_gradient=False)
b = a * 2
c = b.detach() * a
c.backward()
print(a.grad.item(), b.stop_gradient, c.stop_gradient)
a.clear_grad()
(a * a).backward()
(a * a * a).backward()
print(a.grad.item())

d = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
e = d * 2
f = e.sum() + (e * e).sum()
paddle.autograd.backward([f], [paddle.to_tensor(0.5)])
print(d.grad.numpy())
g = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
h = g**2
paddle.autograd.backward([h, g * 3], [paddle.to_tensor([1.0, 0.0]), None])
print(g.grad.numpy())
p = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
unused = paddle.to_tensor([1.0], stop_gradient=False)
print(paddle.grad([(p * 2).sum()], [p, unused], allow_unused=True)[1])
try:
    paddle.grad([(p * 2).sum()], [p, unused])
except ValueError:
    print("ValueError")
out = (p * 2).sum()
out.backward()
try:
    out.backward()
    print("again")
except RuntimeError:
    print("RuntimeError")
except Exception as error:
    print(isinstance(error, SystemError))
print(np.array(p).tolist(), p.numpy().tolist())

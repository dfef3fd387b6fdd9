"""Gradients seen and changed on their way: register_hook, retain_grads, detach, clone."""

import numpy as np
import paddle

x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
y = x * x
y.retain_grads()
seen = []


def look(grad):
    seen.append(grad.numpy().tolist())


def scale(grad):
    return grad * 10


h1 = y.register_hook(look)
h2 = y.register_hook(scale)
z = (y * 3).sum()
z.backward(retain_graph=True)
print(seen, x.grad.numpy(), y.grad.numpy())
print(h2.remove())
x.clear_grad()
z.backward()
print(x.grad.tolist(), len(seen))

x.clear_gradient()
w = paddle.to_tensor(np.ones(3, "float32"), stop_gradient=False)
w.register_hook(lambda g: paddle.clip(g, -0.5, 0.5))
((w * x.detach()).sum() + (x.clone() * 2).sum()).backward()
print(w.grad.numpy(), x.grad.numpy())
print(x.is_leaf, (x * 1).is_leaf, x.detach().stop_gradient, x.clone().stop_gradient)

for stop in (True, False):
    a = paddle.to_tensor(2.0, stop_gradient=stop)
    b = paddle.to_tensor(3.0, stop_gradient=False)
    c = a * b
    c.backward()
    print(stop, a.grad, b.grad.item(), c.grad)

v = paddle.to_tensor([[1.0, 2.0]], stop_gradient=False)
(u,) = paddle.grad([(v**3).sum()], [v], create_graph=True)
print(u.numpy())
(u2,) = paddle.grad(u.sum(), v)
print(u2.numpy(), u2.stop_gradient)

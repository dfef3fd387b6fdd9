"""Operators that change their tensor, and what autograd says about it."""

import numpy as np
import paddle
import paddle.nn.functional as F

x = paddle.to_tensor([-1.0, 2.0, -3.0])
y = x.abs_()
print(x.numpy(), y is x)
x.add_(paddle.to_tensor([1.0, 1.0, 1.0])).scale_(2.0)
print(x.tolist())
x.clip_(0, 7)
x.sqrt_()
print(x.numpy().round(4))
F.relu_(x)
x.zero_()
x.fill_(3.5)
print(x.tolist())
a = paddle.arange(6, dtype="float32")
a.reshape_([2, 3])
print(a.shape, a.unsqueeze_(0).shape, a.squeeze_(0).shape)
a += 1
a *= 2
a -= paddle.ones([3])
a /= 2
print(a.numpy())
a[0] = 0
a[:, 1] = a[:, 2] * 10
print(a.tolist())
b = a.clone()
b[b > 20] = -1.0
print(b.tolist(), a.max().item())
a.set_value(np.zeros([2, 3], "float32"))
print(a.sum().item())
paddle.assign(b, output=a)
print(a.equal_all(b).item())

w = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
leaf = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
try:
    leaf.add_(paddle.ones([2]))
except ValueError:
    print("a leaf that needs a gradient cannot change in place")
v = w * 3
v.tanh_()
v.sum().backward()
print(w.grad.numpy().round(5))
with paddle.no_grad():
    w.subtract_(w.grad * 0.1)
print(w.numpy().round(5), w.stop_gradient)
u = paddle.ones([2, 2])
u.fill_diagonal_(5.0)
print(u.tolist(), u.exponential_().shape, u.uniform_(min=0, max=1).max().item() <= 1)
t = paddle.to_tensor([3.0, 1.0, 2.0])
t.stop_gradient = False
s = t * 1
s[1] = 10.0
(s * s).sum().backward()
print(t.grad.tolist())

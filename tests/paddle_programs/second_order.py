"""Newton's method, Hessians and Jacobians, and the product of a Hessian with a vector."""

import numpy as np
import paddle

x = paddle.to_tensor([1.5, -0.7], dtype="float64", stop_gradient=False)


def rosenbrock(v):
    return (1 - v[0]) ** 2 + 5 * (v[1] - v[0] ** 2) ** 2


for i in range(4):
    y = rosenbrock(x)
    (g,) = paddle.grad(y, x, create_graph=True)
    rows = [paddle.grad(g[k], x, retain_graph=True)[0] for k in range(2)]
    hessian = paddle.stack(rows)
    step = paddle.linalg.solve(hessian, g.detach().unsqueeze(-1)).squeeze(-1)
    print(i, "%.5f" % y.item(), g.numpy().round(4), hessian.numpy().round(3).tolist())
    x = (x - step).detach()
    x.stop_gradient = False
print(x.numpy().round(4))

a = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
jacobian = paddle.autograd.jacobian(a**2 * 2, a)
print(jacobian[:].numpy())
h = paddle.autograd.hessian((a**3).sum(), a)
print(h[:].numpy())
vjp = paddle.incubate.autograd.vjp(lambda t: t * t, a, paddle.ones([3]))
print(vjp[0].numpy(), vjp[1].numpy())
func = paddle.incubate.autograd.jvp(lambda t: paddle.sin(t), a.detach(), paddle.to_tensor([1.0, 0.0, 1.0]))
print(func[1].numpy().round(5))

w = paddle.to_tensor(np.eye(2, dtype="float32"), stop_gradient=False)
v = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
loss = (paddle.matmul(w, v) ** 2).sum()
(gw,) = paddle.grad(loss, w, create_graph=True)
(hv,) = paddle.grad((gw * v).sum(), w)
print(hv.numpy())

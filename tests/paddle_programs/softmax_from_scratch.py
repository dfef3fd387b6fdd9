"""Softmax regression without layers or optimizers: gradients by hand against those of autograd."""

import numpy as np
import paddle

rng = np.random.RandomState(99)
x = paddle.to_tensor(rng.randn(30, 5))
label = rng.randint(0, 3, 30)
onehot = paddle.to_tensor(np.eye(3)[label])
w = paddle.zeros([5, 3], dtype="float64")
b = paddle.zeros([3], dtype="float64")
w.stop_gradient = b.stop_gradient = False


def softmax(z):
    e = paddle.exp(z - z.max(axis=1, keepdim=True))
    return e / e.sum(axis=1, keepdim=True)


lr = 0.5
for epoch in range(4):
    probs = softmax(paddle.matmul(x, w) + b)
    loss = -(paddle.log(probs + 1e-12) * onehot).sum(axis=1).mean()
    loss.backward()
    with paddle.no_grad():
        by_hand = paddle.matmul(x, (probs - onehot) / 30, transpose_x=True)
        print(epoch, "loss %.6f" % loss, bool(paddle.allclose(by_hand, w.grad, atol=1e-8)))
        w.set_value(w - lr * w.grad)
        b.set_value(b - lr * b.grad)
    w.clear_grad()
    b.clear_grad()
accuracy = (softmax(x @ w + b).argmax(axis=1).numpy() == label).mean()
print("accuracy %.3f" % accuracy, w.dtype, w.is_leaf)

v = paddle.to_tensor(rng.randn(5), stop_gradient=False)
margin = 1 - paddle.to_tensor(np.where(label > 0, 1.0, -1.0)) * paddle.mv(x, v)
hinge = paddle.maximum(margin, paddle.zeros_like(margin)).mean() + 0.01 * paddle.dot(v, v)
(g,) = paddle.grad(hinge, v)
print("hinge %.6f" % hinge.item(), g.numpy().round(5))

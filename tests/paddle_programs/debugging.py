"""Finding NaN, checking shapes by assertions, catching errors of Paddle by their classes."""

import numpy as np
import paddle
import paddle.nn as nn

layer = nn.Linear(3, 2)


def attempt(name, function, *kinds):
    try:
        function()
        print(name, "passed")
    except kinds:
        print(name, "refused")


attempt("wrong width", lambda: layer(paddle.ones([2, 4])), ValueError)
attempt("wrong reshape", lambda: paddle.ones([2, 3]).reshape([4, 2]), ValueError)
attempt("wrong concat", lambda: paddle.concat([paddle.ones([2, 3]), paddle.ones([2, 4])], axis=0), ValueError)
attempt("wrong broadcast", lambda: paddle.ones([2, 3]) + paddle.ones([4]), ValueError)
attempt("wrong axis", lambda: paddle.sum(paddle.ones([2]), axis=3), ValueError, IndexError)
attempt("wrong set_value", lambda: layer.weight.set_value(np.ones([2, 2], "float32")), AssertionError, ValueError)
attempt("no such attribute", lambda: layer.nothing, AttributeError)
attempt("no file", lambda: paddle.load("missing.pdparams"), ValueError, FileNotFoundError)
attempt("not a tensor", lambda: paddle.add(1, 2), TypeError, ValueError)
attempt("no parameters", lambda: paddle.optimizer.SGD(0.1, parameters=paddle.ones([1])), TypeError)
attempt("backward of a number", lambda: paddle.autograd.backward([3.0]), AssertionError, TypeError)
x = paddle.to_tensor([1.0, 0.0, -1.0], stop_gradient=False)
y = paddle.log(x)
print(paddle.isnan(y).tolist(), paddle.isinf(y).tolist(), bool(paddle.isfinite(y).all()))
safe = paddle.where(x > 0, paddle.log(paddle.clip(x, min=1e-6)), paddle.zeros_like(x))
safe.sum().backward()
print(safe.tolist(), x.grad.tolist())
assert list(layer(paddle.ones([5, 3])).shape) == [5, 2]
grads = [p.grad for p in layer.parameters()]
print(grads)
loss = layer(paddle.ones([1, 3])).sum()
loss.backward()
print([p.grad.shape for p in layer.parameters()], all(np.isfinite(p.grad.numpy()).all() for p in layer.parameters()))
print(paddle.is_tensor(x), isinstance(x, paddle.Tensor), isinstance(layer.weight, paddle.Tensor), isinstance(layer, nn.Layer))

"""How tensors of all kinds print."""

import numpy as np
import paddle

print(paddle.to_tensor(3.14159))
print(paddle.to_tensor([1, 2, 3]))
print(paddle.to_tensor([[True, False], [False, True]]))
print(paddle.to_tensor([1.5, -2.25, 1e-8, 3e6]))
print(paddle.to_tensor([[0.1, 0.2], [10.0, 20.0]], dtype="float64", stop_gradient=False))
print(paddle.zeros([0, 3]))
print(paddle.to_tensor(np.array([1 + 2j, 3 - 1j], "complex64")))
print(paddle.arange(2000, dtype="float32"))
print(paddle.arange(40, dtype="int32").reshape([2, 4, 5]))
print(paddle.to_tensor([float("nan"), float("inf"), -float("inf"), 1.0]))
print(paddle.to_tensor([1.0, 2.0]).astype("float16"))
x = paddle.ones([2, 2])
x.stop_gradient = False
y = x * 2
print(y)
print(repr(y) == str(y), f"{y.sum()}", "%s" % y.dtype, y.dtype, [y.shape, y.ndim, y.size])
print(y.stop_gradient, y.is_leaf, x.name.startswith("generated") or x.name.startswith("eager"), y.place)
paddle.set_printoptions(precision=3, threshold=10, edgeitems=2)
print(paddle.linspace(0, 1, 15))
print(paddle.to_tensor([[1.23456789, 1000.5], [2, 3]]))
paddle.set_printoptions(precision=8, threshold=1000, edgeitems=3, sci_mode=False)
print(paddle.to_tensor([0.00001, 1.0]))
print(paddle.to_tensor(5).item(), paddle.to_tensor(2.5).item(), paddle.to_tensor([7]).item(), float(paddle.to_tensor(0.5)))
print(int(paddle.to_tensor(3)), bool(paddle.to_tensor([1])), list(paddle.to_tensor([1, 2]).numpy()) == [1, 2])
print(paddle.to_tensor([1.0]).tolist(), paddle.to_tensor(1.0).tolist(), paddle.to_tensor([[1, 2]]).tolist())
print(paddle.float32, paddle.int64, paddle.bool, paddle.bfloat16, paddle.float16 == y.dtype)

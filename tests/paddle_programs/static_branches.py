"""cond, case, switch_case and while_loop in one program that is trained."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.static as static

paddle.enable_static()
main, start = static.Program(), static.Program()
with static.program_guard(main, start):
    x = static.data("x", [None, 4])
    lr = static.data("flag", [1], "bool")
    h = static.nn.fc(x, 3, weight_attr=nn.initializer.Constant(0.1), bias_attr=nn.initializer.Constant(0.05))
    y = static.nn.cond(paddle.mean(h) > 0.5, lambda: h * 2, lambda: h - 1)
    z = static.nn.case(
        [(paddle.sum(h) < 1, lambda: paddle.full([1], 1.0)), (paddle.sum(h) < 3, lambda: paddle.full([1], 2.0))],
        default=lambda: paddle.full([1], 3.0),
    )
    w = static.nn.switch_case(
        paddle.cast(paddle.sum(h), "int32"),
        {0: lambda: paddle.full([1], 10.0), 1: lambda: paddle.full([1], 20.0)},
        default=lambda: paddle.full([1], 30.0),
    )
    i = paddle.full([1], 0, "int64")
    s = paddle.zeros([1])

    def body(i, s):
        return [i + 1, s + paddle.cast(i, "float32") * paddle.mean(h)]

    i, s = static.nn.while_loop(lambda i, s: i < 4, body, [i, s])
    loss = paddle.mean(y)
    opt = paddle.optimizer.SGD(0.1)
    opt.minimize(loss)
exe = static.Executor(paddle.CPUPlace())
print(exe.run(start))
for k in range(3):
    out = exe.run(main, feed={"x": np.full([2, 4], k, "float32"), "flag": np.array([True])}, fetch_list=[y, z, w, i, s, loss])
    for o in out:
        print(o, o.dtype, o.shape)
print([p.name for p in main.all_parameters()])

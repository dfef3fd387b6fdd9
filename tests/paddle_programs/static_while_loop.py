"""Loops and branches within a program, with gradients through them."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
exe = static.Executor(paddle.CPUPlace())


def fresh():
    return static.program_guard(static.Program(), static.Program())


with fresh():
    i = paddle.full(shape=[1], fill_value=0, dtype="int64")
    ten = paddle.full(shape=[1], fill_value=10, dtype="int64")
    total = paddle.full(shape=[1], fill_value=0.0, dtype="float32")
    i, ten, total = static.nn.while_loop(
        lambda i, ten, total: i < ten,
        lambda i, ten, total: [i + 1, ten, total + paddle.cast(i, "float32") * 0.5],
        [i, ten, total],
    )
    print(exe.run(fetch_list=[i, total]))

with fresh():
    x = static.data("x", [1], "float32")
    y = static.data("y", [1], "float32")
    out = static.nn.cond(paddle.less_than(x, y), lambda: x * 2.0, lambda: y - 1.0)
    for a, b in [(1.0, 2.0), (3.0, 2.0)]:
        (value,) = exe.run(feed={"x": np.array([a], "float32"), "y": np.array([b], "float32")}, fetch_list=[out])
        print(a, b, value)

with fresh():
    step = static.data("step", [1], "int64")
    rate = static.nn.switch_case(
        step,
        branch_fns={0: lambda: paddle.full([1], 0.1), 1: lambda: paddle.full([1], 0.01)},
        default=lambda: paddle.full([1], 0.001),
    )
    print([float(exe.run(feed={"step": np.array([s], "int64")}, fetch_list=[rate])[0][0]) for s in (0, 1, 5)])

with fresh():
    x = static.data("x", [2], "float32")
    first = paddle.sum(x) > 3.0
    second = paddle.sum(x) > 1.0
    graded = static.nn.case(
        [(first, lambda: paddle.full([1], 2, "int32")), (second, lambda: paddle.full([1], 1, "int32"))],
        default=lambda: paddle.full([1], 0, "int32"),
    )
    print([exe.run(feed={"x": np.array(v, "float32")}, fetch_list=[graded])[0].tolist() for v in ([2, 2], [1, 1], [0, 0])])

with fresh():
    x = static.data("x", [3], "float32")
    x.stop_gradient = False
    y = static.nn.cond(paddle.mean(x) > 0.0, lambda: paddle.sum(x * x), lambda: paddle.sum(x * 3.0))
    (grad,) = static.gradients([y], [x])
    for v in ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]):
        print(exe.run(feed={"x": np.array(v, "float32")}, fetch_list=[y, grad]))

"""A loss whose branch depends on the step, kept in a persistable counter that the program increases."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
x = static.data("x", [None, 2], "float32")
step = static.data("step", [1], "int64")
attr = paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Constant(0.5))
out = static.nn.fc(x, 1, weight_attr=attr, bias_attr=False)


def squared():
    return paddle.mean(out * out)


def absolute():
    return paddle.mean(paddle.abs(out - 1.0))


loss = static.nn.cond(step < 2, squared, absolute)
paddle.optimizer.SGD(0.1).minimize(loss)
exe = static.Executor()
exe.run(static.default_startup_program())
data = np.array([[1.0, 2.0], [0.5, -1.0]], "float32")
for i in range(4):
    value, weight = exe.run(feed={"x": data, "step": np.array([i], "int64")}, fetch_list=[loss, "w"])
    print(i, "%.5f" % float(value), weight.ravel().round(5))

main = static.Program()
with static.program_guard(main):
    seq = static.data("seq", [5], "float32")
    seq.stop_gradient = False

    def body(i, acc):
        return i + 1, acc * 0.5 + paddle.index_select(seq, i)

    i = paddle.zeros([1], "int64")
    acc = paddle.zeros([1], "float32")
    _, final = static.nn.while_loop(lambda i, acc: i < 5, body, [i, acc])
    values = np.arange(1, 6, dtype="float32")
    print(exe.run(main, feed={"seq": values}, fetch_list=[final])[0])

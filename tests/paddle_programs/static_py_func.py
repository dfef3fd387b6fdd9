"""A Python function within a program, with a backward function of its own; and a Print."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()


def tanh(x):
    return np.tanh(x)


def tanh_grad(x, y, dy):
    return np.array(dy) * (1 - np.square(np.array(y)))


main = static.default_main_program()
x = static.data("x", [None, 4], "float32")
attr = paddle.nn.initializer.Constant(0.1)
hidden = static.nn.fc(x, 3, weight_attr=attr)
made = main.current_block().create_var(name="made", dtype="float32", shape=[-1, 3])
made = static.py_func(func=tanh, x=hidden, out=made, backward_func=tanh_grad)
loss = paddle.mean(made)
paddle.optimizer.SGD(0.1).minimize(loss)
exe = static.Executor()
exe.run(static.default_startup_program())
data = np.ones([2, 4], "float32")
for _ in range(3):
    print("%.5f" % exe.run(feed={"x": data}, fetch_list=[loss])[0])

"""Two optimizers in one program of Paddle 1."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(120)
assign = fluid.initializer.NumpyArrayInitializer
x = fluid.data("x", [None, 4], "float32")
y = fluid.data("y", [None, 1], "float32")
attr = fluid.ParamAttr(name="body_w", initializer=assign((rng.randn(4, 6) * 0.4).astype("float32")))
body = fluid.layers.fc(x, 6, act="tanh", param_attr=attr)
attr = fluid.ParamAttr(name="head_w", initializer=assign((rng.randn(6, 1) * 0.4).astype("float32")))
head = fluid.layers.fc(body, 1, param_attr=attr)
loss = fluid.layers.mean(fluid.layers.square_error_cost(head, y))
pairs = fluid.backward.append_backward(loss)
names = {p.name: (p, g) for p, g in pairs}
print(sorted(names))
slow = [pair for name, pair in names.items() if name.startswith(("body", "fc_0"))]
fast = [pair for name, pair in names.items() if name.startswith(("head", "fc_1"))]
fluid.optimizer.SGD(0.01).apply_gradients(slow)
fluid.optimizer.Adam(0.05).apply_gradients(fast)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
data = {"x": rng.randn(12, 4).astype("float32"), "y": rng.randn(12, 1).astype("float32")}
for step in range(4):
    value, w, v = exe.run(feed=data, fetch_list=[loss, "body_w", "head_w"])
    print("step %d %.5f %.5f %.5f" % (step, value, np.abs(w).sum(), np.abs(v).sum()))

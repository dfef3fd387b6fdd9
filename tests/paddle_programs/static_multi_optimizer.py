"""Two losses and two optimizers in one static program, one for each group of parameters."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(120)
assign = paddle.nn.initializer.Assign
x = static.data("x", [None, 4], "float32")
y = static.data("y", [None, 1], "float32")
body = static.nn.fc(
    x, 6, activation="tanh", weight_attr=paddle.ParamAttr("body_w", assign((rng.randn(4, 6) * 0.4).astype("float32")))
)
head = static.nn.fc(body, 1, weight_attr=paddle.ParamAttr("head_w", assign((rng.randn(6, 1) * 0.4).astype("float32"))))
loss = paddle.mean(paddle.nn.functional.square_error_cost(head, y))
pairs = static.append_backward(loss)
names = {p.name: (p, g) for p, g in pairs}
print(sorted(names))
slow = [pair for name, pair in names.items() if name.startswith(("body", "fc_0"))]
fast = [pair for name, pair in names.items() if name.startswith(("head", "fc_1"))]
paddle.optimizer.SGD(0.01).apply_gradients(slow)
paddle.optimizer.Adam(0.05).apply_gradients(fast)
exe = static.Executor()
exe.run(static.default_startup_program())
data = {"x": rng.randn(12, 4).astype("float32"), "y": rng.randn(12, 1).astype("float32")}
for step in range(4):
    value, w, v = exe.run(feed=data, fetch_list=[loss, "body_w", "head_w"])
    print("step %d %.5f %.5f %.5f" % (step, value, np.abs(w).sum(), np.abs(v).sum()))

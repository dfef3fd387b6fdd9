"""A gradient penalty in a static program: gradients of gradients, then minimize."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(87)
x = static.data("x", [None, 3], "float32")
x.stop_gradient = False
assign = paddle.nn.initializer.Assign
h = static.nn.fc(x, 6, activation="tanh", weight_attr=assign((rng.randn(3, 6) * 0.5).astype("float32")))
score = static.nn.fc(h, 1, weight_attr=assign((rng.randn(6, 1) * 0.5).astype("float32")))
(gradient,) = static.gradients([score], [x])
norm = paddle.sqrt(paddle.sum(gradient * gradient, axis=1) + 1e-10)
penalty = paddle.mean(paddle.square(norm - 1.0))
loss = paddle.mean(score) + 10.0 * penalty
_, pairs = paddle.optimizer.SGD(0.02).minimize(loss)
print([p.name for p, _ in pairs], gradient.shape)
exe = static.Executor()
exe.run(static.default_startup_program())
data = rng.randn(10, 3).astype("float32")
for _ in range(4):
    values = exe.run(feed={"x": data}, fetch_list=[loss, penalty, gradient])
    print("loss %.5f penalty %.5f" % (values[0], values[1]), values[2].shape)

"""A gradient penalty in the words of Paddle 1."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(87)
x = fluid.data("x", [None, 3], "float32")
x.stop_gradient = False


def attr(*shape):
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer((rng.randn(*shape) * 0.5).astype("float32")))


h = fluid.layers.fc(x, 6, act="tanh", param_attr=attr(3, 6))
score = fluid.layers.fc(h, 1, param_attr=attr(6, 1))
(gradient,) = fluid.gradients([score], [x])
norm = fluid.layers.sqrt(fluid.layers.reduce_sum(gradient * gradient, dim=1) + 1e-10)
penalty = fluid.layers.reduce_mean(fluid.layers.square(norm - 1.0))
loss = fluid.layers.reduce_mean(score) + 10.0 * penalty
_, pairs = fluid.optimizer.SGD(0.02).minimize(loss)
print([p.name for p, _ in pairs], gradient.shape)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
data = rng.randn(10, 3).astype("float32")
for _ in range(4):
    values = exe.run(feed={"x": data}, fetch_list=[loss, penalty, gradient])
    print("loss %.5f penalty %.5f" % (values[0], values[1]), values[2].shape)

"""Gradients with respect to an input in the words of Paddle 1: signs of a fast gradient attack."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(88)
image = fluid.layers.data("image", [1, 6, 6], dtype="float32")
image.stop_gradient = False
label = fluid.layers.data("label", [1], dtype="int64")
assign = fluid.initializer.NumpyArrayInitializer
conv = fluid.layers.conv2d(
    image, 3, 3, act="relu", param_attr=fluid.ParamAttr(initializer=assign((rng.randn(3, 1, 3, 3) * 0.4).astype("float32")))
)
pool = fluid.layers.pool2d(conv, pool_size=2, pool_stride=2, pool_type="avg")
logits = fluid.layers.fc(pool, 2, param_attr=fluid.ParamAttr(initializer=assign((rng.randn(12, 2) * 0.4).astype("float32"))))
loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))
(g,) = fluid.gradients(targets=loss, inputs=image)
print(g.name, g.shape, conv.shape, pool.shape)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
x = rng.rand(4, 1, 6, 6).astype("float32")
y = np.array([[0], [1], [0], [1]], "int64")
before, gradient = exe.run(feed={"image": x, "label": y}, fetch_list=[loss, g])
for epsilon in (0.01, 0.1):
    attacked = np.clip(x + epsilon * np.sign(gradient), 0, 1)
    (after,) = exe.run(feed={"image": attacked, "label": y}, fetch_list=[loss])
    print("epsilon %.2f loss %.4f -> %.4f" % (epsilon, before, after), after > before)
print("%.6f" % np.abs(gradient).sum(), gradient.shape, gradient.dtype)

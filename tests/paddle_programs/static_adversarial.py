"""Gradients with respect to an input, fetched as an array: signs of a fast gradient attack."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(88)
image = static.data("image", [None, 1, 6, 6], "float32")
image.stop_gradient = False
label = static.data("label", [None, 1], "int64")
assign = paddle.nn.initializer.Assign
conv = static.nn.conv2d(image, 3, 3, act="relu", param_attr=assign((rng.randn(3, 1, 3, 3) * 0.4).astype("float32")))
pool = paddle.nn.functional.avg_pool2d(conv, 2)
logits = static.nn.fc(pool, 2, weight_attr=assign((rng.randn(12, 2) * 0.4).astype("float32")))
loss = paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(logits, label))
(g,) = static.gradients(targets=loss, inputs=image)
print(g.name, g.shape, conv.shape, pool.shape)
exe = static.Executor()
exe.run(static.default_startup_program())
x = rng.rand(4, 1, 6, 6).astype("float32")
y = np.array([[0], [1], [0], [1]], "int64")
before, gradient = exe.run(feed={"image": x, "label": y}, fetch_list=[loss, g])
for epsilon in (0.01, 0.1):
    attacked = np.clip(x + epsilon * np.sign(gradient), 0, 1)
    (after,) = exe.run(feed={"image": attacked, "label": y}, fetch_list=[loss])
    print("epsilon %.2f loss %.4f -> %.4f" % (epsilon, before, after), after > before)
print("%.6f" % np.abs(gradient).sum(), gradient.shape, gradient.dtype)

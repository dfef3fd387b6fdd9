"""Gradients clipped in a static program, and the weights after two steps."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(83)
w1, w2 = rng.randn(6, 4).astype("float32"), rng.randn(4, 1).astype("float32")
x_data, y_data = rng.randn(12, 6).astype("float32") * 2, rng.randn(12, 1).astype("float32")


def train(clip):
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()), paddle.utils.unique_name.guard():
        x, y = static.data("x", [None, 6], "float32"), static.data("y", [None, 1], "float32")
        assign = paddle.nn.initializer.Assign
        h = static.nn.fc(x, 4, activation="sigmoid", weight_attr=assign(w1))
        out = static.nn.fc(h, 1, weight_attr=assign(w2))
        loss = paddle.mean(paddle.nn.functional.square_error_cost(out, y))
        opt = paddle.optimizer.SGD(learning_rate=0.5, grad_clip=clip)
        _, pairs = opt.minimize(loss)
        exe = static.Executor()
        exe.run(startup)
        for _ in range(2):
            values = exe.run(main, feed={"x": x_data, "y": y_data}, fetch_list=[loss] + [p for p, _ in pairs])
        norms = ["%.4f" % np.linalg.norm(v) for v in values[1:]]
        print(type(clip).__name__, "%.5f" % values[0], norms, len(pairs))


train(None)
train(paddle.nn.ClipGradByGlobalNorm(clip_norm=0.5))
train(paddle.nn.ClipGradByNorm(clip_norm=0.3))
train(paddle.nn.ClipGradByValue(max=0.05, min=-0.1))

"""Gradients clipped in a program of Paddle 1."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(83)
w1, w2 = rng.randn(6, 4).astype("float32"), rng.randn(4, 1).astype("float32")
x_data, y_data = rng.randn(12, 6).astype("float32") * 2, rng.randn(12, 1).astype("float32")


def train(clip, name):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "float32")
        assign = fluid.initializer.NumpyArrayInitializer
        h = fluid.layers.fc(x, 4, act="sigmoid", param_attr=fluid.ParamAttr(initializer=assign(w1)))
        out = fluid.layers.fc(h, 1, param_attr=fluid.ParamAttr(initializer=assign(w2)))
        loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
        opt = fluid.optimizer.SGD(learning_rate=0.5, grad_clip=clip)
        _, pairs = opt.minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for _ in range(2):
            values = exe.run(main, feed={"x": x_data, "y": y_data}, fetch_list=[loss] + [p for p, _ in pairs])
        norms = ["%.4f" % np.linalg.norm(v) for v in values[1:]]
        print(name, "%.5f" % values[0], norms, len(pairs))


train(None, "NoneType")
train(fluid.clip.GradientClipByGlobalNorm(clip_norm=0.5), "ClipGradByGlobalNorm")
train(fluid.clip.GradientClipByNorm(clip_norm=0.3), "ClipGradByNorm")
train(fluid.clip.GradientClipByValue(max=0.05, min=-0.1), "ClipGradByValue")

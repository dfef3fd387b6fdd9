"""Mixed precision of a static program in bfloat16 and its loss beside that in float32."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(86)
w1, w2 = (rng.randn(8, 16) * 0.3).astype("float32"), (rng.randn(16, 3) * 0.3).astype("float32")
x_data, y_data = rng.randn(20, 8).astype("float32"), rng.randint(0, 3, (20, 1))


def train(amp):
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x, y = static.data("x", [None, 8], "float32"), static.data("y", [None, 1], "int64")
        assign = paddle.nn.initializer.Assign
        h = static.nn.fc(x, 16, activation="relu", weight_attr=assign(w1))
        loss = paddle.mean(paddle.nn.functional.cross_entropy(static.nn.fc(h, 3, weight_attr=assign(w2)), y))
        opt = paddle.optimizer.SGD(0.2)
        if amp:
            lists = static.amp.AutoMixedPrecisionLists(custom_white_list=["mul", "elementwise_add"], dtype="bfloat16")
            opt = static.amp.decorate(opt, lists, dtype="bfloat16")
        opt.minimize(loss)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        if amp:
            opt.amp_init(paddle.CPUPlace(), scope=static.global_scope())
        return [float(exe.run(main, feed={"x": x_data, "y": y_data}, fetch_list=[loss])[0]) for _ in range(4)]


plain, mixed = train(False), train(True)
print(["%.4f" % v for v in plain])
print([abs(a - b) < 0.05 for a, b in zip(plain, mixed)], mixed[-1] < mixed[0])

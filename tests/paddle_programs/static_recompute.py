"""append_backward with checkpoints gives the gradients of one without."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(89)
values = [(rng.randn(5, 5) * 0.4).astype("float32") for _ in range(4)]
data = rng.randn(6, 5).astype("float32")


def build(use_checkpoints):
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard(), static.scope_guard(static.Scope()):
        x = static.data("x", [None, 5], "float32")
        h, kept = x, []
        for value in values:
            h = static.nn.fc(h, 5, activation="tanh", weight_attr=paddle.nn.initializer.Assign(value))
            kept.append(h)
        loss = paddle.mean(h * h)
        if use_checkpoints:
            pairs = static.append_backward(loss, checkpoints=[kept[1], kept[2]])
            pairs = pairs[0] if isinstance(pairs, tuple) else pairs
        else:
            pairs = static.append_backward(loss)
        exe = static.Executor()
        exe.run(startup)
        grads = exe.run(main, feed={"x": data}, fetch_list=[g for _, g in pairs])
        return [(p.name, float(np.abs(g).sum())) for (p, _), g in zip(pairs, grads)]


plain, again = build(False), build(True)
for (name, value), (other, found) in zip(plain, again):
    print(name, other, "%.6f" % value, abs(value - found) < 1e-6)

"""Two programs that share parameters by name: a generator and a critic, trained in turn."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(80)
values = {
    "G.w1": rng.randn(2, 8) * 0.4, "G.w2": rng.randn(8, 1) * 0.4, "D.w1": rng.randn(1, 8) * 0.4, "D.w2": rng.randn(8, 1) * 0.4,
}  # fmt: skip


def fc(x, size, name, activation=None):
    attr = paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Assign(values[name].astype("float32")))
    return static.nn.fc(x, size, weight_attr=attr, bias_attr=False, activation=activation)


def generator(noise):
    return fc(fc(noise, 8, "G.w1", "relu"), 1, "G.w2")


def discriminator(x):
    return fc(fc(x, 8, "D.w1", "tanh"), 1, "D.w2")


def bce(logit, value):
    return paddle.mean(paddle.nn.functional.binary_cross_entropy_with_logits(logit, paddle.full_like(logit, value)))


d_program, g_program, startup = static.Program(), static.Program(), static.Program()
with static.program_guard(d_program, startup):
    noise = static.data("noise", [None, 2], "float32")
    real = static.data("real", [None, 1], "float32")
    d_loss = bce(discriminator(real), 1.0) + bce(discriminator(generator(noise)), 0.0)
    names = [p.name for p in d_program.all_parameters() if p.name.startswith("D")]
    paddle.optimizer.SGD(0.2).minimize(d_loss, parameters=names)
with static.program_guard(g_program, startup):
    noise = static.data("noise", [None, 2], "float32")
    fake = generator(noise)
    g_loss = bce(discriminator(fake), 1.0)
    infer = g_program.clone(for_test=True)
    names = [p.name for p in g_program.all_parameters() if p.name.startswith("G")]
    paddle.optimizer.SGD(0.2).minimize(g_loss, parameters=names)

exe = static.Executor(paddle.CPUPlace())
exe.run(startup)
for step in range(5):
    z = rng.randn(16, 2).astype("float32")
    x = (rng.randn(16, 1) * 0.3 + 2).astype("float32")
    (d,) = exe.run(d_program, feed={"noise": z, "real": x}, fetch_list=[d_loss])
    (g,) = exe.run(g_program, feed={"noise": z}, fetch_list=[g_loss])
    print("step %d D %.5f G %.5f" % (step, d, g))
(made,) = exe.run(infer, feed={"noise": z}, fetch_list=[fake.name])
print(made.shape, "%.4f" % made.mean())

"""Two programs that share parameters by name, in the words of Paddle 1."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(80)
values = {
    "G.w1": rng.randn(2, 8) * 0.4, "G.w2": rng.randn(8, 1) * 0.4, "D.w1": rng.randn(1, 8) * 0.4, "D.w2": rng.randn(8, 1) * 0.4,
}  # fmt: skip


def fc(x, size, name, act=None):
    attr = fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(values[name].astype("float32")))
    return fluid.layers.fc(input=x, size=size, param_attr=attr, bias_attr=False, act=act)


def generator(noise):
    return fc(fc(noise, 8, "G.w1", "relu"), 1, "G.w2")


def discriminator(x):
    return fc(fc(x, 8, "D.w1", "tanh"), 1, "D.w2")


def bce(logit, value):
    label = fluid.layers.scale(logit, scale=0.0, bias=value)
    return fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(x=logit, label=label))


d_program, g_program, startup = fluid.Program(), fluid.Program(), fluid.Program()
with fluid.program_guard(d_program, startup):
    noise = fluid.layers.data("noise", [2], dtype="float32")
    real = fluid.layers.data("real", [1], dtype="float32")
    d_loss = bce(discriminator(real), 1.0) + bce(discriminator(generator(noise)), 0.0)
    names = [p.name for p in d_program.global_block().all_parameters() if p.name.startswith("D")]
    fluid.optimizer.SGD(0.2).minimize(d_loss, parameter_list=names)
with fluid.program_guard(g_program, startup):
    noise = fluid.layers.data("noise", [2], dtype="float32")
    fake = generator(noise)
    g_loss = bce(discriminator(fake), 1.0)
    infer = g_program.clone(for_test=True)
    names = [p.name for p in g_program.global_block().all_parameters() if p.name.startswith("G")]
    fluid.optimizer.SGDOptimizer(0.2).minimize(g_loss, parameter_list=names)

exe = fluid.Executor(fluid.CPUPlace())
exe.run(startup)
for step in range(5):
    z = rng.randn(16, 2).astype("float32")
    x = (rng.randn(16, 1) * 0.3 + 2).astype("float32")
    (d,) = exe.run(d_program, feed={"noise": z, "real": x}, fetch_list=[d_loss])
    (g,) = exe.run(g_program, feed={"noise": z}, fetch_list=[g_loss])
    print("step %d D %.5f G %.5f" % (step, d, g))
(made,) = exe.run(infer, feed={"noise": z}, fetch_list=[fake.name])
print(made.shape, "%.4f" % made.mean())

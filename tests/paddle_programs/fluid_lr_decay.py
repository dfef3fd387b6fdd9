"""A schedule of rates that the program itself computes, in the words of Paddle 1."""

import numpy as np
import paddle
import paddle.fluid as fluid

main, startup = fluid.Program(), fluid.Program()
with fluid.program_guard(main, startup):
    x = fluid.data("x", [None, 4], "float32")
    attr = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.5))
    y = fluid.layers.fc(x, 3, param_attr=attr, bias_attr=False)
    loss = fluid.layers.mean(y)
    rate = fluid.layers.piecewise_decay(boundaries=[2, 4], values=[0.5, 0.1, 0.01])
    sgd = fluid.optimizer.SGD(learning_rate=rate)
    sgd.minimize(loss)

exe = fluid.Executor(fluid.CPUPlace())
exe.run(startup)
x_data = np.ones((2, 4), "float32")
for epoch in range(3):
    for batch in range(2):
        out = exe.run(main, feed={"x": x_data}, fetch_list=[loss, "w", rate])
        print(epoch, batch, "%.5f" % out[0], "%.5f" % out[1].mean(), "%.3f" % out[2])

with fluid.program_guard(fluid.Program(), fluid.Program()):
    x = fluid.data("x", [None, 4], "float32")
    w = fluid.layers.create_parameter([4, 1], "float32", name="v", default_initializer=fluid.initializer.Constant(1.0))
    loss = fluid.layers.mean(fluid.layers.matmul(x, w))
    steps = fluid.layers.exponential_decay(0.8, decay_steps=1, decay_rate=0.5)
    warm = fluid.layers.linear_lr_warmup(steps, warmup_steps=2, start_lr=0.0, end_lr=0.2)
    momentum = fluid.optimizer.Momentum(warm, momentum=0.9, use_nesterov=True)
    momentum.minimize(loss)
    exe.run(fluid.default_startup_program())
    for _ in range(5):
        value, used = exe.run(feed={"x": x_data}, fetch_list=[loss, warm])
        print("%.5f %.5f" % (value, used))

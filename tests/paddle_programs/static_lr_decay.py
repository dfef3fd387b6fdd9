"""A schedule of rates in a static program: the user steps it."""

import numpy as np
import paddle

paddle.enable_static()
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [None, 4], "float32")
    attr = paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Constant(0.5))
    y = paddle.static.nn.fc(x, 3, weight_attr=attr, bias_attr=False)
    loss = paddle.mean(y)
    scheduler = paddle.optimizer.lr.PiecewiseDecay(boundaries=[2, 4], values=[0.5, 0.1, 0.01], verbose=False)
    sgd = paddle.optimizer.SGD(learning_rate=scheduler)
    sgd.minimize(loss)

exe = paddle.static.Executor()
exe.run(startup)
x_data = np.ones((2, 4), "float32")
for epoch in range(3):
    for batch in range(2):
        out = exe.run(main, feed={"x": x_data}, fetch_list=[loss, "w"])
        print(epoch, batch, "%.5f" % out[0], "%.5f" % out[1].mean(), "%.3f" % sgd.get_lr())
        scheduler.step()

warm = paddle.optimizer.lr.LinearWarmup(
    learning_rate=paddle.optimizer.lr.ExponentialDecay(0.2, gamma=0.5), warmup_steps=2, start_lr=0.0, end_lr=0.2
)
with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    x = paddle.static.data("x", [None, 4], "float32")
    w = paddle.create_parameter([4, 1], "float32", name="v", default_initializer=paddle.nn.initializer.Constant(1.0))
    loss = paddle.mean(paddle.matmul(x, w))
    momentum = paddle.optimizer.Momentum(warm, momentum=0.9, use_nesterov=True)
    momentum.minimize(loss)
    exe.run(paddle.static.default_startup_program())
    for _ in range(5):
        value = exe.run(feed={"x": x_data}, fetch_list=[loss])[0]
        print("%.5f %.5f" % (value, warm.get_lr()))
        warm.step()

"""ExponentialMovingAverage of a static program: update, apply, restore."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(82)
data = static.data(name="x", shape=[-1, 5], dtype="float32")
attr = paddle.ParamAttr(name="fc.weight", initializer=paddle.nn.initializer.Assign(rng.randn(5, 3).astype("float32")))
hidden = static.nn.fc(x=data, size=3, weight_attr=attr, bias_attr=paddle.ParamAttr(name="fc.bias"))
cost = paddle.mean(hidden * hidden)
test_program = static.default_main_program().clone(for_test=True)
optimizer = paddle.optimizer.Adam(learning_rate=0.05)
optimizer.minimize(cost)
ema = static.ExponentialMovingAverage(0.9)
ema.update()

exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
x = rng.randn(10, 5).astype("float32")
for pass_id in range(2):
    for batch_id in range(4):
        (c,) = exe.run(program=static.default_main_program(), feed={"x": x}, fetch_list=[cost])
    print("pass %d cost %.5f" % (pass_id, c))
    with ema.apply(exe):
        print("averaged %.5f" % exe.run(program=test_program, feed={"x": x}, fetch_list=[cost.name])[0])
    print("restored %.5f" % exe.run(program=test_program, feed={"x": x}, fetch_list=[cost.name])[0])
with ema.apply(exe, need_restore=False):
    print("kept %.5f" % exe.run(program=test_program, feed={"x": x}, fetch_list=[cost.name])[0])
ema.restore(exe)
print("%.5f" % exe.run(program=test_program, feed={"x": x}, fetch_list=[cost.name])[0])

"""The first program of Paddle 1: one fc, square error, SGD, Executor."""

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(30)
features = rng.randn(40, 13).astype("float32")
prices = (features @ rng.randn(13, 1) + 1.0).astype("float32")

x = fluid.layers.data(name="x", shape=[13], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
y_predict = fluid.layers.fc(
    input=x,
    size=1,
    act=None,
    param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(0.05)),
    bias_attr=fluid.ParamAttr(initializer=fluid.initializer.ConstantInitializer(0.0)),
)
cost = fluid.layers.square_error_cost(input=y_predict, label=y)
avg_loss = fluid.layers.mean(cost)
print(x.shape, y_predict.shape, avg_loss.shape)

sgd_optimizer = fluid.optimizer.SGD(learning_rate=0.05)
_, pairs = sgd_optimizer.minimize(avg_loss)
print([(p.name, g.name) for p, g in pairs])

place = fluid.CPUPlace()
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
main = fluid.default_main_program()
feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
for epoch in range(3):
    for i in range(0, 40, 10):
        rows = list(zip(features[i : i + 10], prices[i : i + 10]))
        (loss_value,) = exe.run(main, feed=feeder.feed(rows), fetch_list=[avg_loss])
    print("Epoch %d, Loss %.4f" % (epoch, float(loss_value)))

test = main.clone(for_test=True)
result = exe.run(test, feed={"x": features[:3], "y": prices[:3]}, fetch_list=[y_predict, avg_loss.name])
print(type(result).__name__, result[0].shape, result[0].dtype, result[1].shape)
print(np.round(result[0].ravel(), 3))
weight = fluid.global_scope().find_var("fc_0.w_0").get_tensor()
print(np.array(weight).shape, [p.name for p in main.all_parameters()])

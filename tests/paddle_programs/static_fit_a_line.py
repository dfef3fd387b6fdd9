"""The first static program: one fc, square error, SGD, Executor."""

import numpy as np
import paddle

paddle.enable_static()
rng = np.random.RandomState(30)
features = rng.randn(40, 13).astype("float32")
prices = (features @ rng.randn(13, 1) + 1.0).astype("float32")

x = paddle.static.data(name="x", shape=[None, 13], dtype="float32")
y = paddle.static.data(name="y", shape=[None, 1], dtype="float32")
y_predict = paddle.static.nn.fc(
    x,
    size=1,
    weight_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.05)),
    bias_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.0)),
)
cost = paddle.nn.functional.square_error_cost(y_predict, y)
avg_loss = paddle.mean(cost)
print(x.shape, y_predict.shape, avg_loss.shape)

sgd = paddle.optimizer.SGD(learning_rate=0.05)
_, pairs = sgd.minimize(avg_loss)
print([(p.name, g.name) for p, g in pairs])

exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
main = paddle.static.default_main_program()
for epoch in range(3):
    for i in range(0, 40, 10):
        (loss_value,) = exe.run(main, feed={"x": features[i : i + 10], "y": prices[i : i + 10]}, fetch_list=[avg_loss])
    print("Epoch %d, Loss %.4f" % (epoch, float(loss_value)))

test = main.clone(for_test=True)
result = exe.run(test, feed={"x": features[:3], "y": prices[:3]}, fetch_list=[y_predict, avg_loss.name])
print(type(result).__name__, result[0].shape, result[0].dtype, result[1].shape)
print(np.round(result[0].ravel(), 3))
weight = paddle.static.global_scope().find_var("fc_0.w_0").get_tensor()
print(np.array(weight).shape, [p.name for p in main.all_parameters()])

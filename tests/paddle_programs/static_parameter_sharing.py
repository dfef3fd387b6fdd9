"""ParamAttr: shared weights, frozen ones, rates of their own, decay of their own."""

import numpy as np
import paddle

paddle.enable_static()
rng = np.random.RandomState(35)
shared = rng.randn(5, 5).astype("float32") * 0.3
assign = paddle.nn.initializer.Assign
x = paddle.static.data("x", [None, 5], "float32")
attr = paddle.ParamAttr(name="shared", initializer=assign(shared))
h = x
for _ in range(2):
    h = paddle.static.nn.fc(h, 5, activation="tanh", weight_attr=attr, bias_attr=False)
frozen = paddle.ParamAttr(name="frozen", initializer=assign(np.eye(5, dtype="float32")), trainable=False)
h = paddle.static.nn.fc(h, 5, weight_attr=frozen, bias_attr=False)
slow = paddle.ParamAttr(name="slow", initializer=assign(np.full((5, 2), 0.2, "float32")), learning_rate=0.1)
h = paddle.static.nn.fc(h, 2, weight_attr=slow, bias_attr=paddle.ParamAttr(name="slow_bias"))
decayed = paddle.ParamAttr(
    name="decayed", initializer=assign(np.full((2, 1), 0.7, "float32")), regularizer=paddle.regularizer.L1Decay(0.5)
)
out = paddle.static.nn.fc(h, 1, weight_attr=decayed, bias_attr=False)
loss = paddle.mean(out * out)
opt = paddle.optimizer.SGD(0.1, weight_decay=paddle.regularizer.L2Decay(0.01))
_, pairs = opt.minimize(loss)
print([p.name for p, _ in pairs])
for p in paddle.static.default_main_program().all_parameters():
    print(p.name, p.shape, p.trainable, p.stop_gradient, p.persistable)

exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
data = rng.randn(8, 5).astype("float32")
for _ in range(3):
    print("%.6f" % exe.run(feed={"x": data}, fetch_list=[loss])[0])
scope = paddle.static.global_scope()
for name in ["shared", "frozen", "slow", "slow_bias", "decayed"]:
    value = np.array(scope.find_var(name).get_tensor())
    print(name, np.round(value.ravel()[:3], 5))

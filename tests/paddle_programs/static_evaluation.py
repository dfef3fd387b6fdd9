"""Dropout and batch normalization in a training program and in its clone for tests."""

import numpy as np
import paddle

paddle.enable_static()
rng = np.random.RandomState(34)
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
    x = paddle.static.data("x", [None, 4], "float32")
    y = paddle.static.data("y", [None, 1], "float32")
    attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(rng.randn(4, 5).astype("float32")))
    hidden = paddle.static.nn.fc(x, 5, weight_attr=attr)
    hidden = paddle.static.nn.batch_norm(hidden, act="relu", momentum=0.8)
    kept = paddle.nn.functional.dropout(hidden, p=0.5, training=True)
    attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.3))
    out = paddle.static.nn.fc(kept, 1, weight_attr=attr)
    loss = paddle.mean(paddle.nn.functional.square_error_cost(out, y))
    test = main.clone(for_test=True)
    paddle.optimizer.SGD(0.0).minimize(loss)

print(len(test.global_block().ops) < len(main.global_block().ops))
exe = paddle.static.Executor()
exe.run(startup)
data = {"x": rng.randn(16, 4).astype("float32"), "y": rng.randn(16, 1).astype("float32")}
evaluated = [exe.run(test, feed=data, fetch_list=[hidden, kept, loss]) for _ in range(2)]
print(np.array_equal(evaluated[0][0], evaluated[0][1]), float(evaluated[0][2]) == float(evaluated[1][2]))
print("%.4f" % evaluated[0][2])

trained = exe.run(main, feed=data, fetch_list=[hidden, kept])
share = (trained[1] == 0).mean() > (trained[0] == 0).mean()
scaled = trained[1][trained[1] != 0] / trained[0][trained[1] != 0]
print(share, np.round(scaled.min(), 4), np.round(scaled.max(), 4))
names = [p.name for p in main.all_parameters()]
print(names)
scope = paddle.static.global_scope()
for name in names:
    if name.startswith("batch_norm"):
        print(name, np.round(np.array(scope.find_var(name).get_tensor()), 3))
print("%.4f" % exe.run(test, feed=data, fetch_list=[loss])[0])

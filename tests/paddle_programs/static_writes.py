"""A counter, clipped weights, a moving average and a late loss: state that a program writes, and reads behind its writes"""

import numpy as np

import paddle
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(4)
main, startup = static.Program(), static.Program()
with static.program_guard(main, startup):
    x = static.data("x", [None, 3], "float32")
    y = static.data("y", [None, 1], "float32")
    counter = static.create_global_var([1], 0.0, "float32", persistable=True, name="counter")
    highest = static.create_global_var([1], 0.0, "float32", persistable=True, name="highest")
    weight = static.create_parameter([3, 1], "float32", name="weight", default_initializer=paddle.nn.initializer.Constant(0.5))
    average = static.create_global_var([3, 1], 0.0, "float32", persistable=True, name="average")

    before = counter + 100.0
    step = paddle.increment(counter)
    after = counter + 100.0
    loss = paddle.mean(paddle.nn.functional.square_error_cost(paddle.matmul(x, weight), y))
    paddle.assign(paddle.maximum(highest, paddle.reshape(loss, [1])), output=highest)
    paddle.optimizer.SGD(0.2).minimize(loss)

    unclipped = paddle.max(paddle.abs(weight))
    paddle.assign(paddle.clip(weight, -0.6, 0.6), output=weight)
    paddle.assign(0.5 * average + 0.5 * weight, output=average)
    late = paddle.mean(paddle.nn.functional.square_error_cost(paddle.matmul(x, weight), y))

    local = paddle.zeros([2, 2], "float32")
    paddle.assign(paddle.ones([2, 2], "float32") * counter, output=local)
    total = paddle.sum(local)

test = main.clone(for_test=True)
exe = static.Executor(paddle.CPUPlace())
exe.run(startup)
rows = rng.randn(8, 3).astype("float32")
feed = {"x": rows, "y": rows @ np.array([[2.0], [-1.0], [0.3]], "float32")}
for number in range(4):
    fetched = exe.run(main, feed=feed, fetch_list=[before, step, after, loss, unclipped, late, total, local])
    print(number, *(float(np.asarray(value).reshape(-1)[0]) for value in fetched))
    for name in ("counter", "highest", "weight", "average"):
        print(" ", name, np.asarray(static.global_scope().find_var(name).get_tensor()).reshape(-1).round(4).tolist())
for number in range(2):
    print("test", *(float(np.asarray(value).reshape(-1)[0]) for value in exe.run(test, feed=feed, fetch_list=[after, late, total])))
    print("  counter", np.asarray(static.global_scope().find_var("counter").get_tensor()).tolist())

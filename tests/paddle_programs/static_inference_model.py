"""Saved for inference, loaded in another scope, and fed by the names that come back."""

import os

import numpy as np
import paddle

paddle.enable_static()
rng = np.random.RandomState(33)
weight = rng.randn(6, 3).astype("float32")
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    image = paddle.static.data(name="img", shape=[None, 6], dtype="float32")
    label = paddle.static.data(name="label", shape=[None, 1], dtype="int64")
    attr = paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Assign(weight))
    bias = paddle.ParamAttr(name="b", initializer=paddle.nn.initializer.Constant(0.1))
    hidden = paddle.static.nn.fc(image, size=3, weight_attr=attr, bias_attr=bias)
    predict = paddle.nn.functional.softmax(hidden)
    loss = paddle.mean(paddle.nn.functional.cross_entropy(hidden, label))
    paddle.optimizer.SGD(0.1).minimize(loss)

exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(startup)
x = rng.randn(5, 6).astype("float32")
y = rng.randint(0, 3, (5, 1)).astype("int64")
for _ in range(3):
    (value,) = exe.run(main, feed={"img": x, "label": y}, fetch_list=[loss])
    print("%.5f" % value)
expected = exe.run(main.clone(for_test=True), feed={"img": x, "label": y}, fetch_list=[predict])[0]

path_prefix = "./infer_model/linear"
os.makedirs("infer_model", exist_ok=True)
paddle.static.save_inference_model(path_prefix, [image], [predict], exe, program=main)
with paddle.static.scope_guard(paddle.static.Scope()):
    [program, feed_names, fetch_targets] = paddle.static.load_inference_model(path_prefix, exe)
    results = exe.run(program, feed={feed_names[0]: x}, fetch_list=fetch_targets)
    print(feed_names, len(fetch_targets), results[0].shape)
    print(np.allclose(results[0], expected, atol=1e-6))

paddle.static.save(main, "checkpoint/model")
scope = paddle.static.global_scope()
w = scope.find_var("w").get_tensor()
before = np.array(w).copy()
w.set(np.zeros_like(before), paddle.CPUPlace())
print(float(np.array(scope.find_var("w").get_tensor()).sum()))
paddle.static.load(main, "checkpoint/model", exe)
print(np.array_equal(np.array(scope.find_var("w").get_tensor()), before))
state = paddle.static.load_program_state("checkpoint/model")
print(sorted(k for k in state if k in ("w", "b")), state["w"].shape)

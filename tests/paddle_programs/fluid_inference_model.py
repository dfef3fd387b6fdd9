"""Saved for inference in the words of Paddle 1: a folder, names of feeds, targets; all persistables beside it."""

import os

import numpy as np
import paddle
import paddle.fluid as fluid

rng = np.random.RandomState(33)
weight = rng.randn(6, 3).astype("float32")
main, startup = fluid.Program(), fluid.Program()
with fluid.program_guard(main, startup):
    image = fluid.layers.data(name="img", shape=[6], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    attr = fluid.ParamAttr(name="w", initializer=fluid.initializer.NumpyArrayInitializer(weight))
    bias = fluid.ParamAttr(name="b", initializer=fluid.initializer.Constant(0.1))
    hidden = fluid.layers.fc(image, size=3, param_attr=attr, bias_attr=bias)
    predict = fluid.layers.softmax(hidden)
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(hidden, label))
    fluid.optimizer.SGD(0.1).minimize(loss)

exe = fluid.Executor(fluid.CPUPlace())
exe.run(startup)
x = rng.randn(5, 6).astype("float32")
y = rng.randint(0, 3, (5, 1)).astype("int64")
for _ in range(3):
    (value,) = exe.run(main, feed={"img": x, "label": y}, fetch_list=[loss])
    print("%.5f" % value)
expected = exe.run(main.clone(for_test=True), feed={"img": x, "label": y}, fetch_list=[predict])[0]

fluid.io.save_inference_model("infer_model", ["img"], [predict], exe, main_program=main)
with fluid.scope_guard(fluid.Scope()):
    [program, feed_names, fetch_targets] = fluid.io.load_inference_model("infer_model", exe)
    results = exe.run(program, feed={feed_names[0]: x}, fetch_list=fetch_targets)
    print(feed_names, len(fetch_targets), results[0].shape)
    print(np.allclose(results[0], expected, atol=1e-6))

fluid.io.save_persistables(exe, "persistables", main)
scope = fluid.global_scope()
w = scope.find_var("w").get_tensor()
before = np.array(w).copy()
w.set(np.zeros_like(before), fluid.CPUPlace())
print(float(np.array(scope.find_var("w").get_tensor()).sum()))
fluid.io.load_persistables(exe, "persistables", main)
print(np.array_equal(np.array(scope.find_var("w").get_tensor()), before))
fluid.save(main, "checkpoint/model")
state = fluid.io.load_program_state("checkpoint/model")
print(sorted(k for k in state if k in ("w", "b")), state["w"].shape)

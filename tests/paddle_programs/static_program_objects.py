"""Programs, blocks and variables looked at from outside."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
main, startup = static.Program(), static.Program()
with static.program_guard(main, startup):
    x = static.data("x", [None, 3], "float32")
    y = static.nn.fc(x, 2, name="head")
    z = paddle.nn.functional.relu(y)
    total = paddle.sum(z)
    with static.name_scope("extra"):
        w = paddle.create_parameter([2, 2], "float32", name="extra_w")
        counter = static.create_global_var([1], 0.0, "float32", persistable=True, name="counter")
block = main.global_block()
print(main.num_blocks, block.idx, block.has_var("x"), block.has_var("nothing"))
print(x.name, x.shape, x.dtype, x.stop_gradient, x.persistable, x.ndim)
print(y.shape, z.shape, total.shape, y.stop_gradient)
for p in main.all_parameters():
    print(p.name, p.shape, p.dtype, p.trainable, p.persistable)
print(counter.name, counter.persistable, counter.shape)
print(sorted(v.name for v in main.list_vars() if v.persistable))
print(static.default_main_program() is not main, isinstance(main, static.Program))
try:
    block.var("nothing")
except ValueError:
    print("no such variable")
clone = main.clone()
print(clone is main, sorted(p.name for p in clone.all_parameters()) == sorted(p.name for p in main.all_parameters()))
exe = static.Executor()
exe.run(startup)
scope = static.global_scope()
print(scope.find_var("counter").get_tensor().shape(), scope.find_var("nothing"))
value = np.array(scope.find_var("head.w_0").get_tensor())
print(value.shape, value.dtype)
tensor = scope.var("head.b_0").get_tensor()
tensor.set(np.array([1.0, -1.0], "float32"), paddle.CPUPlace())
print(exe.run(main, feed={"x": np.zeros([2, 3], "float32")}, fetch_list=[y, z, total]))
lod = exe.run(main, feed={"x": np.zeros([2, 3], "float32")}, fetch_list=[z], return_numpy=False)[0]
print(np.array(lod).tolist(), lod.shape())
a = x + 1
b = 2 * x - x / 2
print(a.name.startswith("tmp"), b.shape, (x @ w.T if False else x).name)

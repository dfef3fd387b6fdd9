"""What can be fed: arrays, lists, scalars of other shapes, and what is refused."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
exe = static.Executor()
x = static.data("x", [None, 2], "float32")
n = static.data("n", [None], "int64")
flag = static.data("flag", [1], "bool")
y = x * 2 + paddle.cast(n, "float32").unsqueeze(1)
z = paddle.logical_not(flag)
array = np.array([[1, 2], [3, 4]], "float32")
print(exe.run(feed={"x": array, "n": np.array([1, 2], "int64"), "flag": np.array([True])}, fetch_list=[y, z]))
print(exe.run(feed={"x": array[:1], "n": np.array([5], "int64"), "flag": np.array([False])}, fetch_list=[y])[0].shape)
for feed in ({"x": array.astype("float64")}, {"x": np.ones([2, 3], "float32")}):
    try:
        exe.run(feed={"n": np.array([1, 2], "int64"), "flag": np.array([True]), **feed}, fetch_list=[y])
        print("taken")
    except ValueError:
        print("ValueError")
names = [y.name, z.name]
first, second = exe.run(feed={"x": array, "n": np.array([0, 0], "int64"), "flag": np.array([True])}, fetch_list=names)
print(first.tolist(), second.tolist(), first.dtype, second.dtype)
print(exe.run(feed={"x": array, "n": np.array([0, 0], "int64"), "flag": np.array([True])}))
same = exe.run(feed={"x": array, "n": np.array([0, 0], "int64"), "flag": np.array([True])}, fetch_list=[y, y])
print(np.array_equal(same[0], same[1]))
other = static.Program()
with static.program_guard(other):
    a = static.data("a", [2, 2])
    b = paddle.transpose(a, [1, 0])
    c = paddle.matmul(a, b)
print(a.dtype, exe.run(other, feed={"a": array}, fetch_list=[c])[0].tolist())
compiled = static.CompiledProgram(other)
print(exe.run(compiled, feed={"a": array}, fetch_list=[b])[0].tolist())
exe.close()

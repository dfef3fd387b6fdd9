"""Teacher and student in one static program; the teacher stays as it is."""

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle.static as static

paddle.enable_static()
rng = np.random.RandomState(121)


def net(x, prefix, width):
    def attr(name, *shape):
        value = (rng.randn(*shape) * 0.5).astype("float32")
        return paddle.ParamAttr(name=f"{prefix}_{name}", initializer=paddle.nn.initializer.Assign(value))

    hidden = static.nn.fc(x, width, activation="relu", weight_attr=attr("w1", 5, width), bias_attr=attr("b1", width))
    return static.nn.fc(hidden, 3, weight_attr=attr("w2", width, 3), bias_attr=attr("b2", 3))


x = static.data("x", [None, 5], "float32")
teacher = net(x, "teacher", 12)
teacher.stop_gradient = True
student = net(x, "student", 4)
soft = F.softmax(teacher / 2.0)
loss = paddle.mean(F.cross_entropy(student / 2.0, soft, soft_label=True))
names = [p.name for p in static.default_main_program().all_parameters()]
print(names)
paddle.optimizer.Adam(0.02).minimize(loss, parameters=[n for n in names if n.startswith("student")])
exe = static.Executor()
exe.run(static.default_startup_program())
data = rng.randn(25, 5).astype("float32")
scope = static.global_scope()
before = np.array(scope.find_var("teacher_w1").get_tensor())
for step in range(4):
    (value,) = exe.run(feed={"x": data}, fetch_list=[loss])
    print("step %d %.5f" % (step, value))
print(np.array_equal(before, np.array(scope.find_var("teacher_w1").get_tensor())))

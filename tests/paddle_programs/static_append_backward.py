"""What append_backward and gradients return, by name."""

import numpy as np
import paddle
import paddle.static as static

paddle.enable_static()
x = static.data(name="x", shape=[None, 4, 13], dtype="int64")
y = static.data(name="y", shape=[None, 1], dtype="float32")
x_emb = static.nn.embedding(x, size=[100, 8])
flat = paddle.reshape(x_emb, [-1, 4 * 13 * 8])
y_predict = static.nn.fc(x=flat, size=1, activation=None, name="my_fc")
loss = paddle.nn.functional.square_error_cost(input=y_predict, label=y)
avg_loss = paddle.mean(loss)

all_weights = [param for param in static.default_main_program().block(0).all_parameters() if "w_" in param.name]
print([w.name for w in all_weights])
for p, g in static.append_backward(loss=avg_loss):
    print(p.name, p.shape, g.name, g.shape, g.dtype)
second = static.append_backward(loss=avg_loss, parameter_list=all_weights)
print([p.name for p, _ in second])
third = static.append_backward(loss=avg_loss, no_grad_set={x_emb})
print([p.name for p, _ in third])
fourth = static.append_backward(loss=avg_loss, no_grad_set={"my_fc.b_0"})
print([p.name for p, _ in fourth])
last = static.append_backward(loss=avg_loss, parameter_list=all_weights, no_grad_set={w.name for w in all_weights})
print(last)

with static.program_guard(static.Program()):
    a = static.data("a", [3], "float32")
    a.stop_gradient = False
    b = paddle.pow(a, 3)
    (first,) = static.gradients(b, a)
    (second,) = static.gradients(first, a)
    exe = static.Executor()
    outs = exe.run(feed={"a": np.array([1, 2, 3], "float32")}, fetch_list=[b, first, second])
    for out in outs:
        print(out)
    print(first.name, a.name, first.stop_gradient)
    weights = paddle.full([3], 0.5)
    (weighted,) = static.gradients([b], [a], target_gradients=[weights])
    print(exe.run(feed={"a": np.array([1, 2, 3], "float32")}, fetch_list=[weighted])[0])

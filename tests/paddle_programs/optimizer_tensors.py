"""What the state of an optimizer holds: the order of its names, tensors to read, to save and to set."""

import numpy as np

import paddle
import paddle.nn as nn

w = paddle.create_parameter([2], "float32", name="w", default_initializer=nn.initializer.Constant(1.0))
v = paddle.create_parameter([3, 1], "float32", name="v", default_initializer=nn.initializer.Constant(0.5))
a = paddle.create_parameter([1], "float32", name="a", default_initializer=nn.initializer.Constant(-1.0))


def train(optimizer, steps=2):
    for _ in range(steps):
        ((w * w).sum() + (v * 2).sum() + a.exp().sum()).backward()
        optimizer.step()
        optimizer.clear_grad()


first = paddle.optimizer.Momentum(0.1, 0.9, parameters=[w, v, a])
train(first)
for name, value in first.state_dict().items():
    print(name, value.name, value.shape, value.dtype, value.numpy().ravel(), value.stop_gradient)
second = paddle.optimizer.Adam(
    paddle.optimizer.lr.StepDecay(0.1, 2), parameters=[{"params": [a]}, {"params": [w, v], "learning_rate": 0.5}]
)
train(second)
print(list(second.state_dict()))
total = sum(float(value.abs().sum()) for name, value in second.state_dict().items() if "moment" in name)
print(round(total, 5), second.state_dict()["LR_Scheduler"])
paddle.save(second.state_dict(), "second.pdopt")
loaded = paddle.load("second.pdopt")
print(list(loaded) == list(second.state_dict()), bool((loaded["w_moment1_0"] == second.state_dict()["w_moment1_0"]).all()))
second.set_state_dict(loaded)
before = w.clone()
train(second, 1)
print((w - before).numpy(), second.get_lr())
for name, wrong in (
    ("rate of a scheduler", lambda: second.set_lr(0.1)),
    ("warm-up downwards", lambda: paddle.optimizer.lr.LinearWarmup(0.1, 3, 0.5, 0.2)),
):
    try:
        wrong()
    except (RuntimeError, AssertionError) as error:
        print(name, isinstance(error, RuntimeError), isinstance(error, AssertionError))
x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
y = (x * 2).tanh()
print(y.grad_fn.name(), len(y.grad_fn.next_functions), y.grad_fn.next_functions[0].next_functions[0].name())

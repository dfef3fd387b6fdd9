"""What an optimizer's state holds, by name; rates of each parameter; accumulators after loading."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(101)
net = nn.Linear(3, 2, weight_attr=paddle.ParamAttr(name="w", learning_rate=0.5), bias_attr=paddle.ParamAttr(name="b"))
net.weight.set_value(rng.randn(3, 2).astype("float32"))
x = paddle.to_tensor(rng.randn(4, 3).astype("float32"))


def step(opt, times=1):
    for _ in range(times):
        net(x).square().mean().backward()
        opt.step()
        opt.clear_grad()


for make in (
    lambda: paddle.optimizer.Adam(0.1, parameters=net.parameters()),
    lambda: paddle.optimizer.Momentum(0.1, parameters=net.parameters()),
    lambda: paddle.optimizer.Adagrad(0.1, parameters=net.parameters()),
    lambda: paddle.optimizer.SGD(0.1, parameters=net.parameters()),
):
    with paddle.utils.unique_name.guard():
        opt = make()
        print(type(opt).__name__, sorted(opt.state_dict()))
        step(opt, 2)
        state = opt.state_dict()
        print({name: list(value.shape) for name, value in sorted(state.items()) if hasattr(value, "shape")})
print(opt.get_lr(), net.weight.optimize_attr["learning_rate"], net.weight.name, net.bias.name)
scheduler = paddle.optimizer.lr.StepDecay(0.2, step_size=1, gamma=0.5)
opt = paddle.optimizer.SGD(scheduler, parameters=net.parameters())
step(opt)
scheduler.step()
print(opt.get_lr(), {k: v for k, v in opt.state_dict()["LR_Scheduler"].items() if k in ("last_epoch", "last_lr")})
try:
    opt.set_lr(0.1)
except (RuntimeError, ValueError):
    print("a scheduler sets the rate")
opt.set_lr_scheduler(paddle.optimizer.lr.ExponentialDecay(0.3, 0.9))
print(opt.get_lr())
adam = paddle.optimizer.Adam(0.1, parameters=net.parameters())
step(adam, 3)
copied = {name: (value.numpy() if hasattr(value, "numpy") else value) for name, value in adam.state_dict().items()}
moments = [v for k, v in sorted(copied.items()) if "moment1" in k]
print([m.shape for m in moments], [v.item() for k, v in sorted(copied.items()) if "beta1_pow" in k])
print(adam._learning_rate if hasattr(adam, "_learning_rate") else None)

"""Training that is stopped after three epochs and goes on from its files."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(1)
data = rng.randn(40, 8).astype("float32")
labels = rng.randint(0, 3, [40]).astype("int64")


def build():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    draw = np.random.RandomState(2)
    for p in net.parameters():
        p.set_value(draw.uniform(-0.3, 0.3, p.shape).astype("float32"))
    scheduler = paddle.optimizer.lr.StepDecay(learning_rate=0.1, step_size=2, gamma=0.5)
    adam = paddle.optimizer.Adam(learning_rate=scheduler, parameters=net.parameters())
    return net, scheduler, adam


def train(net, scheduler, adam, epochs):
    for _ in range(epochs):
        loss = nn.functional.cross_entropy(net(paddle.to_tensor(data)), paddle.to_tensor(labels))
        loss.backward()
        adam.step()
        adam.clear_grad()
        scheduler.step()
        print("epoch %d lr %.4f loss %.5f" % (scheduler.last_epoch, adam.get_lr(), loss.item()))


# Two guards, as two processes: the optimizer's state goes by the names of parameters and moments.
with paddle.utils.unique_name.guard():
    net, scheduler, adam = build()
    train(net, scheduler, adam, 3)
    paddle.save(net.state_dict(), "net.pdparams")
    paddle.save(adam.state_dict(), "net.pdopt")
    print("uninterrupted")
    train(net, scheduler, adam, 3)
    expected = net(paddle.to_tensor(data)).numpy()

print("resumed")
with paddle.utils.unique_name.guard():
    net, scheduler, adam = build()
    net.set_state_dict(paddle.load("net.pdparams"))
    state = paddle.load("net.pdopt")
    print(sorted(k.split(".")[-1] for k in state))
    print(state["LR_Scheduler"]["last_epoch"], state["LR_Scheduler"]["last_lr"])
    adam.set_state_dict(state)
    train(net, scheduler, adam, 3)
    print(np.abs(net(paddle.to_tensor(data)).numpy() - expected).max() < 1e-2)

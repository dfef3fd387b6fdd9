"""L1 and L2 decay: of the optimizer, of a parameter, and by hand in the loss."""

import numpy as np
import paddle
import paddle.nn as nn
from paddle.regularizer import L1Decay, L2Decay

rng = np.random.RandomState(45)
w0, w1 = rng.randn(4, 6).astype("float32"), rng.randn(6, 1).astype("float32")
x = paddle.to_tensor(rng.randn(16, 4).astype("float32"))
y = paddle.to_tensor(rng.randn(16, 1).astype("float32"))
assign = nn.initializer.Assign


def train(own=None, whole=None, by_hand=0.0):
    net = nn.Sequential(
        nn.Linear(4, 6, weight_attr=paddle.ParamAttr(initializer=assign(w0), regularizer=own)),
        nn.Tanh(),
        nn.Linear(6, 1, weight_attr=paddle.ParamAttr(initializer=assign(w1))),
    )
    opt = paddle.optimizer.Momentum(learning_rate=0.1, parameters=net.parameters(), weight_decay=whole)
    for _ in range(4):
        loss = nn.functional.mse_loss(net(x), y)
        if by_hand:
            loss = loss + by_hand * sum([(p**2).sum() for p in net.parameters()])
        loss.backward()
        opt.step()
        opt.clear_grad()
    return " ".join("%.5f" % float(p.abs().sum()) for p in net.parameters())


print("none      ", train())
print("whole L2  ", train(whole=L2Decay(0.1)))
print("whole 0.1 ", train(whole=0.1))
print("whole L1  ", train(whole=L1Decay(0.1)))
print("own L1    ", train(own=L1Decay(0.2)))
print("own wins  ", train(own=L1Decay(0.2), whole=L2Decay(0.1)))
print("by hand   ", train(by_hand=0.05))
print(L2Decay(0.1), L1Decay(0.25))

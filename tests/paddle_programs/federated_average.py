"""Averaging the weights of clients, copies of a network."""

import copy

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(1)


def make():
    n = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    return n


server = make()
clients = [make() for _ in range(3)]
for p in server.parameters():
    p.set_value(r.randn(*p.shape).astype("float32") * 0.5)
data = [(paddle.to_tensor(r.randn(8, 3).astype("float32")), paddle.to_tensor(r.randn(8, 1).astype("float32"))) for _ in clients]
for rnd in range(2):
    states = []
    for c, (x, y) in zip(clients, data):
        c.set_state_dict(server.state_dict())
        opt = paddle.optimizer.SGD(0.1, parameters=c.parameters())
        for _ in range(2):
            loss = F.mse_loss(c(x), y)
            loss.backward()
            opt.step()
            opt.clear_grad()
        states.append({k: v.clone() for k, v in c.state_dict().items()})
    avg = {k: paddle.mean(paddle.stack([s[k] for s in states]), axis=0) for k in states[0]}
    print(rnd, server.set_state_dict(avg), loss.item(), {k: list(v.shape) for k, v in avg.items()})
print(server.state_dict())

twin = copy.deepcopy(server)
print(all(bool((a == b).all()) for a, b in zip(twin.parameters(), server.parameters())), [p.name for p in twin.parameters()])
twin[0].weight.set_value(paddle.zeros_like(twin[0].weight))
print(float(server[0].weight.abs().sum()) > 0)

"""Two networks, one of which follows the other by averages."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(2)
online, target = nn.Linear(4, 3), nn.Linear(4, 3)
pred = nn.Linear(3, 3)
for n in (online, pred):
    for p in n.parameters():
        p.set_value(r.randn(*p.shape).astype("float32") * 0.5)
target.set_state_dict(online.state_dict())
for p in target.parameters():
    p.stop_gradient = True


def reg(p, z):
    return 2 - 2 * F.cosine_similarity(p, z, axis=-1)


opt = paddle.optimizer.Momentum(
    learning_rate=paddle.optimizer.lr.CosineAnnealingDecay(0.2, 4), momentum=0.9, parameters=online.parameters() + pred.parameters()
)
for s in range(3):
    a, b = (paddle.to_tensor(r.randn(5, 4).astype("float32")) for _ in range(2))
    loss = (reg(pred(online(a)), target(b)) + reg(pred(online(b)), target(a))).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    opt._learning_rate.step()
    with paddle.no_grad():
        for po, pt in zip(online.parameters(), target.parameters()):
            pt.set_value(pt * 0.9 + po * 0.1) if s % 2 else paddle.assign(pt * 0.9 + po * 0.1, pt)
    print(s, loss, target.weight.mean().item())
print(target.weight.stop_gradient, len(list(target.parameters())), target.weight.grad)

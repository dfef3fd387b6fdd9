"""Clipping by value, norm and global norm, and what stays outside of it."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(22)
start = [rng.randn(*shape).astype("float32") for shape in [(4, 6), (6,), (6, 2), (2,)]]
x = paddle.to_tensor(rng.randn(10, 4).astype("float32") * 3)
y = paddle.to_tensor(rng.randn(10, 2).astype("float32") * 5)


def build(clip, need_clip=True):
    attr = paddle.ParamAttr(need_clip=need_clip)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2, weight_attr=attr))
    for p, value in zip(net.parameters(), start):
        p.set_value(value)
    return net, paddle.optimizer.SGD(0.1, parameters=net.parameters(), grad_clip=clip)


clips = {
    "none": None,
    "value": nn.ClipGradByValue(min=-0.1, max=0.2),
    "norm": nn.ClipGradByNorm(clip_norm=0.5),
    "global": nn.ClipGradByGlobalNorm(clip_norm=1.0),
}
for name, clip in clips.items():
    for need_clip in (True, False):
        net, opt = build(clip, need_clip)
        for _ in range(2):
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
        moved = [float(np.linalg.norm(p.numpy() - v)) for p, v in zip(net.parameters(), start)]
        print(name, need_clip, "%.4f" % loss.item(), np.round(moved, 4))

net, opt = build(None)
((net(x) - y) ** 2).mean().backward()
total = paddle.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
print("%.4f" % total.item(), "%.4f" % np.sqrt(sum(float((p.grad**2).sum()) for p in net.parameters())))
paddle.nn.utils.clip_grad_value_(net.parameters(), 0.05)
print(max(float(p.grad.abs().max()) for p in net.parameters()))
vector = paddle.nn.utils.parameters_to_vector(net.parameters())
print(vector.shape)

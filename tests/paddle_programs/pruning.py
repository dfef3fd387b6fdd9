"""Small weights set to zero by masks that stay through training; shares of zeros; a quantised copy."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(117)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
for p in net.parameters():
    p.set_value((rng.randn(*p.shape) * 0.5).astype("float32"))
masks = {}
for name, p in net.named_parameters():
    if p.ndim == 2:
        threshold = paddle.quantile(p.abs().flatten(), 0.5)
        masks[name] = (p.abs() > threshold).astype("float32")
        p.set_value(p * masks[name])
        print(name, "kept %.3f" % masks[name].mean().item(), "threshold %.4f" % threshold.item())
x = paddle.to_tensor(rng.randn(30, 6).astype("float32"))
y = paddle.to_tensor(rng.randint(0, 2, 30))
opt = paddle.optimizer.Momentum(0.1, parameters=net.parameters())
for name, p in net.named_parameters():
    if name in masks:
        p.register_hook(lambda grad, mask=masks[name]: grad * mask)
for step in range(4):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d loss %.4f zeros %.3f" % (step, loss, (net[0].weight == 0).astype("float32").mean()))
scale = net[0].weight.abs().max() / 127
codes = paddle.clip(paddle.round(net[0].weight / scale), -127, 127).astype("int8")
restored = codes.astype("float32") * scale
print(codes.dtype, bool((restored - net[0].weight).abs().max() <= scale / 2 + 1e-6), int(codes.astype("int32").max()))

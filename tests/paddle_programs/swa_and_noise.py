"""Average of weights along the way, gradients with noise, and a rate for each layer by its depth."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(116)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
for p in net.parameters():
    p.set_value((rng.randn(*p.shape) * 0.4).astype("float32"))
groups = [
    {"params": layer.parameters(), "learning_rate": 0.5 ** (2 - depth)}
    for depth, layer in enumerate(l for l in net if isinstance(l, nn.Linear))
]
opt = paddle.optimizer.AdamW(learning_rate=0.02, parameters=groups, weight_decay=0.01)
x = paddle.to_tensor(rng.randn(20, 4).astype("float32"))
y = paddle.to_tensor(rng.randn(20, 1).astype("float32"))
average, count = None, 0
for step in range(6):
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    for p in net.parameters():
        noise = paddle.to_tensor(rng.randn(*p.shape).astype("float32") * 0.01)
        p.grad.set_value(p.grad + noise)
    opt.step()
    opt.clear_grad()
    print("step %d %.5f" % (step, loss))
    if step >= 3:
        state = {k: v.numpy() for k, v in net.state_dict().items()}
        average = state if average is None else {k: (average[k] * count + v) / (count + 1) for k, v in state.items()}
        count += 1
net.set_state_dict(average)
print("averaged %.5f" % nn.functional.mse_loss(net(x), y))

"""WGAN with weights of the critic clipped after each step."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(97)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.1)]
    net = nn.Sequential(*layers[:-1])
    for p in net.parameters():
        p.set_value((rng.randn(*p.shape) * 0.2).astype("float32"))
    return net


generator, critic = mlp(3, 12, 2), mlp(2, 12, 1)
g_opt = paddle.optimizer.RMSProp(0.01, parameters=generator.parameters())
c_opt = paddle.optimizer.RMSProp(0.01, parameters=critic.parameters())
clip = 0.05
for step in range(4):
    for p in critic.parameters():
        p.stop_gradient = False
    for _ in range(2):
        real = paddle.to_tensor((rng.randn(24, 2) * 0.5 + [2, -1]).astype("float32"))
        with paddle.no_grad():
            fake = generator(paddle.to_tensor(rng.randn(24, 3).astype("float32")))
        loss = critic(fake).mean() - critic(real).mean()
        c_opt.clear_grad()
        loss.backward()
        c_opt.step()
        for p in critic.parameters():
            p.set_value(paddle.clip(p, -clip, clip))
    for p in critic.parameters():
        p.stop_gradient = True
    g_loss = -critic(generator(paddle.to_tensor(rng.randn(24, 3).astype("float32")))).mean()
    g_opt.clear_grad()
    g_loss.backward()
    g_opt.step()
    print("step %d wasserstein %.6f generator %.6f" % (step, -loss.item(), g_loss.item()))
print(max(float(p.abs().max()) for p in critic.parameters()) <= clip + 1e-7, [p.grad is None for p in critic.parameters()][:1])

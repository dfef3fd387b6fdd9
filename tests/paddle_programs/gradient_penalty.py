"""WGAN with a penalty on the norm of the critic's gradient."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(5)
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
for net in (critic, generator):
    for p in net.parameters():
        p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))

d_opt = paddle.optimizer.Adam(learning_rate=2e-3, beta1=0.5, beta2=0.9, parameters=critic.parameters())
g_opt = paddle.optimizer.Adam(learning_rate=2e-3, beta1=0.5, beta2=0.9, parameters=generator.parameters())


def penalty_of(real, fake):
    alpha = paddle.to_tensor(rng.rand(real.shape[0], 1).astype("float32"))
    mixed = alpha * real + (1 - alpha) * fake
    mixed.stop_gradient = False
    scores = critic(mixed)
    grads = paddle.grad(
        outputs=scores,
        inputs=mixed,
        grad_outputs=paddle.ones_like(scores),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    norm = paddle.sqrt(paddle.sum(paddle.square(grads), axis=1) + 1e-12)
    return ((norm - 1.0) ** 2).mean()


for step in range(5):
    for _ in range(2):
        real = paddle.to_tensor(rng.randn(16, 2).astype("float32") + 2.0)
        noise = paddle.to_tensor(rng.randn(16, 4).astype("float32"))
        fake = generator(noise).detach()
        penalty = penalty_of(real, fake)
        d_loss = critic(fake).mean() - critic(real).mean() + 10.0 * penalty
        d_opt.clear_grad()
        d_loss.backward()
        d_opt.step()
    noise = paddle.to_tensor(rng.randn(16, 4).astype("float32"))
    g_loss = -critic(generator(noise)).mean()
    g_opt.clear_grad()
    g_loss.backward()
    g_opt.step()
    print("step [%d] d_loss: %.4f g_loss: %.4f gp: %.4f" % (step, d_loss, g_loss, penalty))

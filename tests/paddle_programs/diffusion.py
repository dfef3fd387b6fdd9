"""Denoising diffusion: a schedule of noise, a small U-Net with embedded steps, averaged weights, sampling."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(2)
T = 10
betas = paddle.linspace(1e-4, 0.2, T)
alphas = 1.0 - betas
ac = paddle.cumprod(alphas, dim=0)
print(betas, ac)


def extract(a, t_, shape):
    return paddle.gather(a, t_).reshape([t_.shape[0]] + [1] * (len(shape) - 1))


class Unet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.temb = nn.Embedding(T, 4)
        self.d = nn.Conv2D(1, 4, 3, 2, 1)
        self.gn = nn.GroupNorm(2, 4)
        self.u = nn.Conv2DTranspose(4, 1, 2, 2)
        self.out = nn.Conv2D(2, 1, 1)

    def forward(self, x, t_):
        h = F.silu(self.gn(self.d(x)) + self.temb(t_).unsqueeze(-1).unsqueeze(-1))
        return self.out(paddle.concat([self.u(h), x], axis=1))


net = Unet()
for p in net.parameters():
    p.set_value(r.randn(*p.shape).astype("float32") * 0.3)
ema = {n: p.clone().detach() for n, p in net.named_parameters()}
opt = paddle.optimizer.AdamW(learning_rate=0.01, parameters=net.parameters(), multi_precision=False)
for i in range(3):
    x0 = paddle.to_tensor(r.rand(4, 1, 8, 8).astype("float32"))
    t_ = paddle.to_tensor(r.randint(0, T, 4))
    noise = paddle.to_tensor(r.randn(4, 1, 8, 8).astype("float32"))
    xt = extract(ac, t_, x0.shape).sqrt() * x0 + (1 - extract(ac, t_, x0.shape)).sqrt() * noise
    loss = F.mse_loss(net(xt, t_), noise)
    loss.backward()
    opt.step()
    opt.clear_grad()
    with paddle.no_grad():
        for n, p in net.named_parameters():
            ema[n] = ema[n] * 0.9 + p * 0.1
    print(i, loss)
print({n: round(v.mean().item(), 5) for n, v in ema.items()})
with paddle.no_grad():
    x = paddle.to_tensor(r.randn(2, 1, 8, 8).astype("float32"))
    for i in reversed(range(T)):
        tt = paddle.full([2], i, dtype="int64")
        eps = net(x, tt)
        x = (x - betas[i] / paddle.sqrt(1 - ac[i]) * eps) / paddle.sqrt(alphas[i])
print(x.clip(-1, 1).mean(), x.std())

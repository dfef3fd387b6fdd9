"""A VAE given a class: concatenated one-hot labels, free bits, samples for each class."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(119)
paddle.seed(5)


class CVAE(nn.Layer):
    def __init__(self, size=9, classes=3, latent=2):
        super().__init__()
        self.classes = classes
        self.enc = nn.Sequential(nn.Linear(size + classes, 16), nn.GELU())
        self.stats = nn.Linear(16, 2 * latent)
        self.dec = nn.Sequential(nn.Linear(latent + classes, 16), nn.GELU(), nn.Linear(16, size))

    def forward(self, x, label, eps):
        c = F.one_hot(label, self.classes)
        mean, log_std = paddle.chunk(self.stats(self.enc(paddle.concat([x, c], axis=-1))), 2, axis=-1)
        z = mean + paddle.exp(log_std) * eps
        return self.dec(paddle.concat([z, c], axis=-1)), mean, log_std


model = CVAE()
for p in model.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
labels = paddle.to_tensor(np.arange(18) % 3)
x = paddle.to_tensor((np.eye(9)[np.arange(18) % 9] + 0.1 * rng.rand(18, 9)).astype("float32"))
opt = paddle.optimizer.NAdam(0.01, parameters=model.parameters())
for step in range(5):
    eps = paddle.to_tensor(rng.randn(18, 2).astype("float32"))
    logits, mean, log_std = model(x, labels, eps)
    rec = F.binary_cross_entropy_with_logits(logits, x.clip(0, 1), reduction="none").sum(axis=1).mean()
    kl = (-log_std + 0.5 * (mean**2 + paddle.exp(2 * log_std)) - 0.5).mean(axis=0)
    kl = paddle.maximum(kl, paddle.full_like(kl, 0.05)).sum()
    loss = rec + kl
    opt.clear_grad()
    loss.backward()
    opt.step()
    print("step %d rec %.4f kl %.4f" % (step, rec, kl))
with paddle.no_grad():
    for c in range(3):
        code = paddle.concat([paddle.zeros([1, 2]), F.one_hot(paddle.to_tensor([c]), 3)], axis=-1)
        print(c, F.sigmoid(model.dec(code)).numpy().round(3)[0, :4])
z = paddle.randn([1000, 2])
print(z.shape, abs(z.mean().item()) < 0.1, abs(z.std().item() - 1) < 0.1)

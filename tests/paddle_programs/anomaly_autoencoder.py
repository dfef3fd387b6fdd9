"""An autoencoder whose error finds anomalies; the rate falls on plateaus."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(4)


class AE(nn.Layer):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2D(1, 4, 3, 2, 1), nn.ELU(), nn.Conv2D(4, 2, 3, 2, 1))
        self.dec = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            nn.Conv2D(2, 4, 3, 1, 1),
            nn.Hardswish(),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2D(4, 1, 3, 1, "same"),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.dec(self.enc(x))


net = AE()
for p in net.parameters():
    p.set_value(r.randn(*p.shape).astype("float32") * 0.3)
x = paddle.to_tensor(r.rand(4, 1, 8, 8).astype("float32"))
opt = paddle.optimizer.Adam(parameters=net.parameters(), learning_rate=5e-3)
sched = paddle.optimizer.lr.ReduceOnPlateau(learning_rate=5e-3, patience=0, factor=0.5)
opt.set_lr_scheduler(sched)
for e in range(4):
    out = net(x)
    loss = F.l1_loss(out, x) + 0.5 * (1 - F.cosine_similarity(out.flatten(1), x.flatten(1)).mean())
    loss.backward()
    opt.step()
    opt.clear_grad()
    sched.step(loss)
    print(e, loss.numpy(), sched.last_lr, sched.num_bad_epochs)
err = ((net(x) - x) ** 2).mean(axis=[1, 2, 3])
print(err, paddle.quantile(err, 0.75), paddle.std(err), paddle.histogram(err, 4).tolist())
print(err > err.mean() + err.std(), paddle.nonzero(err > err.mean()).flatten().tolist())

"""Deep convolutional GAN with weights that a function sets in every layer."""

import numpy as np

import paddle
import paddle.nn as nn

r = np.random.RandomState(6)
G = nn.Sequential(
    nn.Conv2DTranspose(4, 8, 4, 1, 0), nn.BatchNorm2D(8), nn.ReLU(), nn.Conv2DTranspose(8, 1, 4, 2, 1, bias_attr=False), nn.Tanh()
)
D = nn.Sequential(
    nn.Conv2D(1, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Dropout2D(0.0), nn.Flatten(start_axis=1), nn.Linear(64, 1), nn.Sigmoid()
)


@paddle.no_grad()
def weights_init(m):
    if m.__class__.__name__.find("Conv") != -1:
        m.weight.set_value(paddle.to_tensor(r.normal(0, 0.1, m.weight.shape).astype("float32")))
    elif isinstance(m, nn.Linear):
        m.weight.set_value(r.normal(0, 0.1, m.weight.shape).astype("float32"))


G.apply(weights_init)
D.apply(weights_init)
crit = nn.BCELoss()
og = paddle.optimizer.Adam(2e-3, 0.5, 0.999, parameters=G.parameters())
od = paddle.optimizer.Adam(2e-3, 0.5, 0.999, parameters=D.parameters())
for i in range(2):
    real = paddle.to_tensor(r.rand(3, 1, 8, 8).astype("float32"))
    z = paddle.to_tensor(r.randn(3, 4, 1, 1).astype("float32"))
    od.clear_grad()
    out = D(real)
    er = crit(out, paddle.full((3, 1), 1.0))
    er.backward()
    fake = G(z)
    ef = crit(D(fake.detach()), paddle.full((3, 1), 0, dtype="float32"))
    ef.backward()
    od.step()
    og.clear_grad()
    eg = crit(D(fake), paddle.ones([3, 1]))
    eg.backward()
    og.step()
    print(f"{i}: {er.numpy():.4f} {ef.numpy():.4f} {eg.numpy():.4f} {float(fake.mean()):.5f} {out.mean().item():.4f}")
print(G)
print(D)
print(fake.shape, fake.dtype, fake[0, 0, 0])

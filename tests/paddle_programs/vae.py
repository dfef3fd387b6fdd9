"""A variational autoencoder with the noise drawn by numpy."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(11)


class VAE(nn.Layer):
    def __init__(self, size=16, hidden=12, latent=3):
        super().__init__()
        self.encode = nn.Linear(size, hidden)
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.decode1 = nn.Linear(latent, hidden)
        self.decode2 = nn.Linear(hidden, size)

    def reparameterize(self, mu, logvar):
        std = paddle.exp(0.5 * logvar)
        eps = paddle.to_tensor(rng.standard_normal(std.shape), dtype="float32")
        return mu + eps * std

    def forward(self, x):
        h = F.relu(self.encode(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = self.reparameterize(mu, logvar)
        return F.sigmoid(self.decode2(F.relu(self.decode1(z)))), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * paddle.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce, kld


model = VAE()
for p in model.parameters():
    p.set_value(rng.uniform(-0.3, 0.3, p.shape).astype("float32"))
optimizer = paddle.optimizer.Adam(learning_rate=1e-2, parameters=model.parameters())
data = (rng.rand(64, 16) < np.linspace(0.1, 0.9, 16)).astype("float32")
for epoch in range(4):
    train_loss = 0
    for i in range(0, 64, 32):
        batch = paddle.to_tensor(data[i : i + 32])
        recon, mu, logvar = model(batch)
        bce, kld = loss_function(recon, batch, mu, logvar)
        loss = bce + kld
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        train_loss += loss.item()
    print("====> Epoch: {} Average loss: {:.4f} (kld {:.4f})".format(epoch, train_loss / len(data), kld.item()))
with paddle.no_grad():
    z = paddle.to_tensor([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5]])
    sample = F.sigmoid(model.decode2(F.relu(model.decode1(z))))
print(sample.shape, sample.stop_gradient, float(sample.min()) > 0)

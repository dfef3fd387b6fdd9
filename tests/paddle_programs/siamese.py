"""Pairs through one network: a contrastive loss written as a Layer, a data set that makes pairs."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset

rng = np.random.RandomState(103)


class Pairs(Dataset):
    def __init__(self, points, labels, count):
        draw = np.random.RandomState(4)
        self.pairs = [tuple(draw.randint(0, len(points), 2)) for _ in range(count)]
        self.points, self.labels = points, labels

    def __getitem__(self, i):
        a, b = self.pairs[i]
        return self.points[a], self.points[b], np.float32(self.labels[a] == self.labels[b])

    def __len__(self):
        return len(self.pairs)


class ContrastiveLoss(nn.Layer):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, same):
        distance = F.pairwise_distance(a, b)
        return (same * distance**2 + (1 - same) * F.relu(self.margin - distance) ** 2).mean()


labels = np.arange(20) % 3
points = (rng.randn(20, 6) + labels[:, None]).astype("float32")
encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
for p in encoder.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
criterion = ContrastiveLoss(margin=1.0)
opt = paddle.optimizer.Momentum(0.1, 0.8, parameters=encoder.parameters())
loader = DataLoader(Pairs(points, labels, 32), batch_size=16, shuffle=False)
for epoch in range(4):
    for a, b, same in loader:
        loss = criterion(encoder(a), encoder(b), same)
        loss.backward()
        opt.step()
        opt.clear_grad()
    print(f"epoch {epoch} loss {loss:.4f}", same.shape, same.dtype)
z = encoder(paddle.to_tensor(points))
distances = paddle.cdist(z, z) + paddle.eye(20) * 1e6
nearest = labels[distances.argmin(axis=1).numpy()]
print("same class nearby:", (nearest == labels).mean() > 0.3, distances.shape)

"""PageRank and k-means by tensors alone: loops, masks, while conditions on values."""

import numpy as np
import paddle

rng = np.random.RandomState(57)
links = paddle.to_tensor((rng.rand(6, 6) < 0.4).astype("float32"))
links = links + paddle.eye(6) * (links.sum(axis=1, keepdim=True) == 0).astype("float32")
transition = (links / links.sum(axis=1, keepdim=True)).t()
rank = paddle.full([6, 1], 1 / 6)
steps = 0
while True:
    following = 0.85 * paddle.matmul(transition, rank) + 0.15 / 6
    change = paddle.abs(following - rank).sum()
    rank = following
    steps += 1
    if change < 1e-3 or steps == 50:
        break
print("steps", steps, rank.flatten().numpy().round(3), "%.4f" % rank.sum())
print("order", paddle.argsort(rank.flatten(), descending=True).tolist()[0])

points = np.concatenate([rng.randn(10, 2) + center for center in [(0, 0), (6, 0), (0, 6)]]).astype("float32")
points = paddle.to_tensor(points)
centers = points[[0, 10, 20]]
for iteration in range(4):
    distances = paddle.sum((points.unsqueeze(1) - centers.unsqueeze(0)) ** 2, axis=-1)
    nearest = paddle.argmin(distances, axis=1)
    onehot = paddle.nn.functional.one_hot(nearest, 3)
    centers = paddle.matmul(onehot, points, transpose_x=True) / onehot.sum(axis=0).unsqueeze(1)
    print(iteration, "%.4f" % paddle.min(distances, axis=1).mean())
print(centers.numpy().round(3), paddle.bincount(nearest).tolist())
sizes, where = paddle.unique(nearest, return_counts=True)
print(sizes.tolist(), where.tolist())

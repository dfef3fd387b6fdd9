"""Two views of each example: normalized embeddings, InfoNCE, a triplet loss, retrieval."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(51)
encoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 6))
for p in encoder.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
temperature = paddle.create_parameter([1], "float32", default_initializer=nn.initializer.Constant(0.2))
opt = paddle.optimizer.AdamW(0.01, parameters=[*encoder.parameters(), temperature], weight_decay=0.0)
base = rng.randn(12, 10).astype("float32")
for step in range(4):
    one = paddle.to_tensor(base + 0.1 * rng.randn(12, 10).astype("float32"))
    two = paddle.to_tensor(base + 0.1 * rng.randn(12, 10).astype("float32"))
    a, b = F.normalize(encoder(one), axis=1), F.normalize(encoder(two), axis=-1)
    logits = paddle.matmul(a, b, transpose_y=True) / temperature
    labels = paddle.arange(12)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(f"step {step} loss {loss.item():.4f} temperature {temperature.item():.4f}")
top = logits.topk(1, axis=1)[1].flatten()
print("recall@1 %.3f" % (top == labels).astype("float32").mean())

anchor, positive, negative = (paddle.to_tensor(rng.randn(5, 4).astype("float32")) for _ in range(3))
print("%.4f" % F.triplet_margin_loss(anchor, positive, negative, margin=1.0))
print("%.4f" % nn.TripletMarginWithDistanceLoss(margin=0.5)(anchor, positive, negative))
target = paddle.to_tensor([1, -1, 1, 1, -1])
print("%.4f" % F.cosine_embedding_loss(anchor, positive, target, margin=0.1))
print(F.cosine_similarity(anchor, positive, axis=1).numpy().round(4))
print("%.4f" % F.npair_loss(anchor, positive, paddle.to_tensor([0, 1, 2, 0, 1]).astype("float32"), l2_reg=0.002))
print(paddle.cdist(anchor, negative).shape, F.pairwise_distance(anchor, positive).numpy().round(3))

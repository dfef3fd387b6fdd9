"""Metric learning: the hardest triplets of a batch, and the losses of pairs and triplets."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(3)
net = nn.Sequential(("fc1", nn.Linear(6, 16)), ("act", nn.PReLU(num_parameters=1, init=0.2)), ("fc2", nn.Linear(16, 4)))
for p in net.parameters():
    p.set_value(r.randn(*p.shape).astype("float32") * 0.3)
x = paddle.to_tensor(r.randn(12, 6).astype("float32"))
y = paddle.to_tensor(np.repeat(np.arange(3), 4))


def pairwise(e):
    sq = paddle.sum(e * e, axis=1, keepdim=True)
    d = sq + sq.t() - 2 * paddle.mm(e, e.t())
    return paddle.sqrt(paddle.clip(d, min=1e-12))


def batch_hard(e, y, margin=0.3):
    d = pairwise(e)
    same = paddle.equal(y.unsqueeze(0), y.unsqueeze(1)).astype("float32")
    pos = (d * same).max(axis=1)
    neg = (d + same * 1e5).min(axis=1)
    return F.relu(pos - neg + margin).mean(), pos, neg


opt = paddle.optimizer.AdamW(0.01, parameters=net.parameters(), weight_decay=0.02, apply_decay_param_fun=lambda n: "w_0" in n)
for i in range(3):
    e = F.normalize(net(x), axis=1)
    loss, pos, neg = batch_hard(e, y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(i, round(float(loss), 4), pos.shape, neg.numpy().mean().round(4))
a, p, n = e[0:3], e[1:4], e[8:11]
print(F.triplet_margin_loss(a, p, n, margin=1.0, p=2, swap=True).item())
print(nn.TripletMarginWithDistanceLoss(margin=0.5)(a, p, n))
print(nn.CosineEmbeddingLoss(margin=0.1)(a, p, paddle.to_tensor([1, -1, 1])))
print(nn.CosineSimilarity(axis=1)(a, n))
print(F.npair_loss(a, p, paddle.to_tensor([0.0, 1.0, 2.0])))
print(nn.MarginRankingLoss(margin=0.2)(pos, neg, paddle.ones_like(pos)))
print(paddle.topk(pairwise(e), k=3, axis=1, largest=False)[1][:, 1:].numpy().tolist())

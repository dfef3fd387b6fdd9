"""Implicit feedback: users and items by dot products, biases, ranking by pairs, top recommendations."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(114)
USERS, ITEMS, DIM = 8, 12, 5
likes = rng.rand(USERS, ITEMS) < 0.3


class MF(nn.Layer):
    def __init__(self):
        super().__init__()
        attr = lambda *shape: paddle.ParamAttr(initializer=nn.initializer.Assign((rng.randn(*shape) * 0.2).astype("float32")))
        self.user = nn.Embedding(USERS, DIM, weight_attr=attr(USERS, DIM))
        self.item = nn.Embedding(ITEMS, DIM, weight_attr=attr(ITEMS, DIM))
        self.bias = nn.Embedding(ITEMS, 1, weight_attr=nn.initializer.Constant(0.0))

    def forward(self, users, items):
        return (self.user(users) * self.item(items)).sum(axis=-1) + self.bias(items).squeeze(-1)


model = MF()
opt = paddle.optimizer.Adagrad(0.3, parameters=model.parameters(), weight_decay=1e-3)
for epoch in range(4):
    users, positive = np.nonzero(likes)
    negative = np.array([rng.choice(np.nonzero(~likes[u])[0]) for u in users])
    u, p, n = (paddle.to_tensor(v) for v in (users, positive, negative))
    loss = -F.log_sigmoid(model(u, p) - model(u, n)).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("epoch %d bpr %.4f" % (epoch, loss))
everyone = paddle.arange(USERS).unsqueeze(1).tile([1, ITEMS])
everything = paddle.arange(ITEMS).unsqueeze(0).expand([USERS, ITEMS])
scores = model(everyone, everything)
masked = paddle.where(paddle.to_tensor(likes), paddle.full_like(scores, -1e9), scores)
values, items = paddle.topk(masked, k=3, axis=1)
print(scores.shape, items.shape, not likes[np.arange(USERS)[:, None], items.numpy()].any())
print("%.3f" % (scores.numpy()[likes].mean() - scores.numpy()[~likes].mean()) > "0")

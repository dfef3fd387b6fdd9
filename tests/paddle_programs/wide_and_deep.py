"""Clicks: a linear part over crossed features, a factorization part, a deep part; Auc."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(60)
FIELDS, VOCAB, DIM = 4, 40, 6


class DeepFM(nn.Layer):
    def __init__(self):
        super().__init__()
        normal = nn.initializer.Assign((rng.randn(VOCAB, 1) * 0.1).astype("float32"))
        self.first = nn.Embedding(VOCAB, 1, weight_attr=paddle.ParamAttr(name="first_w", initializer=normal))
        factors = nn.initializer.Assign((rng.randn(VOCAB, DIM) * 0.1).astype("float32"))
        self.factors = nn.Embedding(VOCAB, DIM, weight_attr=paddle.ParamAttr(name="factors_w", initializer=factors))
        self.dense_w = self.create_parameter([1, 3], default_initializer=nn.initializer.Constant(0.1))
        sizes = [FIELDS * DIM + 3, 16, 8]
        self.mlp = nn.LayerList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])
        self.out = nn.Linear(8, 1)

    def forward(self, sparse, dense):
        first = self.first(sparse).sum(axis=1) + (dense * self.dense_w).sum(axis=1, keepdim=True)
        v = self.factors(sparse)
        second = 0.5 * (v.sum(axis=1) ** 2 - (v**2).sum(axis=1)).sum(axis=1, keepdim=True)
        h = paddle.concat([paddle.flatten(v, 1), dense], axis=1)
        for layer in self.mlp:
            h = F.relu(layer(h))
        return F.sigmoid(first + second + self.out(h))


model = DeepFM()
for name, p in model.named_parameters():
    if "mlp" in name or "out" in name:
        p.set_value((rng.randn(*p.shape) * 0.2).astype("float32"))
print([p.name for p in model.parameters()][:3])
opt = paddle.optimizer.Adam(0.01, parameters=model.parameters())
auc = paddle.metric.Auc(num_thresholds=200)
for batch in range(5):
    sparse = rng.randint(0, VOCAB, (32, FIELDS))
    dense = rng.rand(32, 3).astype("float32")
    label = ((sparse.sum(1) % 3 == 0) | (dense[:, 0] > 0.8)).astype("float32")[:, None]
    pred = model(paddle.to_tensor(sparse), paddle.to_tensor(dense))
    loss = F.log_loss(pred, paddle.to_tensor(label)).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    auc.update(paddle.concat([1 - pred, pred], axis=1).numpy(), label.astype("int64"))
    print("batch: %d loss: %.4f auc: %.3f" % (batch, loss.item(), auc.accumulate()))

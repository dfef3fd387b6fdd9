"""A mixture of experts: gates by softmax and by the two best, a loss that balances them."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(137)


class MoE(nn.Layer):
    def __init__(self, dim=6, experts=4, k=2):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias_attr=False)
        self.experts = nn.LayerList([nn.Sequential(nn.Linear(dim, 8), nn.Silu(), nn.Linear(8, dim)) for _ in range(experts)])
        self.k = k

    def forward(self, x):
        probs = F.softmax(self.gate(x), axis=-1)
        top, index = paddle.topk(probs, self.k, axis=-1)
        top = top / top.sum(axis=-1, keepdim=True)
        mask = F.one_hot(index, probs.shape[-1])
        weights = (mask * top.unsqueeze(-1)).sum(axis=1)
        outputs = paddle.stack([expert(x) for expert in self.experts], axis=1)
        y = (outputs * weights.unsqueeze(-1)).sum(axis=1)
        load = mask.sum(axis=1).mean(axis=0)
        balance = (load * probs.mean(axis=0)).sum() * probs.shape[-1]
        return y, balance, load


moe = MoE()
for p in moe.parameters():
    p.set_value((rng.randn(*p.shape) * 0.4).astype("float32"))
x = paddle.to_tensor(rng.randn(20, 6).astype("float32"))
target = paddle.to_tensor(rng.randn(20, 6).astype("float32"))
opt = paddle.optimizer.AdamW(0.01, parameters=moe.parameters())
for step in range(4):
    y, balance, load = moe(x)
    loss = F.mse_loss(y, target) + 0.01 * balance
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d loss %.4f balance %.4f" % (step, loss, balance), load.sum().item())
print(len(moe.experts), sum(p.size for p in moe.parameters()))

"""A decoder written out: causal mask, heads by reshape and transpose, a cache for generation."""

import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(58)


class CausalSelfAttention(nn.Layer):
    def __init__(self, embed, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(embed, 3 * embed)
        self.proj = nn.Linear(embed, embed)

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = paddle.split(self.qkv(x), 3, axis=-1)
        q, k, v = (t.reshape([B, -1, self.heads, C // self.heads]).transpose([0, 2, 1, 3]) for t in (q, k, v))
        if cache is not None:
            k, v = paddle.concat([cache[0], k], axis=2), paddle.concat([cache[1], v], axis=2)
        att = paddle.matmul(q, k, transpose_y=True) / math.sqrt(C // self.heads)
        length = k.shape[2]
        mask = paddle.tril(paddle.ones([length, length]))[length - T :]
        att = paddle.where(mask == 0, paddle.full_like(att, float("-inf")), att)
        y = paddle.matmul(F.softmax(att, axis=-1), v)
        return self.proj(y.transpose([0, 2, 1, 3]).reshape([B, T, C])), (k, v)


class GPT(nn.Layer):
    def __init__(self, vocab=16, embed=12, heads=3, block=10):
        super().__init__()
        self.wte = nn.Embedding(vocab, embed)
        self.wpe = nn.Embedding(block, embed)
        self.ln1 = nn.LayerNorm(embed)
        self.attn = CausalSelfAttention(embed, heads)
        self.ln2 = nn.LayerNorm(embed)
        self.mlp = nn.Sequential(nn.Linear(embed, 4 * embed), nn.GELU(approximate=True), nn.Linear(4 * embed, embed))
        self.head = nn.Linear(embed, vocab, bias_attr=False)

    def forward(self, idx, cache=None):
        past = 0 if cache is None else cache[0].shape[2]
        x = self.wte(idx) + self.wpe(paddle.arange(past, past + idx.shape[1]))
        a, cache = self.attn(self.ln1(x), cache)
        x = x + a
        return self.head(x + self.mlp(self.ln2(x))), cache


model = GPT()
for name, p in model.named_parameters():
    if "ln" not in name:
        p.set_value((rng.randn(*p.shape) * 0.2).astype("float32"))
print(sum(p.size for p in model.parameters()), sum([p.numel().item() for p in model.parameters()]))
data = paddle.to_tensor(np.tile(np.arange(16), 2)[None, :18].repeat(2, 0))
opt = paddle.optimizer.AdamW(0.02, parameters=model.parameters(), weight_decay=0.1, beta2=0.95)
for step in range(4):
    logits, _ = model(data[:, :9])
    loss = F.cross_entropy(logits.reshape([-1, 16]), data[:, 1:10].reshape([-1]))
    loss.backward()
    opt.step()
    opt.clear_grad(set_to_zero=False)
    print(f"step {step}: loss {loss:.4f}")
model.eval()
full, _ = model(data[:1, :5])
first, cache = model(data[:1, :3])
for i in range(3, 5):
    following, cache = model(data[:1, i : i + 1], cache)
print(np.allclose(full[:, -1].numpy(), following[:, -1].numpy(), atol=1e-4), cache[0].shape)

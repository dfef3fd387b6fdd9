"""MultiHeadAttention with masks of several types, caches, weights; scaled dot products by hand."""

import math

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(115)
attention = nn.MultiHeadAttention(8, 2, need_weights=True)
for p in attention.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
x = paddle.to_tensor(rng.randn(2, 4, 8).astype("float32"))
out, weights = attention(x, x, x)
print(out.shape, weights.shape, weights.sum(axis=-1).numpy().round(4).tolist()[0][0])
keep = paddle.tril(paddle.ones([4, 4])).astype("bool")
additive = paddle.where(keep, paddle.zeros([4, 4]), paddle.full([4, 4], -1e9))
by_bool, w1 = attention(x, x, x, attn_mask=keep)
by_float, w2 = attention(x, x, x, attn_mask=additive)
print(np.allclose(by_bool.numpy(), by_float.numpy(), atol=1e-5), w1.numpy()[0, 0, 0].round(4))
plain = nn.MultiHeadAttention(8, 2)
plain.set_state_dict(attention.state_dict())
cache = plain.gen_cache(x[:, :0], type=nn.MultiHeadAttention.Cache)
steps = []
for t in range(4):
    y, cache = plain(x[:, t : t + 1], x[:, t : t + 1], x[:, t : t + 1], cache=cache)
    steps.append(y)
print(np.allclose(paddle.concat(steps, axis=1).numpy(), by_bool.numpy(), atol=1e-5), cache.k.shape)
static = plain.gen_cache(x, x, type=nn.MultiHeadAttention.StaticCache)
print(plain(x[:, :1], x, x, cache=static)[0].shape)
q = paddle.to_tensor(rng.randn(2, 4, 2, 4).astype("float32"))
fused = F.scaled_dot_product_attention(q, q, q, is_causal=True)
scores = paddle.einsum("bqhd,bkhd->bhqk", q, q) / math.sqrt(4)
scores = scores + paddle.triu(paddle.full([4, 4], -1e9), 1)
by_hand = paddle.einsum("bhqk,bkhd->bqhd", F.softmax(scores, axis=-1), q)
print(np.allclose(fused.numpy(), by_hand.numpy(), atol=1e-5), fused.shape)
layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0)
for p in layer.parameters():
    if p.ndim == 2:
        p.set_value((rng.randn(*p.shape) * 0.2).astype("float32"))
print("%.4f" % layer(x, x, tgt_mask=additive, memory_mask=None).sum())

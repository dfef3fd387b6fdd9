"""A GRU encoder and decoder with additive attention over padded sentences, Noam's rate and clipping."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(0)


def fill(net, seed=0):
    r = np.random.RandomState(seed)
    for name, p in sorted(net.named_parameters()):
        p.set_value(r.uniform(-0.3, 0.3, p.shape).astype(p.numpy().dtype))


class Encoder(nn.Layer):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=0)
        self.gru = nn.GRU(emb, hid, num_layers=1, direction="bidirectional", time_major=False)
        self.fc = nn.Linear(2 * hid, hid)

    def forward(self, src, lens):
        out, h = self.gru(self.embedding(src), sequence_length=lens)
        return self.fc(out), F.tanh(self.fc(paddle.concat([h[0], h[1]], axis=-1)))


class BahdanauAttention(nn.Layer):
    def __init__(self, hid):
        super().__init__()
        self.w = nn.Linear(hid, hid)
        self.u = nn.Linear(hid, hid, bias_attr=False)
        self.v = nn.Linear(hid, 1)

    def forward(self, q, keys, mask):
        s = self.v(paddle.tanh(self.w(q).unsqueeze(1) + self.u(keys))).squeeze(-1)
        s = s - (1 - mask) * 1e9
        a = F.softmax(s, axis=-1)
        return paddle.bmm(a.unsqueeze(1), keys).squeeze(1), a


class Decoder(nn.Layer):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.cell = nn.GRUCell(emb + hid, hid)
        self.att = BahdanauAttention(hid)
        self.out = nn.Linear(hid * 2, vocab)

    def forward(self, token, h, keys, mask):
        c, a = self.att(h, keys, mask)
        o, h = self.cell(paddle.concat([self.embedding(token), c], -1), h)
        return self.out(paddle.concat([o, c], -1)), h, a


enc, dec = Encoder(11, 6, 8), Decoder(9, 6, 8)
fill(enc, 1)
fill(dec, 2)
src = paddle.to_tensor(rng.randint(1, 11, (4, 5)).astype("int64"))
lens = paddle.to_tensor([5, 4, 3, 2])
mask = (paddle.arange(5).unsqueeze(0) < lens.unsqueeze(1)).astype("float32")
src = src * mask.astype("int64")
tgt = paddle.to_tensor(rng.randint(1, 9, (4, 4)).astype("int64"))
opt = paddle.optimizer.Adam(
    learning_rate=paddle.optimizer.lr.NoamDecay(8, 3, learning_rate=1.0),
    parameters=enc.parameters() + dec.parameters(),
    grad_clip=nn.ClipGradByGlobalNorm(1.0),
)
for step in range(2):
    keys, h = enc(src, lens)
    loss = 0
    tok = paddle.zeros([4], dtype="int64")
    for i in range(2):
        logits, h, a = dec(tok, h, keys, mask)
        loss = loss + F.cross_entropy(logits, tgt[:, i])
        tok = tgt[:, i]
    loss = loss / 2
    loss.backward()
    opt.step()
    opt._learning_rate.step()
    opt.clear_grad()
    print(f"step {step} loss {loss.item():.4f} lr {opt.get_lr():.6f}")
print(a.numpy().round(3))
print(logits.argmax(-1).tolist())
print(enc)
print(dec)

"""nn.Transformer whole: encoder, decoder, causal mask, greedy decoding with a cache."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(93)
VOCAB, DIM = 14, 16


class Translator(nn.Layer):
    def __init__(self):
        super().__init__()
        self.src, self.tgt = nn.Embedding(VOCAB, DIM), nn.Embedding(VOCAB, DIM)
        self.transformer = nn.Transformer(DIM, 4, 1, 2, 32, dropout=0.0)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, src, tgt):
        mask = self.transformer.generate_square_subsequent_mask(tgt.shape[1])
        return self.out(self.transformer(self.src(src), self.tgt(tgt), tgt_mask=mask))


model = Translator()
for name, p in model.named_parameters():
    if "norm" not in name:
        p.set_value(rng.uniform(-0.25, 0.25, p.shape).astype("float32"))
print(len(model.state_dict()), model.transformer.generate_square_subsequent_mask(3).numpy())
source = rng.randint(2, VOCAB, (6, 5))
target = np.concatenate([np.ones((6, 1), "int64"), source[:, ::-1]], axis=1)
scheduler = paddle.optimizer.lr.NoamDecay(d_model=DIM, warmup_steps=4, learning_rate=0.5)
opt = paddle.optimizer.Adam(scheduler, beta1=0.9, beta2=0.98, epsilon=1e-9, parameters=model.parameters())
for step in range(3):
    logits = model(paddle.to_tensor(source), paddle.to_tensor(target[:, :-1]))
    loss = F.cross_entropy(logits, paddle.to_tensor(target[:, 1:]))
    loss.backward()
    opt.step()
    opt.clear_grad()
    scheduler.step()
    print("step %d loss %.4f lr %.5f" % (step, loss, opt.get_lr()))
model.eval()
memory = model.transformer.encoder(model.src(paddle.to_tensor(source[:2])))
cache = model.transformer.decoder.gen_cache(memory)
print(len(cache), type(cache[0][0]).__name__)
token = paddle.ones([2, 1], dtype="int64")
with_cache, everything = [], [token]
for _ in range(3):
    out, cache = model.transformer.decoder(model.tgt(token), memory, cache=cache)
    token = model.out(out)[:, -1:].argmax(axis=-1)
    with_cache.append(token)
for _ in range(3):
    tokens = paddle.concat(everything, axis=1)
    mask = model.transformer.generate_square_subsequent_mask(tokens.shape[1])
    out = model.transformer.decoder(model.tgt(tokens), memory, tgt_mask=mask)
    everything.append(model.out(out)[:, -1:].argmax(axis=-1))
print(paddle.concat(with_cache, axis=1).tolist() == paddle.concat(everything[1:], axis=1).tolist())

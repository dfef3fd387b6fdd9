"""A character model by nn.LSTM with carried states, and greedy sampling."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(10)
text = "hello world, hello paddle, hello lstm. " * 4
chars = sorted(set(text))
index = {c: i for i, c in enumerate(chars)}
data = np.array([index[c] for c in text], "int64")
print("vocab", len(chars), repr("".join(chars)))


class CharLM(nn.Layer):
    def __init__(self, vocab, hidden=24, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=layers, dropout=0.0)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, x, states=None):
        out, states = self.lstm(self.embedding(x), states)
        return self.fc(out), states


model = CharLM(len(chars))
for p in model.parameters():
    p.set_value(rng.uniform(-0.2, 0.2, p.shape).astype("float32"))
print([name for name, _ in model.lstm.named_parameters()])
opt = paddle.optimizer.Adam(0.02, parameters=model.parameters(), grad_clip=nn.ClipGradByNorm(5.0))
batch, steps = 2, 13
half = (len(data) - 1) // batch
xs = data[: batch * half].reshape(batch, half)
ys = data[1 : batch * half + 1].reshape(batch, half)
for epoch in range(3):
    states, total = None, 0.0
    for start in range(0, half - steps + 1, steps):
        x = paddle.to_tensor(xs[:, start : start + steps])
        y = paddle.to_tensor(ys[:, start : start + steps])
        logits, states = model(x, states)
        states = [s.detach() for s in states]
        loss = F.cross_entropy(logits.reshape([-1, len(chars)]), y.reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        total += float(loss)
    print(f"epoch {epoch}: perplexity {np.exp(total / (half // steps)):.3f}")
print([list(s.shape) for s in states])
token, states = paddle.to_tensor([[index["h"]]]), None
written = "h"
model.eval()
for _ in range(8):
    logits, states = model(token, states)
    token = paddle.argmax(logits[:, -1], axis=-1, keepdim=True)
    written += chars[token.item()]
print(len(written), written[0])

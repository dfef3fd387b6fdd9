"""A linear-chain CRF by hand: forward algorithm in log space, Viterbi by max and argmax."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(96)
TAGS = 4


class CRF(nn.Layer):
    def __init__(self):
        super().__init__()
        self.transitions = self.create_parameter([TAGS, TAGS], default_initializer=nn.initializer.Constant(0.0))
        self.start = self.create_parameter([TAGS], is_bias=True)

    def score(self, emissions, tags):
        total = self.start[tags[:, 0]] + paddle.take_along_axis(emissions[:, 0], tags[:, :1], axis=1).squeeze(1)
        for t in range(1, emissions.shape[1]):
            step = paddle.gather_nd(self.transitions, paddle.stack([tags[:, t - 1], tags[:, t]], axis=1))
            total = total + step + paddle.take_along_axis(emissions[:, t], tags[:, t : t + 1], axis=1).squeeze(1)
        return total

    def partition(self, emissions):
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            alpha = paddle.logsumexp(alpha.unsqueeze(2) + self.transitions.unsqueeze(0), axis=1) + emissions[:, t]
        return paddle.logsumexp(alpha, axis=1)

    def decode(self, emissions):
        best, back = self.start + emissions[:, 0], []
        for t in range(1, emissions.shape[1]):
            scores = best.unsqueeze(2) + self.transitions.unsqueeze(0)
            back.append(scores.argmax(axis=1))
            best = scores.max(axis=1) + emissions[:, t]
        tags = [best.argmax(axis=1)]
        for pointer in reversed(back):
            tags.append(paddle.take_along_axis(pointer, tags[-1].unsqueeze(1), axis=1).squeeze(1))
        return paddle.stack(tags[::-1], axis=1)


embedding, fc, crf = nn.Embedding(10, 6), nn.Linear(6, TAGS), CRF()
parameters = embedding.parameters() + fc.parameters() + crf.parameters()
for p in parameters[:3]:
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
words = paddle.to_tensor(rng.randint(0, 10, (5, 6)))
tags = paddle.to_tensor((words.numpy() + np.arange(6)) % TAGS)
opt = paddle.optimizer.Adam(0.05, parameters=parameters)
for step in range(4):
    emissions = fc(embedding(words))
    loss = (crf.partition(emissions) - crf.score(emissions, tags)).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d nll %.4f" % (step, loss))
decoded = crf.decode(fc(embedding(words)))
print(decoded.shape, (decoded == tags).astype("float32").mean().item() > 0.2, "%.4f" % crf.transitions.abs().sum())

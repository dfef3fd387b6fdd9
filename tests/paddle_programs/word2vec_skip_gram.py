"""Skip-gram with negative samples over a toy corpus."""

import collections
import random

import numpy as np
import paddle
from paddle.nn import Embedding
import paddle.nn.functional as F

random.seed(6)
np.random.seed(6)
corpus = "the quick brown fox jumps over the lazy dog while the small cat watches the quick dog from the brown wall".split()
counts = collections.Counter(corpus)
word2id = {word: i for i, (word, _) in enumerate(sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])))}
ids = [word2id[w] for w in corpus]
print("there are totally %d different words in the corpus" % len(word2id))


def samples(window=2, negatives=3):
    for center in range(len(ids)):
        context = [ids[i] for i in range(max(0, center - window), min(len(ids), center + window + 1)) if i != center]
        for positive in context:
            yield ids[center], positive, 1
            for _ in range(negatives):
                candidate = random.randint(0, len(word2id) - 1)
                if candidate not in context:
                    yield ids[center], candidate, 0


class SkipGram(paddle.nn.Layer):
    def __init__(self, vocab_size, embedding_size, init_scale=0.1):
        super(SkipGram, self).__init__()
        value = np.random.uniform(-init_scale, init_scale, (vocab_size, embedding_size)).astype("float32")
        other = np.random.uniform(-init_scale, init_scale, (vocab_size, embedding_size)).astype("float32")
        assign = paddle.nn.initializer.Assign
        self.embedding = Embedding(vocab_size, embedding_size, weight_attr=paddle.ParamAttr(initializer=assign(value)))
        self.embedding_out = Embedding(vocab_size, embedding_size, weight_attr=paddle.ParamAttr(initializer=assign(other)))

    def forward(self, center_words, target_words, label):
        center = self.embedding(center_words)
        target = self.embedding_out(target_words)
        word_sim = paddle.sum(paddle.multiply(center, target), axis=-1)
        pred = F.sigmoid(word_sim)
        loss = F.binary_cross_entropy_with_logits(word_sim, label)
        return pred, loss


model = SkipGram(len(word2id), 12)
adam = paddle.optimizer.Adam(learning_rate=0.02, parameters=model.parameters())
rows = list(samples())
print(len(rows))
for epoch in range(3):
    random.shuffle(rows)
    for step in range(0, len(rows) - 63, 64):
        batch = np.array(rows[step : step + 64])
        center, target = paddle.to_tensor(batch[:, 0]), paddle.to_tensor(batch[:, 1])
        pred, loss = model(center, target, paddle.to_tensor(batch[:, 2].astype("float32")))
        loss.backward()
        adam.step()
        adam.clear_grad()
    print("epoch %d, loss %.4f, mean %.4f" % (epoch, loss.numpy(), pred.numpy().mean()))

W = model.embedding.weight.numpy()
x = W[word2id["quick"]]
cos = np.dot(W, x) / np.sqrt(np.sum(W * W, axis=1) * np.sum(x * x) + 1e-9)
print(np.argsort(-cos)[0] == word2id["quick"], np.round(np.sort(cos)[-2:], 3))

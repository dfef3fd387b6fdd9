"""Sentences by convolutions of several widths and max pooling over time."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(75)
vocab = {w: i for i, w in enumerate("<pad> good bad film plot great awful the was really a".split())}
reviews = [
    ("the film was really good", 1),
    ("a great great plot", 1),
    ("the plot was awful", 0),
    ("a really bad film", 0),
    ("good film good plot", 1),
    ("bad bad awful", 0),
]


def encode(text, length=6):
    ids = [vocab[w] for w in text.split()]
    return ids[:length] + [0] * (length - len(ids))


class TextCNN(nn.Layer):
    def __init__(self, vocab_size, dim=8, filters=5, sizes=(2, 3), classes=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.convs = nn.LayerList([nn.Conv2D(1, filters, (k, dim)) for k in sizes])
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(filters * len(sizes), classes)

    def forward(self, x):
        x = self.embedding(x).unsqueeze(1)
        pooled = []
        for conv in self.convs:
            y = F.relu(conv(x)).squeeze(3)
            pooled.append(F.max_pool1d(y, y.shape[2]).squeeze(2))
        return self.fc(self.dropout(paddle.concat(pooled, 1)))


model = TextCNN(len(vocab))
for p in model.parameters():
    p.set_value(rng.uniform(-0.4, 0.4, p.shape).astype("float32"))
model.dropout.p = 0.0
x = paddle.to_tensor([encode(text) for text, _ in reviews])
y = paddle.to_tensor([[label] for _, label in reviews])
print(x.shape, x.dtype, x[2].tolist())
opt = paddle.optimizer.Adam(learning_rate=0.05, parameters=model.parameters())
for epoch in range(6):
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    acc = paddle.metric.accuracy(logits, y)
    print("epoch {} loss {:.4f} acc {:.3f}".format(epoch, loss.item(), acc.item()))
model.eval()
predicted = paddle.argmax(F.softmax(model(x), axis=1), axis=1)
print(["good" if p else "bad" for p in predicted.tolist()])

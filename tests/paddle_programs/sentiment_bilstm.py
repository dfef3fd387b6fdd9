"""A bidirectional LSTM over padded sentences with their lengths."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(41)


class SentimentClassifier(nn.Layer):
    def __init__(self, vocab_size, hidden_size, classes=2, num_layers=1):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size, padding_idx=0, sparse=False)
        self.lstm = nn.LSTM(hidden_size, hidden_size, num_layers, direction="bidirect")
        self.drop = nn.Dropout(p=0.0)
        self.cls = nn.Linear(2 * hidden_size, classes)

    def forward(self, inputs, lengths):
        embedded = self.drop(self.embedding(inputs))
        outputs, (last_hidden, last_cell) = self.lstm(embedded, sequence_length=lengths)
        forward, backward = last_hidden[-2], last_hidden[-1]
        return self.cls(paddle.concat([forward, backward], axis=-1)), outputs


model = SentimentClassifier(25, 8)
for p in model.parameters():
    p.set_value(rng.uniform(-0.25, 0.25, p.shape).astype("float32"))
print([(n, list(p.shape)) for n, p in model.lstm.named_parameters()][:4])
lengths = np.array([6, 2, 4, 5], "int64")
ids = rng.randint(1, 25, (4, 6))
for row, length in enumerate(lengths):
    ids[row, length:] = 0
labels = paddle.to_tensor(np.array([1, 0, 0, 1]))
metric = paddle.metric.Accuracy()
opt = paddle.optimizer.Adam(0.02, beta1=0.9, beta2=0.999, parameters=model.parameters())
for step in range(5):
    logits, outputs = model(paddle.to_tensor(ids), paddle.to_tensor(lengths))
    loss = nn.functional.cross_entropy(logits, labels)
    probs = nn.functional.softmax(logits)
    metric.update(metric.compute(probs, labels))
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d, loss %.5f, acc %.3f" % (step, loss, metric.accumulate()))
print("beyond the end:", float(outputs[1, 2:].abs().sum()))
metric.reset()
print(metric.name(), metric.accumulate())

"""Accuracy, Precision, Recall and Auc over batches, and a metric of one's own."""

import numpy as np
import paddle
from paddle.metric import Accuracy, Auc, Metric, Precision, Recall

rng = np.random.RandomState(46)
top = Accuracy(topk=(1, 2))
precision, recall, auc = Precision(), Recall(), Auc()
for batch in range(3):
    scores = rng.rand(10, 4).astype("float32")
    labels = rng.randint(0, 4, (10, 1))
    correct = top.compute(paddle.to_tensor(scores), paddle.to_tensor(labels))
    print(batch, [float(a) for a in top.update(correct)], correct.shape)
    binary = rng.rand(10, 1).astype("float32")
    truth = (binary + rng.randn(10, 1) * 0.4 > 0.5).astype("int64")
    precision.update(binary, truth)
    recall.update(binary, truth)
    auc.update(np.concatenate([1 - binary, binary], axis=1), truth)
print(top.name(), [round(float(a), 4) for a in top.accumulate()])
print(
    "%s %.4f %s %.4f %s %.4f"
    % (precision.name(), precision.accumulate(), recall.name(), recall.accumulate(), auc.name(), auc.accumulate())
)


class F1(Metric):
    def __init__(self):
        super().__init__()
        self.reset()

    def name(self):
        return "f1"

    def reset(self):
        self.tp = self.fp = self.fn = 0

    def update(self, preds, labels):
        hits = np.asarray(preds).ravel() > 0.5
        truth = np.asarray(labels).ravel() == 1
        self.tp += int((hits & truth).sum())
        self.fp += int((hits & ~truth).sum())
        self.fn += int((~hits & truth).sum())

    def accumulate(self):
        return 2 * self.tp / max(1, 2 * self.tp + self.fp + self.fn)


f1 = F1()
f1.update(paddle.to_tensor([0.9, 0.2, 0.7]).numpy(), np.array([1, 1, 0]))
print(f1.name(), f1.accumulate())
value = paddle.metric.accuracy(paddle.to_tensor([[0.1, 0.9], [0.8, 0.2], [0.6, 0.4]]), paddle.to_tensor([[1], [1], [0]]), k=1)
print(value)
top.reset()
print([float(a) for a in top.accumulate()])

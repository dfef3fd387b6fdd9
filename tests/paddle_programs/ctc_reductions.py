"""CTC with each reduction, and the greedy decoder."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(7)
logits = paddle.to_tensor(r.randn(6, 2, 5).astype("float32"), stop_gradient=False)
labels = paddle.to_tensor([[1, 2, 2], [3, 4, 0]], dtype="int32")
for red in ("mean", "sum", "none"):
    print(F.ctc_loss(logits, labels, paddle.to_tensor([6, 5]), paddle.to_tensor([3, 2]), blank=0, reduction=red))
l = nn.CTCLoss(blank=0, reduction="mean")(
    F.log_softmax(logits, axis=-1), labels, paddle.to_tensor([6, 5], dtype="int64"), paddle.to_tensor([3, 2], dtype="int64")
)
l.backward()
print(l, logits.grad[0, 0])
best = logits.argmax(-1).transpose([1, 0])
print(best)


def greedy(p):
    out, prev = [], None
    for c in p.tolist():
        if c != prev and c != 0:
            out.append(c)
        prev = c
    return out


print([greedy(b) for b in best])
print(F.sequence_mask(paddle.to_tensor([1, 3]), 4), nn.CTCLoss())

"""A recogniser of sequences by CTC: loss per example, greedy decoding."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(59)


class Recogniser(nn.Layer):
    def __init__(self, classes=5):
        super().__init__()
        self.conv = nn.Conv1D(6, 10, kernel_size=3, padding=1)
        self.norm = nn.LayerNorm(10)
        self.rnn = nn.GRU(10, 8, direction="bidirectional")
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = F.relu(self.conv(x.transpose([0, 2, 1]))).transpose([0, 2, 1])
        out, _ = self.rnn(self.norm(x))
        return self.fc(out)


model = Recogniser()
for name, p in model.named_parameters():
    if "norm" not in name:
        p.set_value(rng.uniform(-0.4, 0.4, p.shape).astype("float32"))
x = paddle.to_tensor(rng.randn(3, 9, 6).astype("float32"))
labels = paddle.to_tensor(np.array([[1, 2, 2], [3, 1, 0], [4, 4, 2]], "int32"))
label_lengths = paddle.to_tensor(np.array([3, 2, 3], "int64"))
input_lengths = paddle.to_tensor(np.array([9, 7, 9], "int64"))
ctc = nn.CTCLoss(blank=0, reduction="mean")
opt = paddle.optimizer.Adam(0.02, parameters=model.parameters())
for step in range(5):
    logits = model(x)
    loss = ctc(logits.transpose([1, 0, 2]), labels, input_lengths, label_lengths)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d ctc %.4f" % (step, loss))
each = F.ctc_loss(logits.transpose([1, 0, 2]), labels, input_lengths, label_lengths, blank=0, reduction="none")
print(each.shape, each.numpy().ravel().round(3))


def decode(row):
    best = row.argmax(axis=-1).tolist()
    return [c for i, c in enumerate(best) if c and (i == 0 or c != best[i - 1])]


print([len(decode(row)) <= 9 for row in model(x)])

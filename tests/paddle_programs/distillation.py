"""A small network learns from a large one: KL divergence at a temperature."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(50)


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.Hardswish()]
    net = nn.Sequential(*layers[:-1])
    for p in net.parameters():
        p.set_value((rng.randn(*p.shape) / np.sqrt(p.shape[0])).astype("float32"))
    return net


class DistillationLoss(nn.Layer):
    def __init__(self, temperature, alpha):
        super().__init__()
        self.temperature = temperature
        self.alpha = alpha
        self.kl = nn.KLDivLoss(reduction="batchmean")

    def forward(self, student, teacher, labels):
        t = self.temperature
        soft = self.kl(F.log_softmax(student / t, axis=-1), F.softmax(teacher / t, axis=-1)) * t * t
        hard = F.cross_entropy(student, labels)
        return self.alpha * soft + (1 - self.alpha) * hard, soft, hard


teacher, student = mlp([8, 32, 5]), mlp([8, 8, 5])
teacher.eval()
criterion = DistillationLoss(temperature=3.0, alpha=0.7)
opt = paddle.optimizer.Adam(learning_rate=0.02, parameters=student.parameters())
x = paddle.to_tensor(rng.randn(20, 8).astype("float32"))
with paddle.no_grad():
    target = teacher(x)
labels = target.argmax(axis=1)
print(target.stop_gradient, labels.dtype)
for step in range(6):
    loss, soft, hard = criterion(student(x), target, labels)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print(f"step {step}: loss {loss:.4f} soft {soft:.4f} hard {hard:.4f}")
agreement = (student(x).argmax(axis=1) == labels).astype("float32").mean()
print("agreement", agreement.item())

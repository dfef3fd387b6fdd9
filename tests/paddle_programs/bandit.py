"""Policies for a bandit: softmax preferences by REINFORCE with a baseline, UCB by tensors."""

import numpy as np
import paddle
import paddle.nn.functional as F

rng = np.random.RandomState(118)
means = np.array([0.2, 0.5, 0.8])
logits = paddle.zeros([3])
logits.stop_gradient = False
opt = paddle.optimizer.SGD(0.4, parameters=[logits])
baseline = 0.0
for step in range(30):
    probs = F.softmax(logits)
    action = int(np.searchsorted(np.cumsum(probs.numpy()), rng.rand() * 0.999))
    reward = float(rng.rand() < means[action])
    loss = -paddle.log(probs[action]) * (reward - baseline)
    loss.backward()
    opt.step()
    opt.clear_grad()
    baseline += (reward - baseline) / (step + 1)
    if step % 10 == 9:
        print(step, F.softmax(logits).numpy().round(4), "%.3f" % baseline)
counts, sums = paddle.ones([3]), paddle.to_tensor(means.astype("float32"))
for step in range(20):
    bound = sums / counts + paddle.sqrt(2 * paddle.log(counts.sum()) / counts)
    arm = bound.argmax()
    reward = float(rng.rand() < means[arm.item()])
    counts = counts + F.one_hot(arm, 3)
    sums = sums + reward * F.one_hot(arm, 3)
print(counts.numpy(), sums.sum().item() <= 23)

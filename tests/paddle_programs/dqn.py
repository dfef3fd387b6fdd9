"""Q-learning with a target network and a buffer of transitions."""

import collections
import random

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(71)
random.seed(71)


class QNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        return self.fc2(nn.functional.relu(self.fc1(x)))


q, target = QNet(), QNet()
for p in q.parameters():
    p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
target.set_state_dict(q.state_dict())
print(all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(q.parameters(), target.parameters())))
memory = collections.deque(maxlen=200)
for _ in range(100):
    state = rng.randn(4).astype("float32")
    action = rng.randint(2)
    memory.append((state, action, float(state[action] > 0), (state + 0.1).astype("float32"), float(rng.rand() < 0.1)))
opt = paddle.optimizer.RMSProp(learning_rate=0.01, parameters=q.parameters())
gamma = 0.9
for step in range(6):
    batch = random.sample(list(memory), 16)
    states, actions, rewards, following, done = (np.array(part) for part in zip(*batch))
    states, following = paddle.to_tensor(states), paddle.to_tensor(following)
    rewards = paddle.to_tensor(rewards, dtype="float32")
    done = paddle.to_tensor(done, dtype="float32")
    onehot = nn.functional.one_hot(paddle.to_tensor(actions), 2)
    values = paddle.sum(q(states) * onehot, axis=1)
    with paddle.no_grad():
        best = target(following).max(axis=1)
        wanted = rewards + gamma * best * (1.0 - done)
    loss = nn.functional.mse_loss(values, wanted)
    opt.clear_grad()
    loss.backward()
    opt.step()
    if step % 3 == 2:
        target.set_state_dict(q.state_dict())
    print("step %d loss %.4f q %.4f" % (step, loss.item(), values.mean().item()))
tau = 0.1
for ours, theirs in zip(q.parameters(), target.parameters()):
    theirs.set_value(tau * ours + (1 - tau) * theirs)
print("%.4f" % sum(float(p.abs().sum()) for p in target.parameters()))
state = paddle.to_tensor([[0.5, -0.5, 0.0, 1.0]])
print(q(state).argmax().item() in (0, 1), paddle.argmax(q(state), axis=-1).numpy().shape)

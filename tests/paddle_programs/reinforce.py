"""REINFORCE on a corridor: actions are drawn by numpy from the policy's probabilities."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(14)


class Corridor:
    """Walk from 0 to 4; each step costs"""

    def reset(self):
        self.place, self.steps = 0, 0
        return self.observe()

    def observe(self):
        state = np.zeros(5, "float32")
        state[self.place] = 1.0
        return state

    def step(self, action):
        self.place = max(0, min(4, self.place + (1 if action else -1)))
        self.steps += 1
        done = self.place == 4 or self.steps == 12
        return self.observe(), 1.0 if self.place == 4 else -0.1, done


class Policy(nn.Layer):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(5, 8)
        self.affine2 = nn.Linear(8, 2)

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.affine1(x))), axis=-1)


policy = Policy()
for p in policy.parameters():
    p.set_value(rng.uniform(-0.5, 0.5, p.shape).astype("float32"))
optimizer = paddle.optimizer.Adam(parameters=policy.parameters(), learning_rate=0.05)
env, gamma = Corridor(), 0.9
for episode in range(8):
    state, log_probs, rewards, done = env.reset(), [], [], False
    while not done:
        probs = policy(paddle.to_tensor(state).unsqueeze(0))
        action = int(rng.rand() < probs.numpy()[0, 1])
        log_probs.append(paddle.log(probs[0, action]))
        state, reward, done = env.step(action)
        rewards.append(reward)
    returns, value = [], 0.0
    for reward in rewards[::-1]:
        value = reward + gamma * value
        returns.insert(0, value)
    returns = paddle.to_tensor(returns)
    if len(rewards) > 1:
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    policy_loss = paddle.stack([-log_prob * r for log_prob, r in zip(log_probs, returns)]).sum()
    optimizer.clear_grad()
    policy_loss.backward()
    optimizer.step()
    print(f"Episode {episode}\tlength: {len(rewards):2d}\treward: {sum(rewards):.1f}\tloss: {policy_loss.item():.4f}")
print(policy(paddle.eye(5)).argmax(-1).tolist())

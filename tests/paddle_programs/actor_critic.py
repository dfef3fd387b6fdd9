"""Advantages, entropies and a clipped ratio: one update of PPO by hand."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(72)


class ActorCritic(nn.Layer):
    def __init__(self, states=6, actions=3):
        super().__init__()
        self.shared = nn.Linear(states, 12)
        self.policy = nn.Linear(12, actions)
        self.value = nn.Linear(12, 1)

    def forward(self, x):
        h = paddle.tanh(self.shared(x))
        return F.log_softmax(self.policy(h), axis=-1), self.value(h).squeeze(-1)


model = ActorCritic()
for p in model.parameters():
    p.set_value((rng.randn(*p.shape) * 0.4).astype("float32"))
opt = paddle.optimizer.Adam(3e-3, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(0.5))
states = paddle.to_tensor(rng.randn(20, 6).astype("float32"))
actions = paddle.to_tensor(rng.randint(0, 3, [20]).astype("int64"))
rewards = rng.randn(20).astype("float32")
with paddle.no_grad():
    old_logp, old_values = model(states)
    old = paddle.take_along_axis(old_logp, actions.unsqueeze(1), axis=1).squeeze(1)
returns, value = np.zeros(20, "float32"), 0.0
for t in reversed(range(20)):
    value = rewards[t] + 0.95 * value
    returns[t] = value
returns = paddle.to_tensor(returns)
advantage = returns - old_values
advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
for epoch in range(5):
    logp, values = model(states)
    chosen = paddle.take_along_axis(logp, actions.unsqueeze(1), axis=1).squeeze(1)
    ratio = paddle.exp(chosen - old)
    surrogate = paddle.minimum(ratio * advantage, paddle.clip(ratio, 0.8, 1.2) * advantage)
    entropy = -(logp.exp() * logp).sum(axis=-1).mean()
    critic = F.mse_loss(values, returns)
    loss = -surrogate.mean() + 0.5 * critic - 0.01 * entropy
    opt.clear_grad()
    loss.backward()
    opt.step()
    kl = (old - chosen).mean()
    print(f"epoch {epoch} loss {float(loss):.4f} entropy {float(entropy):.4f} kl {float(kl):.5f} ratio {ratio.max().item():.4f}")

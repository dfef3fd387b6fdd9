"""Proximal policy optimisation: advantages, a clipped ratio, two groups of parameters, clipping in place."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(1)
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
critic = nn.Linear(4, 1)
for p in actor.parameters() + critic.parameters():
    p.set_value(r.randn(*p.shape).astype("float32") * 0.3)
obs = paddle.to_tensor(r.randn(16, 4).astype("float32"))
act = paddle.to_tensor(r.randint(0, 3, 16))
rew = paddle.to_tensor(r.rand(16).astype("float32"))


def gae(rew, val, gamma=0.99, lam=0.95):
    adv = paddle.zeros_like(rew)
    last = 0.0
    for t_ in reversed(range(rew.shape[0])):
        nxt = val[t_ + 1] if t_ + 1 < rew.shape[0] else 0.0
        delta = rew[t_] + gamma * nxt - val[t_]
        last = delta + gamma * lam * last
        adv[t_] = last
    return adv


with paddle.no_grad():
    val = critic(obs).squeeze(-1)
    adv = gae(rew, val)
    ret = adv + val
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    old = paddle.distribution.Categorical(actor(obs)).log_prob(act)
print(adv[:4], old[:3])
opt = paddle.optimizer.Adam(
    3e-3, parameters=[{"params": actor.parameters()}, {"params": critic.parameters(), "learning_rate": 2.0}]
)
for ep in range(3):
    dist = paddle.distribution.Categorical(logits=actor(obs))
    ratio = paddle.exp(dist.log_prob(act) - old)
    s1, s2 = ratio * adv, paddle.clip(ratio, 0.8, 1.2) * adv
    pl = -paddle.minimum(s1, s2).mean()
    vl = F.smooth_l1_loss(critic(obs).squeeze(-1), ret, delta=0.5)
    loss = pl + 0.5 * vl - 0.01 * dist.entropy().mean()
    opt.clear_grad()
    loss.backward()
    gn = nn.utils.clip_grad_norm_(actor.parameters(), max_norm=0.5)
    opt.step()
    print(f"{ep} {pl.item():.4f} {vl.item():.4f} {gn.item():.4f}")
print(paddle.mean(paddle.cast(paddle.abs(ratio - 1) > 0.2, "float32")))
nn.utils.clip_grad_value_(actor.parameters(), 0.1)
print(max(p.grad.abs().max().item() for p in actor.parameters()) <= 0.1001)

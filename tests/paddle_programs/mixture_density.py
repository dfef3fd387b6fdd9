"""A mixture density network, trained by two optimizers in turn."""

import numpy as np

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

r = np.random.RandomState(2)


class MDN(nn.Layer):
    def __init__(self, k=3):
        super().__init__()
        self.h = nn.Linear(1, 8)
        self.pi = nn.Linear(8, k)
        self.mu = nn.Linear(8, k)
        self.sigma = nn.Linear(8, k)

    def forward(self, x):
        h = paddle.tanh(self.h(x))
        return F.log_softmax(self.pi(h), -1), self.mu(h), F.softplus(self.sigma(h)) + 1e-3


net = MDN()
for p in net.parameters():
    p.set_value(r.randn(*p.shape).astype("float32") * 0.5)
x = paddle.linspace(-1, 1, 20).unsqueeze(-1)
y = paddle.sin(3 * x) + 0.1


def nll(x, y):
    lp, mu, s = net(x)
    comp = -0.5 * ((y - mu) / s) ** 2 - paddle.log(s) - 0.5 * float(np.log(2 * np.pi))
    return -paddle.logsumexp(lp + comp, axis=-1).mean()


opt = paddle.optimizer.NAdam(0.05, parameters=net.parameters())
for i in range(4):
    l = nll(x, y)
    l.backward()
    opt.step()
    opt.clear_grad()
    print(l)
opt2 = paddle.optimizer.RAdam(0.05, parameters=net.parameters())
for i in range(2):
    l = nll(x, y)
    l.backward()
    opt2.minimize(l)
    opt2.clear_gradients()
    print(f"{float(l):.5f}")
lp, mu, s = net(x)
d = paddle.distribution.Categorical(lp)
print(d.entropy().mean(), d.probs(paddle.zeros([20], dtype="int64")).shape)
print(paddle.distribution.Normal(mu, s).log_prob(y).shape)

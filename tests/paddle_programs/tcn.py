"""Causal dilated convolutions with residuals and weight normalization over sequences."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.utils import weight_norm

rng = np.random.RandomState(136)


class Chomp(nn.Layer):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size] if self.size else x


class Block(nn.Layer):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        padding = 2 * dilation
        conv = nn.Conv1D(cin, cout, 3, padding=padding, dilation=dilation)
        conv.weight.set_value((rng.randn(*conv.weight.shape) * 0.3).astype("float32"))
        conv.bias.set_value(np.zeros([cout], "float32"))
        self.net = nn.Sequential(weight_norm(conv), Chomp(padding), nn.ReLU())
        self.skip = nn.Conv1D(cin, cout, 1, weight_attr=nn.initializer.Constant(0.2)) if cin != cout else None

    def forward(self, x):
        return F.relu(self.net(x) + (x if self.skip is None else self.skip(x)))


model = nn.Sequential(*[Block(1 if i == 0 else 4, 4, 2**i) for i in range(3)])
head = nn.Linear(4, 1, weight_attr=nn.initializer.Constant(0.3))
opt = paddle.optimizer.Adam(0.01, parameters=model.parameters() + head.parameters())
series = paddle.to_tensor(rng.randn(4, 1, 16).astype("float32"))
target = paddle.cumsum(series, axis=-1).squeeze(1) * 0.2
for step in range(4):
    out = head(model(series).transpose([0, 2, 1])).squeeze(-1)
    loss = F.mse_loss(out, target)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d %.5f" % (step, loss))
changed = series.clone()
changed[:, :, 10:] = 0
early = head(model(changed).transpose([0, 2, 1])).squeeze(-1)[:, :10]
again = head(model(series).transpose([0, 2, 1])).squeeze(-1)[:, :10]
print("causal:", np.allclose(early.numpy(), again.numpy(), atol=1e-6), len(model.parameters()))

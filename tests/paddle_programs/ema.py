"""Exponential moving average written by hand over named parameters, applied and restored."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(18)


class EMA:
    def __init__(self, model, decay):
        self.model = model
        self.decay = decay
        self.shadow = {}
        self.backup = {}

    def register(self):
        for name, param in self.model.named_parameters():
            if not param.stop_gradient:
                self.shadow[name] = param.numpy().copy()

    def update(self):
        for name, param in self.model.named_parameters():
            if not param.stop_gradient:
                self.shadow[name] = (1.0 - self.decay) * param.numpy() + self.decay * self.shadow[name]

    def apply(self):
        for name, param in self.model.named_parameters():
            if not param.stop_gradient:
                self.backup[name] = param.numpy().copy()
                param.set_value(self.shadow[name].astype("float32"))

    def restore(self):
        for name, param in self.model.named_parameters():
            if name in self.backup:
                param.set_value(self.backup[name])
        self.backup = {}


model = nn.Sequential(nn.Linear(5, 8), nn.Softplus(), nn.Linear(8, 1))
for p in model.parameters():
    p.set_value(rng.randn(*p.shape).astype("float32") * 0.4)
model[0].bias.stop_gradient = True
ema = EMA(model, 0.8)
ema.register()
print(sorted(ema.shadow))
opt = paddle.optimizer.RMSProp(0.02, parameters=model.parameters())
x = paddle.to_tensor(rng.randn(24, 5).astype("float32"))
y = paddle.to_tensor(rng.randn(24, 1).astype("float32"))
for step in range(5):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    ema.update()
    print("step %d loss %.4f" % (step, loss.numpy()))
now = nn.functional.mse_loss(model(x), y).item()
ema.apply()
averaged = nn.functional.mse_loss(model(x), y).item()
ema.restore()
print("%.4f %.4f %s" % (now, averaged, now == nn.functional.mse_loss(model(x), y).item()))

"""A training loop in a class, with callbacks of one's own, a log of history, and resuming from the best epoch."""

import json

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(138)


class Callback:
    def on_epoch_end(self, trainer, epoch, logs):
        pass


class History(Callback):
    def __init__(self):
        self.logs = []

    def on_epoch_end(self, trainer, epoch, logs):
        self.logs.append({"epoch": epoch, **{k: round(v, 4) for k, v in logs.items()}})


class Best(Callback):
    def __init__(self, path):
        self.path, self.best = path, float("inf")

    def on_epoch_end(self, trainer, epoch, logs):
        if logs["val"] < self.best:
            self.best = logs["val"]
            paddle.save(trainer.model.state_dict(), self.path)


class Trainer:
    def __init__(self, model, opt, callbacks):
        self.model, self.opt, self.callbacks = model, opt, callbacks

    def fit(self, train, val, epochs):
        for epoch in range(epochs):
            self.model.train()
            loss = nn.functional.mse_loss(self.model(train[0]), train[1])
            loss.backward()
            self.opt.step()
            self.opt.clear_grad()
            self.model.eval()
            with paddle.no_grad():
                score = nn.functional.mse_loss(self.model(val[0]), val[1])
            for callback in self.callbacks:
                callback.on_epoch_end(self, epoch, {"loss": loss.item(), "val": score.item(), "lr": self.opt.get_lr()})


model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
for p in model.parameters():
    p.set_value((rng.randn(*p.shape) * 0.5).astype("float32"))
x = rng.randn(30, 3).astype("float32")
y = (x.sum(1, keepdims=True) * 0.5).astype("float32")
train = [paddle.to_tensor(v[:20]) for v in (x, y)]
val = [paddle.to_tensor(v[20:]) for v in (x, y)]
history, best = History(), Best("best.pdparams")
opt = paddle.optimizer.Adadelta(1.0, epsilon=1e-4, parameters=model.parameters())
Trainer(model, opt, [history, best]).fit(train, val, 5)
for row in history.logs:
    print(json.dumps(row))
model.set_state_dict(paddle.load("best.pdparams"))
print("%.4f" % best.best, abs(nn.functional.mse_loss(model(val[0]), val[1]).item() - best.best) < 1e-6)

"""Warm-up before a cosine, and what every schedule gives and keeps."""

import numpy as np

import paddle
import paddle.nn as nn

base = paddle.optimizer.lr.CosineAnnealingDecay(0.1, T_max=6)
w = paddle.optimizer.lr.LinearWarmup(base, warmup_steps=3, start_lr=0.0, end_lr=0.1, verbose=True)
p = paddle.create_parameter([2], "float32", default_initializer=nn.initializer.Constant(1.0))
opt = paddle.optimizer.Momentum(w, 0.9, parameters=[p], use_nesterov=True, weight_decay=paddle.regularizer.L2Decay(0.01))
for i in range(6):
    (p * p).sum().backward()
    opt.step()
    opt.clear_grad()
    print(i, opt.get_lr(), p.numpy())
    w.step()
print(w.state_dict())
print(w.last_lr, w.last_epoch, w.base_lr, base.last_epoch)
print(paddle.optimizer.lr.PolynomialDecay(0.1, 5, 0.01, 2.0, cycle=True)())
s = paddle.optimizer.lr.ReduceOnPlateau(0.1, mode="min", factor=0.5, patience=1, cooldown=1, verbose=True)
for m in [1.0, 0.9, 0.95, 0.97, 0.99, 1.2, 1.1]:
    s.step(paddle.to_tensor(m))
    print(round(s(), 5))
print(s.state_dict())
for cls, args in [
    ("OneCycleLR", (0.1, 6)),
    ("CyclicLR", (0.01, 0.1, 2)),
    ("CosineAnnealingWarmRestarts", (0.1, 2)),
    ("MultiplicativeDecay", (0.1, lambda e: 0.9)),
    ("LinearLR", (0.1, 3)),
    ("InverseTimeDecay", (0.1, 0.5)),
    ("NaturalExpDecay", (0.1, 0.5)),
    ("PiecewiseDecay", ([2, 4], [0.1, 0.05, 0.01])),
    ("LambdaDecay", (0.1, lambda e: 1 / (e + 1))),
    ("MultiStepDecay", (0.1, [1, 3])),
]:
    s = getattr(paddle.optimizer.lr, cls)(*args)
    rates = []
    for _ in range(6):
        rates.append(round(s.get_lr(), 6))
        s.step()
    print(cls, rates, s.last_epoch)
    print(s.state_dict())

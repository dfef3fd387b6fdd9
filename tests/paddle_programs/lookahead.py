"""Slow and fast weights by paddle.incubate.LookAhead."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(19)
layer = nn.Linear(6, 1)
for p in layer.parameters():
    p.set_value(rng.randn(*p.shape).astype("float32"))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=layer.parameters())
lookahead = paddle.incubate.LookAhead(optimizer, alpha=0.5, k=3)
x = paddle.to_tensor(rng.randn(20, 6).astype("float32"))
y = paddle.to_tensor(rng.randn(20, 1).astype("float32"))
for step in range(7):
    loss = nn.functional.mse_loss(layer(x), y)
    loss.backward()
    lookahead.step()
    lookahead.clear_grad()
    print("step %d loss %.4f" % (step, loss))
print(layer.bias.numpy())

"""Every optimizer on the same small problem, three steps each."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(44)
w0 = rng.randn(5, 1).astype("float32")
x = paddle.to_tensor(rng.randn(30, 5).astype("float32"))
y = paddle.to_tensor(rng.randn(30, 1).astype("float32"))
o = paddle.optimizer
makers = {
    "SGD": lambda p: o.SGD(learning_rate=0.1, parameters=p),
    "Momentum": lambda p: o.Momentum(learning_rate=0.1, momentum=0.9, parameters=p, use_nesterov=True),
    "Adam": lambda p: o.Adam(learning_rate=0.1, parameters=p),
    "AdamW": lambda p: o.AdamW(learning_rate=0.1, parameters=p, weight_decay=0.1),
    "Adamax": lambda p: o.Adamax(learning_rate=0.1, parameters=p),
    "Adagrad": lambda p: o.Adagrad(learning_rate=0.1, parameters=p, initial_accumulator_value=0.1),
    "Adadelta": lambda p: o.Adadelta(learning_rate=1.0, parameters=p, epsilon=1e-4, rho=0.9),
    "RMSProp": lambda p: o.RMSProp(learning_rate=0.05, parameters=p, centered=True),
    "Lamb": lambda p: o.Lamb(learning_rate=0.1, parameters=p, lamb_weight_decay=0.05),
    "NAdam": lambda p: o.NAdam(learning_rate=0.1, parameters=p),
    "RAdam": lambda p: o.RAdam(learning_rate=0.1, parameters=p),
    "ASGD": lambda p: o.ASGD(learning_rate=0.1, batch_num=2, parameters=p),
    "Rprop": lambda p: o.Rprop(learning_rate=0.05, parameters=p),
}
for name, make in makers.items():
    layer = nn.Linear(5, 1, weight_attr=nn.initializer.Assign(w0), bias_attr=nn.initializer.Constant(0.3))
    opt = make(layer.parameters())
    losses = []
    for _ in range(3):
        loss = nn.functional.mse_loss(layer(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append("%.4f" % loss.item())
    print(type(opt).__name__, losses, layer.weight.numpy().ravel().round(4)[:2], layer.bias.numpy().round(4))
layer = nn.Linear(5, 1, weight_attr=nn.initializer.Assign(w0), bias_attr=False)
lbfgs = o.LBFGS(learning_rate=1.0, max_iter=4, line_search_fn="strong_wolfe", parameters=layer.parameters())


def closure():
    lbfgs.clear_grad()
    loss = nn.functional.mse_loss(layer(x), y)
    loss.backward()
    return loss


for _ in range(2):
    print("LBFGS %.4f" % lbfgs.step(closure).item())

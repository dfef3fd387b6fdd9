"""One body, two heads, learned weights of the losses, and gradients of each task by itself."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(98)


class MultiTask(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 10), nn.Softsign())
        self.kind = nn.Linear(10, 3)
        self.amount = nn.Linear(10, 1)
        self.log_vars = self.create_parameter([2], default_initializer=nn.initializer.Constant(0.0))

    def forward(self, x):
        h = self.body(x)
        return {"kind": self.kind(h), "amount": self.amount(h).squeeze(-1)}


model = MultiTask()
for name, p in model.named_parameters():
    if name != "log_vars":
        p.set_value((rng.randn(*p.shape) * 0.4).astype("float32"))
x = paddle.to_tensor(rng.randn(14, 6).astype("float32"))
kind = paddle.to_tensor(rng.randint(0, 3, [14]))
amount = paddle.to_tensor(rng.rand(14).astype("float32"))
opt = paddle.optimizer.Adamax(0.02, parameters=model.parameters())
for step in range(4):
    out = model(x)
    losses = [F.cross_entropy(out["kind"], kind), F.mse_loss(out["amount"], amount)]
    total = sum(paddle.exp(-v) * l + v for l, v in zip(losses, model.log_vars))
    total.backward()
    opt.step()
    opt.clear_grad()
    print("step %d kind %.4f amount %.4f" % (step, *[l.item() for l in losses]), model.log_vars.numpy().round(4))
out = model(x)
shared = model.body[0].weight
grads = []
for loss in (F.cross_entropy(out["kind"], kind), F.mse_loss(out["amount"], amount)):
    grads.append(paddle.grad(loss, shared, retain_graph=True)[0].flatten())
cosine = F.cosine_similarity(grads[0], grads[1], axis=0)
print(
    "%.4f" % cosine.item(), [round(float(g.norm()), 4) for g in grads], shared.grad is None or float(shared.grad.abs().sum()) == 0
)

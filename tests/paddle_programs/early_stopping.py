"""Training with a validation set, a rate that falls on a plateau, the best weights kept."""

import copy

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(70)
paddle.seed(1)
x = rng.randn(60, 4).astype("float32")
y = (x[:, :1] * 2 - x[:, 1:2] + 0.3 * rng.randn(60, 1)).astype("float32")
train_x, train_y, val_x, val_y = (paddle.to_tensor(v) for v in (x[:40], y[:40], x[40:], y[40:]))
model = nn.Sequential(nn.Linear(4, 12), nn.ELU(), nn.Linear(12, 1))
for p in model.parameters():
    p.set_value(rng.uniform(-0.5, 0.5, p.shape).astype("float32"))
scheduler = paddle.optimizer.lr.ReduceOnPlateau(learning_rate=0.3, factor=0.5, patience=1, mode="min")
opt = paddle.optimizer.SGD(scheduler, parameters=model.parameters())
best, best_state, waited, patience = float("inf"), None, 0, 4
for epoch in range(15):
    model.train()
    loss = nn.functional.smooth_l1_loss(model(train_x), train_y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    model.eval()
    with paddle.no_grad():
        val = nn.functional.mse_loss(model(val_x), val_y)
    scheduler.step(val)
    if val < best - 1e-4:
        best, waited = float(val), 0
        best_state = copy.deepcopy(model.state_dict())
    else:
        waited += 1
    if epoch % 3 == 0:
        print("epoch {:2d} train {:.4f} val {:.4f} lr {:.4f}".format(epoch, float(loss), float(val), opt.get_lr()))
    if waited >= patience:
        print("stopped at", epoch)
        break
model.set_state_dict(best_state)
print("best %.4f again %.4f" % (best, nn.functional.mse_loss(model(val_x), val_y)))

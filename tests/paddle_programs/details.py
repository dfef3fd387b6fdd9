"""Small things that programs print: rates of schedules asked for by hand, results with names, clips, limits of types"""

import numpy as np

import paddle
import paddle.nn as nn

for scheduler in (
    paddle.optimizer.lr.CosineAnnealingDecay(0.1, 4),
    paddle.optimizer.lr.LinearLR(0.1, 5),
    paddle.optimizer.lr.StepDecay(0.1, 2),
    paddle.optimizer.lr.ExponentialDecay(0.1, 0.9),
):
    for epoch in range(7):
        print(type(scheduler).__name__, epoch, "%.6f" % scheduler(), "%.6f" % scheduler.get_lr())
        scheduler.step()
cosine = paddle.optimizer.lr.CosineAnnealingDecay(0.5, 10, eta_min=0.1)
cosine.step(7)
print("%.6f" % cosine())
cosine.step()
print("%.6f" % cosine(), {name: round(value, 5) for name, value in cosine.state_dict().items()})
resumed = paddle.optimizer.lr.CosineAnnealingDecay(0.5, 10, eta_min=0.1)
resumed.set_state_dict(cosine.state_dict())
resumed.step()
print("%.6f" % resumed())

scores = paddle.to_tensor([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]])
best = paddle.topk(scores, 2)
print(best.values.tolist() == best[0].tolist(), best.indices.tolist())
values, indices = scores.topk(1)
print(indices.tolist())
print(paddle.topk(paddle.to_tensor([1.0, 3.0, 2.0]), 1))
rows, columns = paddle.where(scores > 0.25)
print(rows.shape, rows.tolist(), columns.tolist())
print([axis.tolist() for axis in paddle.nonzero(scores > 0.25, as_tuple=True)], paddle.nonzero(scores > 0.25).shape)
print(paddle.inner(paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([5, 6])))

for clip in (nn.ClipGradByGlobalNorm(1.0), nn.ClipGradByNorm(2.5), nn.ClipGradByValue(3.0), nn.ClipGradByValue(2.0, -0.5)):
    print(clip)
for name in ("float16", "bfloat16", "float32", "float64"):
    print(paddle.finfo(name))
for name in ("int8", "uint8", "int16", "int32", "int64"):
    print(paddle.iinfo(name))
count = paddle.zeros([1])
for _ in range(3):
    paddle.increment(count, 2.0)
print(count.item(), np.asarray(count).tolist())

recurrent = nn.LSTM(2, 3, 2, direction="bidirect")
print(list(recurrent.state_dict()))
print([name for name, _ in recurrent.named_sublayers()], len(recurrent.parameters()))
recurrent.weight_ih_l0.set_value(paddle.ones_like(recurrent.weight_ih_l0))
print(recurrent.state_dict()["0.cell_fw.weight_ih"].sum().item())
print(nn.SimpleRNN(2, 3, activation="relu"), nn.GRU(2, 3, 2, dropout=0.1))

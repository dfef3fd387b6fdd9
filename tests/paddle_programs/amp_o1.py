"""Automatic mixed precision, level O1, with a scaler of losses, in bfloat16 on the processor."""

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(16)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))
for p in model.parameters():
    if p.ndim == 2:
        p.set_value(rng.randn(*p.shape).astype("float32") * 0.2)
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
scaler = paddle.amp.GradScaler(init_loss_scaling=1024, enable=False)
x = paddle.to_tensor(rng.randn(8, 16).astype("float32"))
y = paddle.to_tensor(rng.randint(0, 4, [8]))
for step in range(4):
    with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
        hidden = model[0](x)
        output = model(x)
        loss = nn.functional.cross_entropy(output, y)
    scaled = scaler.scale(loss)
    scaled.backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.clear_grad()
    print(step, "%.2f" % float(loss), "bfloat16" in str(hidden.dtype), "float32" in str(loss.dtype))
print("float32" in str(model[0].weight.dtype), model[0].weight.grad is None or float(model[0].weight.grad.abs().sum()) == 0)
with paddle.amp.auto_cast(enable=False):
    print("float32" in str(model(x).dtype))
with paddle.amp.auto_cast(custom_black_list={"linear", "matmul", "matmul_v2"}, dtype="bfloat16"):
    print(str(model[0](x).dtype).endswith("float32"))
print(scaler.is_enable(), scaler.is_use_dynamic_loss_scaling())

"""Level O2: weights in bfloat16, master weights in the optimizer."""

import numpy as np
import paddle
from paddle import nn

rng = np.random.RandomState(17)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.norm(self.fc1(x))))


net = Net()
for p in (net.fc1.weight, net.fc2.weight):
    p.set_value(rng.uniform(-0.4, 0.4, p.shape).astype("float32"))
opt = paddle.optimizer.AdamW(learning_rate=0.01, parameters=net.parameters(), multi_precision=True)
net, opt = paddle.amp.decorate(models=net, optimizers=opt, level="O2", dtype="bfloat16", master_weight=True)
x = paddle.to_tensor(rng.randn(16, 8).astype("float32"))
y = paddle.to_tensor((rng.rand(16, 2)).astype("float32"))
for step in range(4):
    with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
        out = net(x)
        loss = nn.functional.mse_loss(out.astype("float32"), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d loss %.2f %s" % (step, loss, str(out.dtype).split(".")[-1]))

"""What level O2 makes of weights, and of the optimizer's state."""

import paddle
from paddle import nn

net = nn.Sequential(nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.Flatten(), nn.Linear(8, 2))
opt = paddle.optimizer.Adam(learning_rate=0.01, parameters=net.parameters(), multi_precision=True)
net, opt = paddle.amp.decorate(models=net, optimizers=opt, level="O2", dtype="bfloat16")
for name, p in net.named_parameters():
    print(name, p.dtype)
with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
    loss = net(paddle.ones([2, 1, 4, 4])).astype("float32").mean()
loss.backward()
print(net[3].weight.grad.dtype, net[1].weight.grad.dtype)
opt.step()
opt.clear_grad()
print(net[0].weight.dtype)

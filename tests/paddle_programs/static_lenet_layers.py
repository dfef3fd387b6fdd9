"""nn.Layer within a static program, as paddle.Model does it, and its weights by state_dict."""

import numpy as np
import paddle
import paddle.nn as nn

paddle.enable_static()
rng = np.random.RandomState(36)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(1, 3, 3, weight_attr=nn.initializer.Assign(rng.randn(3, 1, 3, 3).astype("float32") * 0.2))
        self.pool = nn.AvgPool2D(2)
        self.fc = nn.Linear(3 * 3 * 3, 2, weight_attr=nn.initializer.Assign(rng.randn(27, 2).astype("float32") * 0.2))

    def forward(self, x):
        x = nn.functional.relu(self.conv(x))
        return self.fc(paddle.flatten(self.pool(x), 1))


main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    net = Net()
    x = paddle.static.data("x", [None, 1, 8, 8], "float32")
    label = paddle.static.data("label", [None], "int64")
    logits = net(x)
    loss = nn.CrossEntropyLoss()(logits, label)
    opt = paddle.optimizer.Adam(0.01, parameters=net.parameters())
    opt.minimize(loss)
print(logits.shape, [p.name for p in net.parameters()])
exe = paddle.static.Executor()
exe.run(startup)
images = rng.rand(6, 1, 8, 8).astype("float32")
labels = rng.randint(0, 2, 6).astype("int64")
for step in range(4):
    value, scores = exe.run(main, feed={"x": images, "label": labels}, fetch_list=[loss, logits])
    print("step %d loss %.5f first %s" % (step, value, np.round(scores[0], 4)))
state = main.state_dict()
print(sorted(k for k in state if "moment" not in k and "pow" not in k and "learning" not in k))
print(
    sum(
        int(np.prod(np.array(v).shape))
        for k, v in state.items()
        if k.startswith(("conv", "linear")) and "moment" not in k and "pow" not in k
    )
)

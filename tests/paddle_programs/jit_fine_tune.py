"""A saved network is loaded as a layer, trained further, and saved again."""

import numpy as np
import paddle
import paddle.nn as nn
from paddle.static import InputSpec

rng = np.random.RandomState(90)


class LinearNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self._linear = nn.Linear(8, 3)

    @paddle.jit.to_static
    def forward(self, x):
        return self._linear(x)


def train(layer, opt, epochs):
    layer.train()
    for _ in range(epochs):
        loss = nn.functional.cross_entropy(layer(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        print("loss %.5f" % loss.item())


x = paddle.to_tensor(rng.randn(16, 8).astype("float32"))
y = paddle.to_tensor(rng.randint(0, 3, (16, 1)))
net = LinearNet()
net._linear.weight.set_value((rng.randn(8, 3) * 0.3).astype("float32"))
train(net, paddle.optimizer.SGD(0.3, parameters=net.parameters()), 2)
net.eval()
paddle.jit.save(net, "linear_net", input_spec=[InputSpec([None, 8], "float32")])

loaded = paddle.jit.load("linear_net")
loaded.eval()
print(np.allclose(loaded(x).numpy(), net(x).numpy(), atol=1e-6), len(loaded.parameters()))
print([tuple(p.shape) for p in loaded.parameters()] in ([(8, 3), (3,)], [(3,), (8, 3)]))
train(loaded, paddle.optimizer.SGD(0.3, parameters=loaded.parameters()), 2)
paddle.jit.save(loaded, "fine_tuned", input_spec=[x])
again = paddle.jit.load("fine_tuned")
print(np.allclose(again(x).numpy(), loaded(x).numpy(), atol=1e-6))

"""A Layer that makes its parameters itself, adds sublayers by name, and keeps buffers."""

import numpy as np
import paddle
from paddle.nn.initializer import Assign, Constant

rng = np.random.RandomState(49)


class MyLinear(paddle.nn.Layer):
    def __init__(self, in_features, out_features, value):
        super().__init__()
        weight = self.create_parameter(
            shape=[in_features, out_features], attr=paddle.ParamAttr(initializer=Assign(value)), dtype="float32"
        )
        self.add_parameter("weight", weight)
        self.bias = self.create_parameter([out_features], is_bias=True, default_initializer=Constant(0.5))
        self.scale = paddle.create_parameter([1], "float32", default_initializer=Constant(2.0))
        self.register_buffer("calls", paddle.to_tensor([0]))

    def forward(self, x):
        self.calls += 1
        return (paddle.matmul(x, self.weight) + self.bias) * self.scale

    def extra_repr(self):
        return f"in={self.weight.shape[0]}, out={self.weight.shape[1]}"


class Net(paddle.nn.Layer):
    def __init__(self, depth):
        super().__init__("my_net")
        for i in range(depth):
            self.add_sublayer(f"layer_{i}", MyLinear(3, 3, np.eye(3, dtype="float32") * (i + 1)))
        self.depth = depth
        self.optional = None

    def forward(self, x):
        for i in range(self.depth):
            x = paddle.tanh(getattr(self, f"layer_{i}")(x))
        return x


net = Net(2)
print(net)
print(net.full_name(), [name for name, _ in net.named_parameters()])
x = paddle.to_tensor(rng.randn(2, 3).astype("float32"))
print(net(x).numpy().round(4))
net(x)
print(net.layer_0.calls, {k: v.shape for k, v in net.state_dict().items() if "calls" in k})
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
net(x).sum().backward()
opt.step()
opt.clear_grad()
print(net.layer_1.scale.numpy(), net.layer_0.bias.numpy().round(4))
net.train()
print(net.training, net.layer_0.training)
net.apply(lambda layer: setattr(layer, "seen", True))
print(all(layer.seen for layer in net.sublayers(include_self=True)))
net.to(dtype="float64")
print(net.layer_0.weight.dtype, net(x.astype("float64")).dtype)
try:
    net.layer_0.weight = "no parameter"
except TypeError as error:
    print("TypeError")
del net.layer_1
print(hasattr(net, "layer_1"), len(net.sublayers()))

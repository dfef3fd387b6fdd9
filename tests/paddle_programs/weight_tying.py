"""Shared parameters counted once, tied decoders, layers used twice, deep copies apart."""

import copy

import numpy as np
import paddle
import paddle.nn as nn

rng = np.random.RandomState(102)


class Tied(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 5)
        self.mix = nn.Linear(5, 5)
        self.norm = nn.LayerNorm(5)
        self.again = self.mix
        self.decoder = nn.Linear(5, 9)
        self.decoder.weight = self.create_parameter([5, 9])

    def forward(self, ids):
        h = self.norm(self.again(paddle.tanh(self.mix(self.embed(ids)))))
        return paddle.matmul(h, self.embed.weight, transpose_y=True)


net = Tied()
net.embed.weight.set_value(rng.randn(9, 5).astype("float32") * 0.3)
net.mix.weight.set_value(rng.randn(5, 5).astype("float32") * 0.3)
print([name for name, _ in net.named_parameters()])
print(len(net.parameters()), len(list(net.named_sublayers())), net.again is net.mix)
ids = paddle.to_tensor([[1, 2, 3], [4, 5, 6]])
opt = paddle.optimizer.SGD(0.5, parameters=net.parameters())
twin = copy.deepcopy(net)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(ids), paddle.to_tensor([[2, 3, 4], [5, 6, 7]]))
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("%.5f" % loss)
print(net.decoder.weight.grad is None, np.allclose(twin.embed.weight.numpy(), net.embed.weight.numpy()))
twin.set_state_dict(net.state_dict())
print(np.allclose(twin(ids).numpy(), net(ids).numpy()), twin.embed.weight is net.embed.weight)
print(sorted(net.state_dict()) == sorted(twin.state_dict()), len(net.state_dict()))
layers = nn.LayerList([copy.deepcopy(net.mix) for _ in range(2)])
layers[0].weight.set_value(np.zeros([5, 5], "float32"))
print(float(layers[1].weight.abs().sum()) > 0, [p.name == net.mix.weight.name for p in layers[0].parameters()][:1])

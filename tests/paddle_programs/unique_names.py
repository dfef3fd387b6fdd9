"""How parameters and layers are named, and what a guard of unique names changes."""

import paddle
import paddle.nn as nn

first, second = nn.Linear(2, 2), nn.Linear(2, 2)
print(first.weight.name, first.bias.name, second.weight.name, first.full_name(), second.full_name())
print(nn.Conv2D(1, 1, 1).weight.name, nn.BatchNorm1D(2).weight.name, nn.Embedding(2, 2).weight.name, nn.LayerNorm(2).bias.name)
with paddle.utils.unique_name.guard():
    again = nn.Linear(2, 2)
    print(again.weight.name)
with paddle.utils.unique_name.guard("new_"):
    print(nn.Linear(2, 2).weight.name)
print(nn.Linear(2, 2).weight.name, paddle.utils.unique_name.generate("fc"), paddle.utils.unique_name.generate("fc"))
named = nn.Linear(2, 2, weight_attr=paddle.ParamAttr(name="mine"), name="layer")
print(named.weight.name, named.bias.name)
print(nn.LSTM(2, 3).parameters()[0].name, [p.name for p in nn.GRUCell(2, 3).parameters()])
print([p.name for p in nn.MultiHeadAttention(4, 2).parameters()][:3])
print(nn.Sequential(nn.Linear(1, 1)).full_name(), nn.LayerList().full_name(), nn.TransformerEncoderLayer(4, 2, 8).full_name())


class Net(nn.Layer):
    def __init__(self):
        super().__init__(name_scope="Special")
        self.w = self.create_parameter([1])
        self.fc = nn.Linear(1, 1)


net = Net()
print(net.full_name(), net.w.name, net.fc.weight.name)
p = paddle.create_parameter([2], "float32", name="free")
print(p.name, p.shape, p.trainable, p.persistable, p.is_leaf, paddle.create_parameter([2], "float32").name.split("_")[0])

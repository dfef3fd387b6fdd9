"""A graph convolution by send_u_recv and segment sums, and by a dense adjacency."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(61)
NODES = 7
source = np.array([0, 1, 2, 3, 4, 5, 6, 0, 2, 5], "int64")
target = np.array([1, 2, 3, 4, 5, 6, 0, 3, 6, 1], "int64")
src = paddle.to_tensor(np.concatenate([source, target, np.arange(NODES)]))
dst = paddle.to_tensor(np.concatenate([target, source, np.arange(NODES)]))
degree = paddle.geometric.segment_sum(paddle.ones([len(src)]), paddle.sort(dst))
print(degree.numpy())


class GCNConv(nn.Layer):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias_attr=False)
        self.bias = self.create_parameter([outputs], is_bias=True)

    def forward(self, x):
        norm = degree.pow(-0.5).unsqueeze(1)
        h = self.linear(x) * norm
        h = paddle.geometric.send_u_recv(h, src, dst, reduce_op="sum")
        return h * norm + self.bias


class GCN(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(5, 8), GCNConv(8, 3)

    def forward(self, x):
        return self.conv2(F.relu(self.conv1(x)))


model = GCN()
for p in model.parameters():
    p.set_value((rng.randn(*p.shape) * 0.5).astype("float32"))
x = paddle.to_tensor(rng.randn(NODES, 5).astype("float32"))
y = paddle.to_tensor(rng.randint(0, 3, NODES))
train_mask = paddle.to_tensor([True, True, False, True, False, True, True])
opt = paddle.optimizer.Adam(0.05, parameters=model.parameters())
for epoch in range(4):
    logits = model(x)
    loss = F.cross_entropy(logits[train_mask], y[train_mask])
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("epoch %d loss %.4f" % (epoch, loss.item()))
adjacency = paddle.zeros([NODES, NODES])
adjacency = paddle.scatter_nd_add(adjacency, paddle.stack([dst, src], axis=1), paddle.ones([len(src)]))
norm = degree.pow(-0.5)
dense = (norm.unsqueeze(1) * adjacency * norm.unsqueeze(0)) @ model.conv1.linear(x) + model.conv1.bias
print(np.allclose(dense.numpy(), model.conv1(x).numpy(), atol=1e-5), int((logits.argmax(1) == y).sum()) <= NODES)
print(paddle.geometric.segment_max(x, paddle.to_tensor([0, 0, 1, 1, 1, 2, 2])).shape)

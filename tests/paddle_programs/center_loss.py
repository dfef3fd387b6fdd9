"""Centres of classes that move by hand beside a loss that moves the features."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(113)


class CenterLoss(nn.Layer):
    def __init__(self, classes, features, alpha=0.5):
        super().__init__()
        self.alpha = alpha
        self.register_buffer("centers", paddle.zeros([classes, features]))

    def forward(self, x, labels):
        picked = paddle.gather(self.centers, labels)
        if self.training:
            difference = picked - x.detach()
            counts = paddle.bincount(labels, minlength=self.centers.shape[0]).astype("float32")
            change = paddle.scatter_nd_add(paddle.zeros_like(self.centers), labels.unsqueeze(1), difference)
            self.centers = self.centers - self.alpha * change / (1 + counts.unsqueeze(1))
        return ((x - picked) ** 2).sum(axis=1).mean() / 2


features, head, center = nn.Linear(5, 2), nn.Linear(2, 3), CenterLoss(3, 2)
for layer in (features, head):
    layer.weight.set_value((rng.randn(*layer.weight.shape) * 0.5).astype("float32"))
labels = paddle.to_tensor(np.arange(15) % 3)
x = paddle.to_tensor((rng.randn(15, 5) + (np.arange(15) % 3)[:, None]).astype("float32"))
opt = paddle.optimizer.SGD(0.1, parameters=features.parameters() + head.parameters())
for step in range(4):
    z = features(x)
    c = center(z, labels)
    loss = F.cross_entropy(head(z), labels) + 0.1 * c
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d loss %.4f center %.4f" % (step, loss, c), center.centers.numpy().round(3).tolist()[0])
center.eval()
before = center.centers.numpy()
center(features(x), labels)
print(np.array_equal(before, center.centers.numpy()), list(center.state_dict()), center.centers.stop_gradient)

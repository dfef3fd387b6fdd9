"""paddle.summary and counts of parameters."""

import numpy as np
import paddle
import paddle.nn as nn


class LeNet(nn.Layer):
    def __init__(self, num_classes=10):
        super(LeNet, self).__init__()
        self.num_classes = num_classes
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, stride=1, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 5, stride=1, padding=0),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
        )
        if num_classes > 0:
            self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10))

    def forward(self, inputs):
        x = self.features(inputs)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self.fc(x)
        return x


lenet = LeNet()
params_info = paddle.summary(lenet, (1, 1, 28, 28))
print({name: int(count) for name, count in params_info.items()})
total = sum(int(np.prod(p.shape)) for p in lenet.parameters())
trainable = sum(int(p.size) for p in lenet.parameters() if not p.stop_gradient)
print(total, trainable)


class Two(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.fc = nn.Linear(12, 3)

    def forward(self, ids, dense):
        return self.fc(paddle.concat([self.embed(ids).mean(axis=1), dense], axis=1))


paddle.summary(Two(), [(2, 5), (2, 4)], dtypes=["int64", "float32"])
paddle.summary(nn.LSTM(3, 5), (2, 4, 3))

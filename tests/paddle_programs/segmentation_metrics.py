"""A segmentation head with auxiliary loss, ignored pixels, IoU and Dice over classes."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

rng = np.random.RandomState(133)


class Segmenter(nn.Layer):
    def __init__(self, classes=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(3, 6, 3, stride=2, padding=1), nn.BatchNorm2D(6), nn.ReLU())
        self.context = nn.Conv2D(6, 6, 3, padding=2, dilation=2)
        self.head = nn.Conv2D(6, classes, 1)
        self.aux = nn.Conv2D(6, classes, 1)

    def forward(self, x):
        low = self.stem(x)
        high = F.relu(self.context(low)) + low
        resize = lambda t: F.interpolate(t, size=x.shape[2:], mode="bilinear", align_corners=True)
        return (resize(self.head(high)), resize(self.aux(low))) if self.training else resize(self.head(high))


model = Segmenter()
for p in model.parameters():
    if p.ndim == 4:
        p.set_value((rng.randn(*p.shape) * 0.3).astype("float32"))
x = paddle.to_tensor(rng.rand(2, 3, 8, 8).astype("float32"))
label = rng.randint(0, 3, (2, 8, 8)).astype("int64")
label[:, 0] = 255
label = paddle.to_tensor(label)
criterion = nn.CrossEntropyLoss(axis=1, ignore_index=255)
opt = paddle.optimizer.Momentum(0.1, parameters=model.parameters(), weight_decay=4e-5)
for step in range(4):
    main, aux = model(x)
    loss = criterion(main, label) + 0.4 * criterion(aux, label)
    loss.backward()
    opt.step()
    opt.clear_grad()
    print("step %d loss %.3f" % (step, loss))
model.eval()
predicted = model(x).argmax(axis=1)
keep = label != 255
ious = []
for c in range(3):
    inter = ((predicted == c) & (label == c) & keep).sum()
    union = (((predicted == c) | (label == c)) & keep).sum()
    ious.append((inter.astype("float32") / union.clip(min=1).astype("float32")).item())
print(len(ious), 0 <= np.mean(ious) <= 1, predicted.dtype, int(keep.sum()))

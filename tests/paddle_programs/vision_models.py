"""A network of paddle.vision, with its transforms."""

import numpy as np
import paddle
from paddle.vision.models import LeNet
from paddle.vision.transforms import Compose, Normalize, Transpose

paddle.seed(0)
transform = Compose([Transpose(), Normalize(mean=[127.5], std=[127.5])])
image = transform(np.full([28, 28, 1], 255, "uint8").astype("float32"))
print(image.shape, image.max())
net = LeNet(num_classes=10)
print(net(paddle.to_tensor(image[None])).shape)

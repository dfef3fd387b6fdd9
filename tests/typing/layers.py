"""A program that type checkers accept, and that runs: layers made, nested, called and trained, and ones of a user's own."""

from typing import Literal

import numpy as np

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import nn, static


class Block(nn.Layer):
    def __init__(self, width: int, layout: Literal["NCHW", "NHWC"] = "NCHW") -> None:
        super().__init__()
        self.conv = nn.Conv2D(width, width, 3, padding=1, padding_mode="reflect", bias_attr=False, data_format=layout)
        self.norm = nn.BatchNorm2D(width, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(1.0)))
        self.scale = self.create_parameter([1], default_initializer=nn.initializer.Constant(0.5))
        self.act = nn.ReLU()

    def forward(self, x: paddle.Tensor, skip: bool = True) -> paddle.Tensor:
        y = self.act(self.norm(self.conv(x))) * self.scale
        return x + y if skip else y


class Classifier(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2D(1, 4, 3, stride=2, padding="SAME")
        self.blocks = nn.LayerList([Block(4), Block(4)])
        self.pool = nn.AdaptiveAvgPool2D((1, None))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 3))

    def forward(self, image: paddle.Tensor) -> paddle.Tensor:
        x = self.stem(image)
        for block in self.blocks:
            x = block(x, skip=True)
        assert isinstance(self.head[2], nn.Linear)
        logits: paddle.Tensor = self.head(self.pool(x))
        return logits


def trained(steps: int) -> list[float]:
    paddle.seed(0)
    net, criterion = Classifier(), nn.CrossEntropyLoss(reduction="mean", label_smoothing=0.1)
    image = paddle.to_tensor(np.random.default_rng(0).normal(size=(6, 1, 8, 8)).astype("float32"))
    label = paddle.to_tensor(np.array([0, 1, 2, 0, 1, 2]))
    losses = []
    for _ in range(steps):
        loss = criterion(net(image), label)
        loss.backward()
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter.set_value(parameter.numpy() - 0.1 * parameter.grad.numpy())
        net.clear_gradients()
        losses.append(float(loss.item()))
    return losses


def sequences() -> list[list[int]]:
    x = paddle.ones([2, 5, 3])
    y, (h, c) = nn.LSTM(3, 4, num_layers=2, direction="bidirect")(x)
    z, last = nn.GRU(8, 4)(y)
    attended = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, activation="gelu"), 2)(z)
    return [list(tensor.shape) for tensor in (h, c, last, attended.mean(axis=1))]


def symbolic() -> paddle.Variable:
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 3, 8, 8])
        y: paddle.Variable = nn.AvgPool2D(2)(nn.Conv2D(3, 4, 3, padding=1)(x))
        return F.softmax(nn.Flatten()(y))


def containers() -> int:
    named = nn.LayerDict({"up": nn.Linear(2, 3)})
    named["down"] = nn.Linear(3, 2)
    empty = nn.LayerList()
    empty.append(nn.ReLU())
    weights = nn.ParameterList([paddle.create_parameter([2], "float32")])
    nn.utils.weight_norm(named["up"])
    return sum(layer.out_features for layer in named.values()) + len(empty) + len(weights)


def main() -> None:
    losses = trained(4)
    assert losses[-1] < losses[0]
    assert sequences() == [[4, 2, 4], [4, 2, 4], [1, 2, 4], [2, 4]]
    assert symbolic().shape == (-1, 64)
    assert containers() == 7
    pooled, where = F.max_pool2d(paddle.ones([1, 1, 4, 4]), 2, return_mask=True)
    assert nn.MaxUnPool2D(2)(pooled, where).shape == [1, 1, 4, 4]
    assert nn.Linear(3, 4).eval().train().float().in_features == 3


if __name__ == "__main__":
    main()

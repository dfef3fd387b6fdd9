"""A program of somebody who trains eagerly, with layers, operators, metrics and data sets of their own: accepted by type checkers,
and run."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import nn
from onnxgrad.autograd import PyLayer, PyLayerContext
from onnxgrad.io import BatchSampler, DataLoader, Dataset, IterableDataset

Pair = tuple[npt.NDArray[np.float32], int]


class Clipped(PyLayer):
    """The identity, of which no gradient is longer than a limit."""

    @staticmethod
    def forward(ctx: PyLayerContext, x: paddle.Tensor, limit: float = 1.0) -> paddle.Tensor:
        ctx.save_for_backward(x)
        return x * limit

    @staticmethod
    def backward(ctx: PyLayerContext, gradient: paddle.Tensor) -> paddle.Tensor:
        (x,) = ctx.saved_tensor()
        return paddle.clip(gradient, -1.0, 1.0) * paddle.ones_like(x)


class Split(PyLayer):
    @staticmethod
    def forward(ctx: PyLayerContext, x: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        return x * 1.0, x * 2.0

    @staticmethod
    def backward(ctx: PyLayerContext, first: paddle.Tensor, second: paddle.Tensor) -> paddle.Tensor:
        return first + second * 2.0


class Gated(nn.Layer):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.gate = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))
        self.register_buffer("calls", paddle.zeros([1]))
        added: nn.Linear = self.add_sublayer("added", nn.Linear(width, width))
        assert added.in_features == width

    def forward(self, x: paddle.Tensor, scale: float = 1.0) -> tuple[paddle.Tensor, paddle.Tensor]:
        y = F.relu(self.linear(x)) * self.gate
        return y * scale, F.sigmoid(y)


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__("net")
        self.gated = Gated(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        y, gate = self.gated(x, scale=0.5)
        return self.head(Clipped.apply(y, 2.0) + gate)


class Points(Dataset[Pair]):
    def __init__(self, count: int) -> None:
        self.x = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)

    def __getitem__(self, number: int) -> Pair:
        return self.x[number], int(self.x[number].sum() > 0)

    def __len__(self) -> int:
        return len(self.x)


class Counted(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


class Largest(paddle.metric.Metric):
    def reset(self) -> None:
        self.largest = 0.0

    def update(self, scores: paddle.Tensor) -> None:
        self.largest = max(self.largest, float(scores.max()))

    def accumulate(self) -> float:
        return self.largest


def halved(layer: nn.Layer, inputs: tuple[paddle.Tensor, ...], output: paddle.Tensor) -> paddle.Tensor:
    return output * 0.5


def doubled(gradient: paddle.Tensor) -> paddle.Tensor:
    return gradient * 2.0


@paddle.no_grad()
def scored(net: Net, x: paddle.Tensor, *, best: bool = False) -> paddle.Tensor:
    scores = net(x)
    return scores.max(axis=1) if best else scores


@paddle.jit.to_static
def traced(x: paddle.Tensor, factor: float = 2.0) -> paddle.Tensor:
    return x * factor


def trained() -> tuple[float, float]:
    paddle.seed(0)
    net, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = paddle.optimizer.Adam(0.05, parameters=net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0))
    scheduler = paddle.optimizer.lr.StepDecay(0.05, step_size=2)
    accuracy, largest = paddle.metric.Accuracy(), Largest()
    losses: list[float] = []
    for _ in range(3):
        for x, label in DataLoader(Points(12), batch_size=4, shuffle=True):
            scores = net(x)
            loss = criterion(scores, label)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
            accuracy.update(accuracy.compute(scores, label))
            largest.update(scores)
        scheduler.step()
    value: float | list[float] = accuracy.accumulate()
    assert isinstance(value, float) and value > 0.4 and largest.accumulate() > 0.0
    return losses[0], losses[-1]


def hooked() -> list[float]:
    layer = nn.Linear(2, 1)
    handle = layer.register_forward_post_hook(halved)
    x = paddle.to_tensor([[1.0, 2.0]], stop_gradient=False)
    x.register_hook(doubled)
    y: paddle.Tensor = layer(x)
    y.sum().backward()
    handle.remove()
    assert x.grad is not None
    first, second = Split.apply(x)
    (slope,) = paddle.grad((first + second).sum(), x)
    assert slope.numpy().tolist() == [[6.0, 6.0]]  # by the hook, twice 1 + 2
    gradients: list[float] = x.grad.flatten().tolist()
    return gradients


def stored() -> bool:
    net, other = Net(), Net()
    state: dict[str, paddle.Tensor] = net.state_dict()
    missing, unexpected = other.set_state_dict(state)
    assert missing == [] and unexpected == []
    x = paddle.ones([2, 4])
    return bool(paddle.allclose(scored(net, x), scored(other, x)).item())


def main() -> None:
    first, last = trained()
    assert last < first
    assert len(hooked()) == 2 and stored()
    best: paddle.Tensor = scored(Net(), paddle.ones([3, 4]), best=True)
    assert best.shape == [3] and traced(paddle.ones([2]), factor=3.0).tolist() == [3.0, 3.0]
    assert [batch.tolist() for batch in DataLoader(Counted(), batch_size=2)] == [[0, 1], [2, 3]]
    numbers = list(BatchSampler(Points(4), batch_size=3))
    assert numbers[-1] == [3]
    sample: Pair = Points(3)[0]
    assert sample[0].shape == (4,) and paddle.io.Subset(Points(3), [1])[0][1] in (0, 1)


if __name__ == "__main__":
    main()

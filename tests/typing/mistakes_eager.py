"""Mistakes of those who write layers, operators and data sets of their own, each of which a type checker finds on its line."""

import numpy as np

import onnxgrad as paddle
from onnxgrad import distributed, io, nn, static
from onnxgrad.autograd import PyLayer, PyLayerContext

x = paddle.ones([2, 3])


class Cube(PyLayer):
    @staticmethod
    def forward(ctx: PyLayerContext, x: paddle.Tensor, scale: float = 1.0) -> paddle.Tensor:
        ctx.save_for_backward(x, scale)  # error
        ctx.saved_for_backward(x)  # error
        return x * scale

    @staticmethod
    def backward(ctx: PyLayerContext, gradient: paddle.Tensor) -> paddle.Tensor:
        (number,) = ctx.saved_tensor()
        text: str = number  # error
        return gradient


class Own(nn.Layer):
    def forward(self, x: paddle.Tensor, depth: int = 1) -> tuple[paddle.Tensor, int]:
        return x, depth


class Points(io.Dataset[int]):
    def __getitem__(self, number: int) -> str:  # error
        return "point"


@paddle.no_grad()
def halved(x: paddle.Tensor) -> paddle.Tensor:
    return x * 0.5


@paddle.jit.to_static
def doubled(x: paddle.Tensor) -> paddle.Tensor:
    return x * 2.0


def called() -> None:
    Cube.apply("x")  # error
    Cube.apply(x, scal=2.0)  # error
    Cube.apply(x, 1.0, 2.0)  # error
    number: int = Cube.apply(x)  # error
    layer = Own()
    layer("x")  # error
    layer(x, deep=2)  # error
    single: paddle.Tensor = layer(x)  # error
    layer(x)[2]  # error
    layer.paramters()  # error
    layer.register_forward_post_hook(3)  # error
    layer.set_state_dict([x])  # error
    wrapped = distributed.DataParallel(layer)
    wrapped("x")  # error
    wrapped.no_such_member()  # error
    both: str = wrapped(x)  # error
    distributed.DataParallel(3)  # error
    distributed.fleet.distributed_optimizer(3)  # error
    distributed.fleet.distributed_optimizer(paddle.optimizer.SGD(0.1)).mimimize(x)  # error
    halved("x")  # error
    halved(x, 2)  # error
    word: str = halved(x)  # error
    doubled(3, 4)  # error
    value: int = doubled(x)  # error


def data() -> None:
    io.DataLoader(Points(), batch_sampler=[0, 1])  # error
    io.DataLoader(Points(), collate=len)  # error
    io.DataLoader(3)  # error
    io.Subset(Points(), 3)  # error
    io.random_split(Points(), "half")  # error
    first: str = io.BatchSampler(Points(), batch_size=2).batch_size  # error
    paddle.metric.Accuracy().compute("scores", x)  # error
    paddle.metric.Accuracy().acumulate()  # error


def values() -> None:
    scope = static.global_scope()
    scope.gett("x")  # error
    scope.set("x", static.data("v", [1]))  # error
    array: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = scope.get("x")  # error
    static.OpenVINOPlace("f16")  # error
    static.CPUPlace(3)  # error
    paddle.save(halved, "file")  # error
    paddle.load(3)  # error
    paddle.to_tensor(io)  # error
    x.set_value(None)  # error
    x.item("0")  # error
    x[1.5]  # error
    x["name"]  # error
    x.shape.rank  # error
    x.register_hook(lambda: 3)  # error
    static.nn.while_loop(3, lambda i: i, [x])  # error
    paddle.where(x > 0, x).shape  # error
    paddle.nonzero(x).as_tuple  # error
    paddle.nonzero(x, as_tuple=True).shape  # error
    paddle.unique(x, return_counts=True).shape  # error
    paddle.linalg.qr(x).shape  # error
    paddle.median(x, mode="min").shape[0].bit  # error
    paddle.full([2], "one")  # error
    paddle.arange("10")  # error
    paddle.clip(x, "0")  # error
    paddle.roll(x, 1.5)  # error
    paddle.concat([x, x], axis="0")  # error
    paddle.tile(x, 2.5)  # error
    paddle.normal("0")  # error
    paddle.atleast_1d(x, x).shape  # error

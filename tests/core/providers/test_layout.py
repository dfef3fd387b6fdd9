"""Layout: the order of axes, as data, of each layout of images."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.providers.layouts.chwn import _ChwnPass
from onnxgrad.core.providers.layouts.hwnc import _HwncPass

LAYOUTS = {"CHWN": (_ChwnPass.LAYOUT, [1, 3, 4, 10]), "HWNC": (_HwncPass.LAYOUT, [4, 5, 2, 3])}
IMAGE = np.arange(120).reshape(2, 3, 4, 5)


def in_layout(layout):
    return IMAGE.transpose(layout.perm).reshape(layout.shape(IMAGE.shape))


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_transpose_back_gives_the_image(name):
    layout, shape = LAYOUTS[name]
    image = in_layout(layout)
    back = image.reshape(layout.back_shape(IMAGE.shape)).transpose(layout.back_perm)
    assert list(image.shape) == shape
    np.testing.assert_array_equal(back.reshape(IMAGE.shape), IMAGE)


@pytest.mark.parametrize("name", LAYOUTS)
def test_numbers_per_channel_broadcast_along_the_channels(name):
    layout, _ = LAYOUTS[name]
    image = in_layout(layout)
    sums = image.sum(tuple(axis for axis in range(4) if axis != layout.channels), keepdims=True)
    assert list(sums.shape) == layout.per_channel(3)
    np.testing.assert_array_equal(sums.reshape(-1), IMAGE.sum((0, 2, 3)))


@pytest.mark.parametrize(("name", "channels", "size"), [("CHWN", 4, 6), ("HWNC", 64, 28)])
def test_operators_in_a_layout_still_say_who_wrote_them(name, channels, size):
    """So masks of gradients, which are known by that, get the forms of the CPU provider."""
    program = static.Program()
    with static.program_guard(program, static.Program()):
        x = static.data("x", [8, channels, size, size])
        h = paddle.nn.functional.relu(static.nn.conv2d(x, channels, 3, padding=1))
        h = paddle.clip(static.nn.conv2d(h, channels, 3, padding=1), 0.0, 6.0)
        loss = paddle.mean(paddle.square(h))
        paddle.optimizer.SGD(0.1).minimize(loss)
    graph = compile(program, [loss], "cpu", state_as_inputs=True)
    shapes = {tuple(op.outputs[0].static_shape) for op in graph.operators if op.type == "Clip"}
    assert shapes == {tuple(LAYOUTS[name][0].shape([8, channels, size, size]))}
    types = [op.type for op in graph.operators]
    assert types.count("HardSigmoid") == 1, "x > 0 for the gradient of Relu"
    assert types.count("Equal") == 1, "x = Clip(x) for the gradient of Clip"
    assert not {"And", "Greater", "GreaterOrEqual", "LessOrEqual"} & set(types)

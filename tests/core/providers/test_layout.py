"""Layout: the order of axes, as data, of each layout of images."""

import numpy as np
import pytest

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

"""Convolutions of images [H, W, N, C] as matrix products.

There a pixel is a row of N * C numbers and a position one of C, so a 3x3 convolution takes the fewest multiplications
(``winograd``), and one of 1x1 is a product with the filter as it is stored. ``plan`` says which convolutions are written so.

Tests: tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import MapWindow, filter_operands, shape_of
from onnxgrad.core.providers.layouts.forms import filter_gradient
from onnxgrad.core.providers.layouts.layout import LayoutPass
from onnxgrad.core.providers.layouts.plan import best_tile
from onnxgrad.core.providers.layouts.winograd import (
    Tiles,
    convolution as winograd_convolution,
    image_gradient_tiles,
    swap_filter_axes,
)

__all__ = ["convolution", "transposed_convolution"]


def convolution(pass_: LayoutPass, op: Operator) -> bool:
    """Convolve an image, or two for the gradient of a filter, by products with channels."""
    operands = filter_operands(op)
    if operands is not None:
        return filter_gradient(pass_, op, *operands, _filter_product)
    build, (x, w, *more), y = pass_.build, op.inputs, op.outputs[0]
    assert x is not None and w is not None and y is not None
    (batch, channels, *_), (_, out, *result), window = shape_of(x), shape_of(y), MapWindow(op, shape_of(w)[2:])
    if window.kernel == (1, 1):
        flat = build.Gemm(_read_positions(pass_, x, window, result), build.Reshape(w, [out, channels]), transB=1)
        image = build.Reshape(flat, [*result, batch, out])
    else:
        tiles = _tiles(pass_, winograd_convolution, "result", x, y, window)
        image = tiles.image_gradient(build, pass_.image(x), swap_filter_axes(build, tiles.filters(build, w)))
    return _give_with_bias(pass_, y, image, more)


def transposed_convolution(pass_: LayoutPass, op: Operator) -> bool:
    """Transpose a convolution, by products with channels."""
    build, (g, w, *more), x = pass_.build, op.inputs, op.outputs[0]
    assert g is not None and w is not None and x is not None
    (batch, out, *result), (_, channels, *size), window = shape_of(g), shape_of(x), MapWindow(op, shape_of(w)[2:])
    if window.kernel == (1, 1):
        flat = build.MatMul(_positions(pass_, g), build.Reshape(w, [out, channels]))
        pixels = _spread_pixels(build, build.Reshape(flat, [-1, batch * channels]), window, result, size)
        image = build.Reshape(pixels, [*size, batch, channels])
    else:
        tiles = _tiles(pass_, image_gradient_tiles, "image", x, g, window)
        image = tiles.image_gradient(build, pass_.image(g), tiles.filters(build, w))
    return _give_with_bias(pass_, x, image, more)


def _filter_product(pass_: LayoutPass, x: Variable, gy: Variable, window: MapWindow) -> Any:
    """The gradient [O, C, *kernel] of a filter."""
    build, channels, (_, out, *result) = pass_.build, shape_of(x)[1], shape_of(gy)
    if window.kernel == (1, 1):
        flat = build.Gemm(_positions(pass_, gy), _read_positions(pass_, x, window, result), transA=1)
        return build.Reshape(flat, [out, channels, 1, 1])
    tiles = _tiles(pass_, winograd_convolution, "filter", x, gy, window)
    return tiles.filter_of(build, pass_.image(x), pass_.image(gy))


def _tiles(pass_: LayoutPass, make: Any, product: str, x: Variable, y: Variable, window: MapWindow) -> Tiles:
    (batch, *image), (_, *result), stride = shape_of(x), shape_of(y), window.strides[0]
    tile, _ = best_tile(product, batch, tuple(image), tuple(result), stride, pass_.target.fast)
    tiles: Tiles = make(tuple(image[1:]), tuple(result[1:]), tuple(window.pads[:2]), stride, tile == 4)
    return tiles


def _give_with_bias(pass_: LayoutPass, v: Variable, image: Any, bias: Sequence[Variable | None]) -> bool:
    if bias and bias[0] is not None:
        image = pass_.build.Add(image, pass_.build.Reshape(bias[0], [1, 1, 1, -1]))
    return pass_.give(v, image)


# Filters of one tap ------------------------------------------------------------------------------------------------------


def _positions(pass_: LayoutPass, v: Variable) -> Any:
    """The image ``v`` as a matrix [positions * N, C]"""
    return pass_.build.Reshape(pass_.image(v), [-1, shape_of(v)[1]])


def _read_positions(pass_: LayoutPass, x: Variable, window: MapWindow, result: Sequence[int]) -> Any:
    """The positions of an image that a filter of one tap reads, [positions * N, C]"""
    if window.strides == [1, 1]:
        return _positions(pass_, x)
    batch, channels, height, width = shape_of(x)
    pixels = pass_.build.Reshape(pass_.image(x), [height * width, batch * channels])
    read = pass_.build.Gather(pixels, _pixels_read(window, result, width), axis=0)
    return pass_.build.Reshape(read, [-1, channels])


def _spread_pixels(build: Any, pixels: Any, window: MapWindow, result: Sequence[int], image: Sequence[int]) -> Any:
    """Rows of N * C numbers at the pixels that a stride reads, zeros at the others"""
    if window.strides == [1, 1]:
        return pixels
    source = np.full(prod(image), prod(result))
    source[_pixels_read(window, result, image[1])] = np.arange(prod(result))
    zeros = np.zeros((1, pixels.static_shape[1]), np.float32)
    return build.Gather(build.Concat(pixels, zeros, axis=0), source, axis=0)


def _pixels_read(window: MapWindow, result: Sequence[int], width: int) -> Any:
    down, across = (np.arange(n) * s for n, s in zip(result, window.strides, strict=True))
    return (down[:, None] * width + across).reshape(-1)

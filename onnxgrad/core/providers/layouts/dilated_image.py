"""Convolutions of the images [N, C, H, W] as of one image [1, C, H, W * N], with dilation N along the width.

onnxruntime makes one large matrix product of it, where otherwise it makes one per image. Measured on the layers of a ResNet-18
(batch 16, 2 threads): at the speed of plain matrix products for all map sizes, 1.0 to 4 times as fast as image by image, and 3 to 6
times for depthwise filters on small maps.

A stride along the width cannot be expressed so: there the input is gathered and multiplied, or every position is computed and the
others are dropped; backwards, zeros are put between. The gradient of a filter is a product with the gathered input too.

Tests: tests/core/providers/test_chwn.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import le
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.matching import SWAPPED, im2col_indices_of_image
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts import depthwise, filter_products
from onnxgrad.core.providers.layouts.channel_strips import by_channels
from onnxgrad.core.providers.layouts.feature_maps import MapWindow, filter_operands, is_float32, shape_of, usual_pads
from onnxgrad.core.providers.layouts.forms import filter_gradient
from onnxgrad.core.providers.layouts.layout import LayoutPass

__all__ = ["convolution", "is_batch", "transposed_convolution"]

_SMALLEST_BATCH = COSTS.count("dilated_image.smallest_batch")
_LARGEST_COLUMNS = COSTS.count("dilated_image.largest_columns")
"""Numbers in an im2col matrix: 64 MB."""
_HIGHEST = COSTS.count("dilated_image.most_rows_in_pairs")
"""Rows of a result up to which the products of all pairs of rows cost less than those of strips."""
_MANY_POSITIONS = COSTS.count("dilated_image.fewest_positions_to_flip")
"""Positions times images from which on a convolution with the filter flipped gains more than flipping costs."""


def is_batch(v: Variable | None) -> bool:
    """Tell whether it is a batch of images of known shape, in float32, that gains by being one image."""
    return is_float32(v) and shape_of(v)[0] >= _SMALLEST_BATCH and all(shape_of(v))


def _applies(op: Operator, image: Variable | None, filters: Variable | None, result: Variable | None) -> bool:
    return usual_pads(op) and is_batch(image) and is_float32(filters) and is_batch(result)


def _attributes(window: MapWindow, batch: int) -> dict[str, Any]:
    """Return the attributes of a convolution of one image of width W * batch, without the stride along the width."""
    top, left, bottom, right = window.pads
    pads, dilations = [top, left * batch, bottom, right * batch], [window.dilations[0], window.dilations[1] * batch]
    return {"pads": pads, "dilations": dilations, "strides": [window.strides[0], 1], "group": window.group}


def _chwn(pass_: LayoutPass, v: Variable) -> Any:
    """The image ``v`` as [C, H, W, N]"""
    batch, channels, height, width = shape_of(v)
    return pass_.build.Reshape(pass_.image(v), [channels, height, width, batch])


def _give(pass_: LayoutPass, v: Variable, chwn: Any) -> bool:
    """``v`` from what has its numbers in the order [C, H, W, N]"""
    return pass_.give(v, pass_.build.Reshape(chwn, pass_.LAYOUT.shape(shape_of(v))))


# The result --------------------------------------------------------------------------------------------------------------


def convolution(pass_: LayoutPass, op: Operator) -> bool:
    """Convolve one image; for a filter of one tap, first drop the positions that a stride leaves out."""
    x, w, y = op.inputs[0], op.inputs[1], op.outputs[0]
    if op.role is Role.BACKWARD and not pass_.holds(x):
        return _filter_gradient(pass_, op)
    if not _applies(op, x, w, y) or x is None or w is None or y is None:
        return False
    build, (batch, channels, height, width), (_, out, rows, columns) = pass_.build, shape_of(x), shape_of(y)
    window, image = MapWindow(op, shape_of(w)[2:]), pass_.image(x)
    if window.kernel == (1, 1) and max(window.strides) > 1 and not any(window.pads):
        image = build.Slice(_chwn(pass_, x), [0, 0], [height, width], [1, 2], window.strides)
        image, window.strides = build.Reshape(image, [1, channels, rows, columns * batch]), [1, 1]
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    taps = channels * prod(window.kernel)
    if window.strides[1] > 1 and window.group == channels == out and pass_.target.runs_on_cpu:
        one = build.Reshape(image, [channels, height, -1])
        strided = depthwise.strided_convolution(build, one, w, (height, width), (rows, columns), window)
        if strided is not None:
            return _give(pass_, y, strided if bias is None else build.Add(strided, build.Reshape(bias, [out, 1, 1])))
    if window.strides[1] > 1 and window.group == 1 and taps * rows * columns * batch <= _LARGEST_COLUMNS:
        product = build.MatMul(build.Reshape(w, [out, taps]), _im2col(pass_, x, window, rows, columns))
        return _give(pass_, y, product if bias is None else build.Add(product, build.Reshape(bias, [out, 1])))
    covered = build.Conv(image, w, bias, **_attributes(window, batch))
    if window.strides[1] > 1:
        covered = build.Reshape(covered, [out, rows, -1, batch])
        covered = build.Slice(covered, [0], [np.iinfo(np.int64).max], [2], [window.strides[1]])
    return _give(pass_, y, covered)


def _im2col(pass_: LayoutPass, x: Variable, window: MapWindow, rows: int, columns: int) -> Any:
    """The im2col matrix of x, [C * taps, positions * N]"""
    build, (batch, channels, *_), (top, left, bottom, right) = pass_.build, shape_of(x), window.pads
    image = _chwn(pass_, x)
    if any(window.pads):
        image = build.Pad(image, [0, top, left, 0, 0, bottom, right, 0])
    height, width = image.static_shape[1:3]
    if (window.kernel, rows, columns) != ((1, 1), height, width):
        indices = im2col_indices_of_image(window.dilations, window.strides, window.kernel, (rows, columns), width)
        flat = build.Reshape(image, [channels, height * width, batch])
        image = build.Gather(flat, indices.reshape(-1), axis=1)
    return build.Reshape(image, [-1, rows * columns * batch])


# The gradient of the image -----------------------------------------------------------------------------------------------


def transposed_convolution(pass_: LayoutPass, op: Operator) -> bool:
    """Transpose a convolution; with the filter flipped it is one, which onnxruntime does faster where the map is large."""
    g, w, x = op.inputs[0], op.inputs[1], op.outputs[0]
    if not _applies(op, g, w, x) or op.attr("output_shape") or g is None or w is None or x is None:
        return False
    build, (batch, out, rows, columns), (_, wide, height, width) = pass_.build, shape_of(g), shape_of(x)
    window, image = MapWindow(op, shape_of(w)[2:]), pass_.image(g)
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    extra, is_reached = op.attr("output_padding") or [0, 0], all(map(le, window.pads, window.reach))
    is_depthwise = window.group == out == wide and bias is None
    if is_depthwise and max(window.strides) > 1 and pass_.target.runs_on_cpu:
        one = build.Reshape(image, [out, rows, -1])
        return _give(pass_, x, depthwise.image_gradient(build, one, w, (height, width), (rows, columns), window))
    if is_depthwise and is_reached:
        sizes = [(n - 1) * stride + 1 + e for n, stride, e in zip((rows, columns), window.strides, extra, strict=True)]
        spread = _spread(build, image, (out, rows, columns, batch), window.strides, sizes)
        spread = build.Reshape(spread, [1, out, sizes[0], sizes[1] * batch])
        return _give(pass_, x, build.Conv(spread, _flipped(build, w), **_attributes(_backwards(window), batch)))
    if window.kernel == (1, 1) and window.group == 1 and bias is None and not any(window.pads):
        flat_w = build.Transpose(build.Reshape(w, [out, wide]), perm=[1, 0])
        flat = build.MatMul(flat_w, build.Reshape(image, [out, rows * columns * batch]))
        return _give(pass_, x, _spread(build, flat, (wide, rows, columns, batch), window.strides, (height, width)))
    is_unfolded = window.group == 1 and window.kernel == tuple(window.strides) and not any((*window.pads, *extra))
    if is_unfolded and pass_.target.runs_on_cpu:
        return _give(pass_, x, _unfolded(build, image, w, bias, (rows, columns, batch)))
    is_dense = window.group == 1 and [*window.strides, *extra] == [1, 1, 0, 0]
    if is_dense and is_reached and rows * columns * batch >= _MANY_POSITIONS:
        flipped = _flipped(build, build.Transpose(w, perm=SWAPPED))
        return _give(pass_, x, build.Conv(image, flipped, bias, **_attributes(_backwards(window), batch)))
    full = (columns - 1) * window.strides[1] + 1 + extra[1]
    if wide // window.group * prod(window.kernel) * rows * full * batch > _LARGEST_COLUMNS:
        # onnxruntime computes these columns for a whole image at once, which here is the batch.
        return False
    spread = _spread(build, image, (out, rows, columns, batch), [1, window.strides[1]], (rows, full))
    spread = build.Reshape(spread, [1, out, rows, full * batch])
    return _give(pass_, x, build.ConvTranspose(spread, w, bias, output_padding=[extra[0], 0], **_attributes(window, batch)))


def _unfolded(build: Any, image: Any, w: Any, bias: Any, positions: tuple[int, int, int]) -> Any:
    """[C, height * width, N] of a filter whose taps follow each other without overlap: a product, and its numbers put in order"""
    (out, wide, *kernel), (rows, columns, batch) = w.static_shape, positions
    taps = prod(kernel)
    by_tap = build.Reshape(build.Transpose(build.Reshape(w, [out, wide * taps]), perm=[1, 0]), [wide * taps, out, 1, 1])
    # Conv adds the bias while the numbers are in the cache.
    repeated = None if bias is None else build.Gather(bias, np.repeat(np.arange(wide), taps))
    apart = build.Reshape(build.Conv(image, by_tap, repeated), [wide, taps * rows * columns, batch])
    (row, down), (column, across) = (np.divmod(np.arange(n * k), k) for n, k in zip((rows, columns), kernel, strict=True))
    numbers = ((down[:, None] * kernel[1] + across) * rows + row[:, None]) * columns + column
    return build.Gather(apart, numbers.reshape(-1), axis=1)


def _backwards(window: MapWindow) -> MapWindow:
    """The window of the convolution with the filter flipped, over a gradient that is spread"""
    window.pads, window.strides = [far - pad for far, pad in zip(window.reach, window.pads, strict=True)], [1, 1]
    return window


def _spread(build: Any, x: Any, shape: tuple[int, ...], strides: Sequence[int], sizes: Sequence[int]) -> Any:
    """x, read as [C, H, W, N], with ``stride - 1`` zeros behind every position, up to these sizes"""
    for axis, stride, size in zip((1, 2), strides, sizes, strict=True):
        if stride == 1:
            continue
        pads = [0] * 10
        pads[5 + axis + 1] = stride - 1
        apart = build.Pad(build.Reshape(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]]), pads)
        x = build.Reshape(apart, [*shape[:axis], shape[axis] * stride, *shape[axis + 1 :]])
        x = build.Slice(x, [0], [size], [axis]) if size < shape[axis] * stride else x
        shape = (*shape[:axis], size, *shape[axis + 1 :])
    return x


def _flipped(build: Any, w: Any) -> Any:
    """The filters with their taps in reverse order"""
    out, wide, *kernel = w.static_shape
    taps = prod(kernel)
    reverse = build.Gather(build.Reshape(w, [out * wide, taps]), np.arange(taps)[::-1].copy(), axis=1)
    return build.Reshape(reverse, [out, wide, *kernel])


# The gradient of the filter ----------------------------------------------------------------------------------------------


def _filter_gradient(pass_: LayoutPass, op: Operator) -> bool:
    operands = filter_operands(op)
    if operands is None or not shape_of(op.outputs[0]) or not any(map(pass_.holds, operands)):
        return False
    x, gy = operands
    return _applies(op, x, gy, x) and filter_gradient(pass_, op, x, gy, _filter_product)


def _filter_product(pass_: LayoutPass, x: Variable, gy: Variable, window: MapWindow) -> Any:
    """The gradient [O, C, *kernel] of a filter, dense or depthwise; None of one in groups."""
    build, (_, channels, *sizes), (_, out, *positions) = pass_.build, shape_of(x), shape_of(gy)
    if window.group == 1:
        return filter_products.filter_product(build, _chwn(pass_, x), _chwn(pass_, gy), sizes, positions, window)
    if not window.group == channels == out:
        return None
    image = build.Reshape(pass_.image(x), [channels, *sizes, -1])
    gradient = build.Reshape(pass_.image(gy), [channels, *positions, -1])
    # Elsewhere strips, which are gathered, take twice as long: docs/develop/measurements/openvino_tried.md.
    if positions[0] <= _HIGHEST or not pass_.target.runs_on_cpu:
        return filter_products.depthwise_filter_of_rows(build, image, gradient, window)

    def strip(build: Any, x: Any, gy: Any) -> Any:
        return filter_products.depthwise_filter_product(build, x, gy, sizes, positions, window)

    return by_channels(build, channels, prod(image.static_shape), [image, gradient], strip)

"""Convolutional networks in the CHWN layout: images [N, C, H, W] as one image [1, C, H, W * N].

A convolution is then one of a single image, with dilation N along the width: onnxruntime makes one large matrix product of it,
where otherwise it makes one per image. Measured on the layers of a ResNet-18 (batch 16, 2 threads): at the speed of plain
matrix products for all map sizes, 1.0 to 4 times as fast as image by image, and 3 to 6 times for depthwise filters on small maps.
Values per channel keep their shape [1, C, 1, 1], and the sums that make them run over contiguous rows.

A stride along the width cannot be expressed so: there the input is gathered and multiplied, or every position is computed and the
others are dropped; backwards, zeros are put between. The gradient of a filter is a product with the gathered input too.

Applies to 4-D images of known shape in float32 and a batch of at least 4; what has no form here reads its operand in the usual
order, for one Transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import le
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import BY_PIXELS, SWAPPED, im2col_indices, im2col_indices_of_image, operand_of
from onnxgrad.core.ir.bodies import as_tuple
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import (
    ELEMENTWISE,
    REDUCTIONS,
    LayoutPass,
    Window,
    filter_operands,
    is_float32,
    shape_of,
    usual_pads,
)
from onnxgrad.core.providers.layouts.filter_products import depthwise_filter_product, filter_product

__all__ = ["CHWN", "use_chwn_layout"]

_SMALLEST_BATCH = COSTS.count("chwn.smallest_batch")
_LARGEST_COLUMNS = COSTS.count("chwn.largest_columns")
"""Numbers in an im2col matrix: 64 MB."""
_HIGHEST = COSTS.count("chwn.most_rows_in_pairs")
"""Rows of a result up to which the products of all pairs of rows cost less than those of strips."""
_MANY_POSITIONS = COSTS.count("chwn.fewest_positions_to_flip")
"""Positions times images from which on a convolution with the filter flipped gains more than flipping costs."""
_LAST = [1, 2, 3, 0]
_FIRST = [3, 0, 1, 2]


def use_chwn_layout(graph: Graph, target: Target) -> int:
    """Write the convolutions of a graph, and what lies between them, for [C, H, W, N]."""
    before = graph.replacements
    if any(op.type == "Conv" and not op.domain and _is_image(op.inputs[0]) for op in graph.operators):
        _Layout(graph).run()
    return graph.replacements - before


CHWN = Pass("chwn", use_chwn_layout, rounding="order", gain=CPU_FORMS)


def _is_image(v: Variable | None) -> bool:
    return is_float32(v) and shape_of(v)[0] >= _SMALLEST_BATCH and all(shape_of(v))


def _by_pixels(v: Variable | None) -> Variable | None:
    """The image in the HWNC layout, if ``v`` is made from it"""
    source = operand_of(operand_of(operand_of(v, "Reshape"), "Transpose", [1, 0]), "Reshape")
    batch, channels, height, width = shape_of(v) or (0, 0, 0, 0)
    return source if source is not None and source.static_shape == (height, width, batch, channels) else None


class _Layout(LayoutPass):
    """The image [N, C, H, W] as [1, C, H, W * N]."""

    def has(self, v: Variable | None) -> bool:
        return super().has(v) or (_is_image(v) and _by_pixels(v) is not None)

    def operand(self, v: Variable, image: tuple[int, ...]) -> Any:
        """``v``, which broadcasts against images of a shape, in the form that does so in the CHWN layout."""
        batch, channels, height, width = shape = shape_of(v)
        held = self.twins.get(v)
        whole = (batch, width) == (image[0], image[3])
        if held is not None and whole:
            return held
        if (batch, width) == (1, 1):
            return v
        pixels = _by_pixels(v)
        if held is not None:
            chwn = self.build.Reshape(held, [channels, height, width, batch])
        elif pixels is not None:
            rows = self.build.Reshape(pixels, [height * width * batch, channels])
            chwn = self.build.Reshape(self.build.Transpose(rows, perm=[1, 0]), [channels, height, width, batch])
        else:
            chwn = self.build.Transpose(v if v.rank == 4 else self.build.Reshape(v, shape), perm=_LAST)
        if not whole:
            chwn = self.build.Expand(chwn, [channels, height, image[3], image[0]])
        return self.build.Reshape(chwn, [1, channels, height, image[3] * image[0]])

    def give(self, v: Variable | None, twin: Variable) -> bool:
        """The image ``v`` is computed in the CHWN layout; the usual order is made where somebody reads it."""
        assert v is not None
        batch, channels, height, width = shape_of(v)
        self.twins[v] = twin
        self.hidden[v] = (twin, (channels, height, width, batch), _FIRST)
        return True


# Operators ---------------------------------------------------------------------------------------------------------------


def _applies(op: Operator, image: Variable | None, filters: Variable | None, result: Variable | None) -> bool:
    return usual_pads(op) and _is_image(image) and is_float32(filters) and _is_image(result)


def _convolution(pass_: _Layout, op: Operator) -> bool:
    """One image of width W * N; for a filter of one tap, the positions that a stride leaves out are dropped first"""
    x, w, y = op.inputs[0], op.inputs[1], op.outputs[0]
    if op.role is Role.BACKWARD and not pass_.has(x):
        return _filter_gradient(pass_, op)
    if not _applies(op, x, w, y) or x is None or w is None or y is None:
        return False
    build, (batch, channels, height, width), (_, out, rows, columns) = pass_.build, shape_of(x), shape_of(y)
    window, image = Window(op, shape_of(w)[2:]), pass_.twin(x)
    if window.kernel == (1, 1) and max(window.strides) > 1 and not any(window.pads):
        image = build.Reshape(image, [channels, height, width, batch])
        image = build.Slice(image, [0, 0], [height, width], [1, 2], window.strides)
        image, window.strides = build.Reshape(image, [1, channels, rows, columns * batch]), [1, 1]
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    taps = channels * prod(window.kernel)
    if window.strides[1] > 1 and window.group == 1 and taps * rows * columns * batch <= _LARGEST_COLUMNS:
        product = build.MatMul(build.Reshape(w, [out, taps]), _im2col(pass_, x, window, rows, columns))
        product = product if bias is None else build.Add(product, build.Reshape(bias, [out, 1]))
        return pass_.give(y, build.Reshape(product, [1, out, rows, columns * batch]))
    covered = build.Conv(image, w, bias, **window.wide(batch))
    if window.strides[1] > 1:
        covered = build.Reshape(covered, [out, rows, -1, batch])
        covered = build.Slice(covered, [0], [np.iinfo(np.int64).max], [2], [window.strides[1]])
        covered = build.Reshape(covered, [1, out, rows, columns * batch])
    return pass_.give(y, covered)


def _transposed_convolution(pass_: _Layout, op: Operator) -> bool:
    """The same backwards; with the filter flipped it is a convolution, which onnxruntime does faster where the map is large"""
    g, w, x = op.inputs[0], op.inputs[1], op.outputs[0]
    if not _applies(op, g, w, x) or op.attr("output_shape") or g is None or w is None or x is None:
        return False
    build, (batch, out, rows, columns), (_, wide, height, width) = pass_.build, shape_of(g), shape_of(x)
    window, image = Window(op, shape_of(w)[2:]), pass_.twin(g)
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    extra = op.attr("output_padding") or [0, 0]
    if window.group == out == wide and bias is None and all(map(le, window.pads, window.reach)):
        return pass_.give(x, _depthwise_backwards(build, image, w, window, shape_of(g), extra))
    if window.kernel == (1, 1) and window.group == 1 and bias is None and not any(window.pads):
        flat_w = build.Transpose(build.Reshape(w, [out, wide]), perm=[1, 0])
        flat = build.MatMul(flat_w, build.Reshape(image, [out, rows * columns * batch]))
        spread = _spread(build, flat, (wide, rows, columns, batch), window.strides, (height, width))
        return pass_.give(x, build.Reshape(spread, [1, wide, height, width * batch]))
    reached = all(map(le, window.pads, window.reach))
    if [*window.strides, *extra] == [1, 1, 0, 0] and reached and window.group == 1 and rows * columns * batch >= _MANY_POSITIONS:
        flipped = _flipped(build, build.Transpose(w, perm=SWAPPED))
        window.pads = [far - pad for far, pad in zip(window.reach, window.pads, strict=True)]
        return pass_.give(x, build.Conv(image, flipped, bias, **window.wide(batch)))
    full = (columns - 1) * window.strides[1] + 1 + extra[1]
    if wide // window.group * prod(window.kernel) * rows * full * batch > _LARGEST_COLUMNS:
        # onnxruntime computes these columns for a whole image at once, which here is the batch.
        return False
    spread = _spread(build, image, (out, rows, columns, batch), [1, window.strides[1]], (rows, full))
    spread = build.Reshape(spread, [1, out, rows, full * batch])
    return pass_.give(x, build.ConvTranspose(spread, w, bias, output_padding=[extra[0], 0], **window.wide(batch)))


def _spread(build: Any, x: Any, shape: tuple[int, ...], strides: list[int], sizes: tuple[int, int]) -> Any:
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


def _depthwise_backwards(build: Any, g: Any, w: Any, window: Window, given: tuple[int, ...], extra: Sequence[int]) -> Any:
    batch, channels, rows, columns = given
    height, width = ((n - 1) * s + 1 + e for n, s, e in zip((rows, columns), window.strides, extra, strict=True))
    spread = _spread(build, g, (channels, rows, columns, batch), window.strides, (height, width))
    window.pads, window.strides = [far - pad for far, pad in zip(window.reach, window.pads, strict=True)], [1, 1]
    image = build.Reshape(spread, [1, channels, height, width * batch])
    return build.Conv(image, _flipped(build, w), **window.wide(batch))


def _flipped(build: Any, w: Any) -> Any:
    """The filters with their taps in reverse order"""
    out, wide, *kernel = w.static_shape
    taps = prod(kernel)
    reverse = build.Gather(build.Reshape(w, [out * wide, taps]), np.arange(taps)[::-1].copy(), axis=1)
    return build.Reshape(reverse, [out, wide, *kernel])


def _filter_gradient(pass_: _Layout, op: Operator) -> bool:
    """The backward pass writes it as Conv with batch and channels of both operands swapped, and strides and dilations"""
    result, group, operands = op.outputs[0], op.attr("group") or 1, filter_operands(op)
    if operands is None or result is None or not shape_of(result) or not _applies(op, operands[0], operands[1], operands[0]):
        return False
    x, gy = operands
    if not (pass_.has(x) or pass_.has(gy)):
        return False
    window = Window(op, shape_of(pass_.cropped(result) or result)[2:])
    window.strides, window.dilations = window.dilations, window.strides
    if group == 1:
        gradient = _dense_filter(pass_, x, gy, window)
    else:
        gradient = _depthwise_filter(pass_, x, gy, window) if group == shape_of(x)[1] == shape_of(gy)[1] else None
    return gradient is not None and pass_.give_filter(result, gradient)


def _dense_filter(pass_: _Layout, x: Variable, gy: Variable, window: Window) -> Any:
    (batch, out, rows, columns), (_, channels, height, width), build = shape_of(gy), shape_of(x), pass_.build
    image = build.Reshape(pass_.twin(x), [channels, height, width, batch])
    given = build.Reshape(pass_.twin(gy), [out, rows, columns, batch])
    return filter_product(build, image, given, (height, width), (rows, columns), window)


def _im2col(pass_: _Layout, x: Variable, window: Window, rows: int, columns: int) -> Any:
    """The im2col matrix of x, [C * taps, positions * N]"""
    (batch, channels, *_), build = shape_of(x), pass_.build
    image = _padded(pass_, x, window)
    height, width = image.static_shape[1:3]
    if (window.kernel, rows, columns) != ((1, 1), height, width):
        indices = im2col_indices_of_image(window.dilations, window.strides, window.kernel, (rows, columns), width)
        flat = build.Reshape(image, [channels, height * width, batch])
        image = build.Gather(flat, indices.reshape(-1), axis=1)
    return build.Reshape(image, [-1, rows * columns * batch])


def _depthwise_filter(pass_: _Layout, x: Variable, gy: Variable, window: Window) -> Any:
    """Per channel and tap across, the products of all rows of the input, shifted, with all rows of gy, summed over columns and
    batch; of these, the pairs of rows that a tap down brings together. More products than needed, but of contiguous rows."""
    (_, channels, height, width), (_, _, rows, columns) = shape_of(x), shape_of(gy)
    (taps, across), build = window.kernel, pass_.build
    image = build.Reshape(pass_.twin(x), [channels, height, width, -1])
    result = build.Reshape(pass_.twin(gy), [channels, rows, columns, -1])
    if rows > _HIGHEST:
        return depthwise_filter_product(build, image, result, (height, width), (rows, columns), window)
    pairs = []
    for indices in im2col_indices(window.dilations[1], window.strides[1], window.pads[1], across, columns):
        inside = np.flatnonzero((indices >= 0) & (indices < width))
        if not inside.size:
            return None
        left = _columns(build, image, indices[inside[0]], indices[inside[-1]] + 1, window.strides[1])
        right = build.Transpose(_columns(build, result, inside[0], inside[-1] + 1, 1), perm=[0, 2, 1])
        pairs.append(build.Reshape(build.MatMul(left, right), [channels, 1, height * rows]))
    met = np.zeros((height, rows, taps), np.float32)
    for tap, indices in enumerate(im2col_indices(window.dilations[0], window.strides[0], window.pads[0], taps, rows)):
        inside = np.flatnonzero((indices >= 0) & (indices < height))
        met[indices[inside], inside, tap] = 1
    summed = build.Reshape(build.MatMul(build.Concat(*pairs, axis=1), met.reshape(-1, taps)), [channels, across * taps])
    # A Transpose of so few numbers at a time takes longer.
    ordered = build.Gather(summed, np.arange(across * taps).reshape(across, taps).T.reshape(-1), axis=1)
    return build.Reshape(ordered, [channels, 1, taps, across])


def _columns(build: Any, image: Any, start: Any, end: Any, step: int) -> Any:
    """Some columns of [C, H, W, N], as [C, H, columns * N]"""
    channels, height, width, _ = image.static_shape
    if (start, end, step) != (0, width, 1):
        image = build.Slice(image, [int(start)], [int(end)], [2], [step])
    return build.Reshape(image, [channels, height, -1])


def _padded(pass_: _Layout, x: Variable, window: Window) -> Any:
    """x with its padding, [C, H, W, N]"""
    (batch, channels, height, width), (top, left, bottom, right) = shape_of(x), window.pads
    image = pass_.build.Reshape(pass_.twin(x), [channels, height, width, batch])
    return pass_.build.Pad(image, [0, top, left, 0, 0, bottom, right, 0]) if any(window.pads) else image


def _transpose(pass_: _Layout, op: Operator) -> bool:
    """To [H, W, N, C], and what is held in the order that is asked for"""
    x, y = op.inputs[0], op.outputs[0]
    if not pass_.has(x) or x is None or y is None or y.static_shape is None or op.attr("perm") != BY_PIXELS:
        return pass_.swap_back(op)
    rows = pass_.build.Reshape(pass_.twin(x), [shape_of(x)[1], -1])
    return pass_.replace(y, pass_.build.Reshape(pass_.build.Transpose(rows, perm=[1, 0]), list(y.static_shape)))


def _elementwise(pass_: _Layout, op: Operator) -> bool:
    result = op.outputs[0]
    image = shape_of(result)
    if not any(pass_.has(v) for v in op.inputs) or result is None or result.rank != 4 or not image or len(op.outputs) > 1:
        return False
    if not all(v is None or shape_of(v) for v in op.inputs):
        return False
    operands = [None if v is None else pass_.operand(v, image) for v in op.inputs]
    return pass_.give(result, pass_.build.emit(op.type, operands, dict(op.attrs)))


def _batch_normalization(pass_: _Layout, op: Operator) -> bool:
    """One image of width W * N has the same statistics"""
    x = op.inputs[0]
    if not pass_.has(x) or x is None or not _is_image(op.outputs[0]):
        return False
    results = pass_.build.emit(op.type, [pass_.twin(x), *op.inputs[1:]], dict(op.attrs), outputs=len(op.outputs))
    first, *rest = as_tuple(results)
    for old, new in zip(op.outputs[1:], rest, strict=True):
        if old is not None:
            pass_.replace(old, new)
    return pass_.give(op.outputs[0], first)


def _reduction(pass_: _Layout, op: Operator) -> bool:
    """Over all but the channels, or over the space of each image"""
    x, axes, y = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else None, op.outputs[0]
    if not pass_.has(x) or x is None or axes is None or axes.value is None or y is None:
        return False
    summed, build = {int(axis) % 4 for axis in axes.value.numpy().reshape(-1)}, pass_.build
    if summed == {0, 2, 3}:
        return pass_.replace(y, build.emit(op.type, [pass_.twin(x), axes], dict(op.attrs)))
    if summed != {2, 3} or y.static_shape is None:
        return False
    return pass_.replace(y, _over_space(pass_, op.type, x, y.static_shape))


def _over_space(pass_: _Layout, op_type: str, x: Variable, shape: Sequence[int]) -> Any:
    build, (batch, channels, height, width) = pass_.build, shape_of(x)
    flat = build.Reshape(pass_.twin(x), [channels, height * width, batch])
    summed = build.emit(op_type, [flat, build.constant(np.array([1]))], {"keepdims": 0})
    return build.Reshape(build.Transpose(summed, perm=[1, 0]), list(shape))


def _global_average(pass_: _Layout, op: Operator) -> bool:
    x, y = op.inputs[0], op.outputs[0]
    if not pass_.has(x) or x is None or y is None or y.static_shape is None:
        return False
    return pass_.replace(y, _over_space(pass_, "ReduceMean", x, y.static_shape))


def _concat(pass_: _Layout, op: Operator) -> bool:
    """Of channels"""
    y = op.outputs[0]
    if not any(pass_.has(v) for v in op.inputs) or op.attr("axis") % 4 != 1 or not all(map(_is_image, [*op.inputs, y])):
        return False
    return pass_.give(y, pass_.build.Concat(*(pass_.twin(v) for v in op.inputs if v is not None), axis=1))


def _split(pass_: _Layout, op: Operator) -> bool:
    """Of channels, as the gradient of a Concat is"""
    x, sizes = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else None
    if not pass_.has(x) or x is None or sizes is None or sizes.value is None or op.attr("axis") % 4 != 1:
        return False
    if not all(map(_is_image, op.outputs)):
        return False
    parts = as_tuple(pass_.build.Split(pass_.twin(x), sizes, axis=1, outputs=len(op.outputs)))
    return all(pass_.give(v, part) for v, part in zip(op.outputs, parts, strict=True))


def _mask(pass_: _Layout, op: Operator) -> bool:
    """Of a Dropout, which is drawn in the usual order and turned while its elements are bytes"""
    x, y = op.inputs[0], op.outputs[0]
    if x is None or y is None or x.op is None or x.op.type not in ("GreaterOrEqual", "Slice"):
        return False
    shape, build = shape_of(y), pass_.build
    if y.rank != 4 or not any(shape == shape_of(v) for v in pass_.twins):
        return False
    batch, channels, height, width = shape
    turned = build.Transpose(build.Reshape(x, [batch, channels * height * width]), perm=[1, 0])
    return pass_.give(y, build.Reshape(turned, [1, channels, height, width * batch]))


_Layout.FORMS = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Transpose": _transpose,
    "Reshape": _mask,
    "BatchNormalization": _batch_normalization,
    "GlobalAveragePool": _global_average,
    "Concat": _concat,
    "Split": _split,
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
}

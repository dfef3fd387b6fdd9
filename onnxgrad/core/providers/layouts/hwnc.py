"""Convolutional networks in the HWNC layout: images [N, C, H, W] as [H, W, N, C].

There a pixel is a row of N * C numbers and a position one of C, so a 3x3 convolution takes the fewest multiplications
(``winograd``), and one of 1x1 is a product with the filter as it is stored. ``layout_plan`` says which operators are written so.
Between this layout, the usual one and CHWN lies one Transpose of a matrix each.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import BY_PIXELS
from onnxgrad.core.ir.bodies import as_tuple
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import ELEMENTWISE, REDUCTIONS, LayoutPass, Window, filter_operands, shape_of
from onnxgrad.core.providers.layouts.plan import best_tile, operators_by_pixels
from onnxgrad.core.providers.layouts.winograd import Tiles, backwards, convolution, turned

__all__ = ["HWNC", "use_hwnc_layout"]


def use_hwnc_layout(graph: Graph, target: Target) -> int:
    """Write the part of a training step for [H, W, N, C] that is faster so."""
    before = graph.replacements
    chosen = operators_by_pixels(graph, target.fast)
    if chosen:
        _Layout(graph, chosen, target.fast).run()
    return graph.replacements - before


HWNC = Pass("hwnc", use_hwnc_layout, rounding="fast", bound=64.0, gain=CPU_FORMS)
"""Winograd's products round more than the convolution: ``winograd.py`` has the table of errors.

Measured with tiles of 4 x 4, in eps times the sum of the absolute values of the terms: 42 for a result, 54 for the gradient of an
image and 18 for that of a filter, of normal numbers and after Relu; with tiles of 2 x 2 no more than 5. An element that reads
little but zeros has smaller terms than the tile that it is computed with: up to 900 where 14 of 15 numbers are 0.
"""


class _Layout(LayoutPass):
    """The image [N, C, H, W] as [H, W, N, C]."""

    def __init__(self, graph: Graph, chosen: set[Operator], is_fast: bool) -> None:
        super().__init__(graph)
        self.is_fast = is_fast
        self.chosen = chosen
        self.means: dict[Variable, Variable] = {}
        """By image: its mean per channel, [1, 1, 1, C]."""

    def form_of(self, op: Operator) -> Any:
        return super().form_of(op) if op in self.chosen or op.type == "Transpose" else None

    def operand(self, v: Variable, image: tuple[int, ...]) -> Any:
        held = self.twins.get(v)
        if held is not None:
            return held
        shape, channels = shape_of(v), shape_of(v)[1]
        if prod(shape) == channels:
            return v if channels == 1 else self.build.Reshape(v, [1, 1, 1, channels])
        return self.build.Transpose(v if v.rank == 4 else self.build.Reshape(v, shape), perm=BY_PIXELS)

    def give(self, v: Variable | None, twin: Any) -> bool:
        """The image ``v`` is computed in the HWNC layout; the usual order is made where somebody reads it."""
        assert v is not None
        batch, channels, height, width = shape_of(v)
        self.twins[v] = twin
        self.hidden[v] = (twin, (height * width, batch * channels), [1, 0])
        return True

    def rows(self, v: Variable) -> Any:
        """The image ``v`` as a matrix [positions * N, C]"""
        return self.build.Reshape(self.twin(v), [-1, shape_of(v)[1]])

    def mean(self, x: Variable, image: Any) -> Any:
        """The mean of an image per channel, [1, 1, 1, C], as a product with a row of equal numbers"""
        if x not in self.means:
            self.means[x] = self.summed(image, average=True)
        return self.means[x]

    def summed(self, image: Any, average: bool) -> Any:
        """The sum or the mean of an image per channel, [1, 1, 1, C]"""
        *positions, channels = image.static_shape
        size = prod(positions)
        row = np.full((1, size), 1 / size if average else 1, np.float32)
        return self.build.Reshape(self.build.MatMul(row, self.build.Reshape(image, [size, channels])), [1, 1, 1, channels])


def _convolution(pass_: _Layout, op: Operator) -> bool:
    operands = filter_operands(op)
    if operands is not None:
        return _filter_gradient(pass_, op, *operands)
    build, (x, w, *more), y = pass_.build, op.inputs, op.outputs[0]
    assert x is not None and w is not None and y is not None
    (batch, channels, *_), (_, out, *result), window = shape_of(x), shape_of(y), Window(op, shape_of(w)[2:])
    if window.kernel == (1, 1):
        flat = build.Gemm(_read_rows(pass_, x, window, result), build.Reshape(w, [out, channels]), transB=1)
        found = build.Reshape(flat, [*result, batch, out])
    else:
        tiles = _tiles(pass_, convolution, "result", x, y, window)
        found = tiles.image_of(build, pass_.twin(x), turned(build, tiles.filters(build, w)))
    return pass_.give(y, _with_bias(build, found, more))


def _transposed_convolution(pass_: _Layout, op: Operator) -> bool:
    build, (g, w, *more), x = pass_.build, op.inputs, op.outputs[0]
    assert g is not None and w is not None and x is not None
    (batch, out, *result), (_, channels, *image), window = shape_of(g), shape_of(x), Window(op, shape_of(w)[2:])
    if window.kernel == (1, 1):
        flat = build.MatMul(pass_.rows(g), build.Reshape(w, [out, channels]))
        found = _spread_rows(build, build.Reshape(flat, [-1, batch * channels]), window, result, image)
        found = build.Reshape(found, [*image, batch, channels])
    else:
        tiles = _tiles(pass_, backwards, "image", x, g, window)
        found = tiles.image_of(build, pass_.twin(g), tiles.filters(build, w))
    return pass_.give(x, _with_bias(build, found, more))


def _filter_gradient(pass_: _Layout, op: Operator, x: Variable, gy: Variable) -> bool:
    build, result = pass_.build, op.outputs[0]
    assert result is not None
    window = Window(op, shape_of(pass_.cropped(result) or result)[2:])
    window.strides, window.dilations = window.dilations, window.strides
    channels, (_, out, *positions) = shape_of(x)[1], shape_of(gy)
    if window.kernel == (1, 1):
        flat = build.Gemm(pass_.rows(gy), _read_rows(pass_, x, window, positions), transA=1)
        return pass_.give_filter(result, build.Reshape(flat, [out, channels, 1, 1]))
    tiles = _tiles(pass_, convolution, "filter", x, gy, window)
    return pass_.give_filter(result, tiles.filter_of(build, pass_.twin(x), pass_.twin(gy)))


def _tiles(pass_: _Layout, make: Any, kind: str, x: Variable, y: Variable, window: Window) -> Tiles:
    (batch, *image), (_, *result), stride = shape_of(x), shape_of(y), window.strides[0]
    tile, _ = best_tile(kind, batch, tuple(image), tuple(result), stride, pass_.is_fast)
    tiles: Tiles = make(tuple(image[1:]), tuple(result[1:]), tuple(window.pads[:2]), stride, tile == 4)
    return tiles


def _with_bias(build: Any, image: Any, bias: list[Variable | None]) -> Any:
    return build.Add(image, build.Reshape(bias[0], [1, 1, 1, -1])) if bias and bias[0] is not None else image


def _read_rows(pass_: _Layout, x: Variable, window: Window, result: list[int]) -> Any:
    """The positions of an image that a filter of one tap reads, [positions * N, C]"""
    if window.strides == [1, 1]:
        return pass_.rows(x)
    batch, channels, height, width = shape_of(x)
    read = _positions(window, result, width)
    by_pixel = pass_.build.Reshape(pass_.twin(x), [height * width, batch * channels])
    return pass_.build.Reshape(pass_.build.Gather(by_pixel, read, axis=0), [-1, channels])


def _spread_rows(build: Any, rows: Any, window: Window, result: list[int], image: list[int]) -> Any:
    """Rows of N * C numbers at the pixels that a stride reads, zeros at the others"""
    if window.strides == [1, 1]:
        return rows
    source = np.full(prod(image), prod(result))
    source[_positions(window, result, image[1])] = np.arange(prod(result))
    zeros = np.zeros((1, rows.static_shape[1]), np.float32)
    return build.Gather(build.Concat(rows, zeros, axis=0), source, axis=0)


def _positions(window: Window, result: list[int], width: int) -> Any:
    down, across = (np.arange(n) * s for n, s in zip(result, window.strides, strict=True))
    return (down[:, None] * width + across).reshape(-1)


def _elementwise(pass_: _Layout, op: Operator) -> bool:
    result = op.outputs[0]
    image = shape_of(result)
    operands = [v if v is None else pass_.twin(v) if shape_of(v) == image else pass_.operand(v, image) for v in op.inputs]
    return pass_.give(result, pass_.build.emit(op.type, operands, dict(op.attrs)))


def _expand(pass_: _Layout, op: Operator) -> bool:
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None
    batch, channels, height, width = shape_of(y)
    return pass_.give(y, pass_.build.Expand(pass_.operand(x, shape_of(y)), [height, width, batch, channels]))


def _batch_normalization(pass_: _Layout, op: Operator) -> bool:
    """Written out as its gradient computes it, so that onnxruntime sees what both have in common"""
    x, scale, shift, *running = op.inputs
    assert x is not None and scale is not None
    build, image, channels = pass_.build, pass_.twin(x), shape_of(x)[1]
    per_channel = [1, 1, 1, channels]
    epsilon = np.float32(op.attr("epsilon"))
    if not op.attr("training_mode"):
        mean, variance = (build.Reshape(v, per_channel) for v in running)
        centred = build.Sub(image, mean)
    else:
        mean = pass_.mean(x, image)
        centred = build.Sub(image, mean)
        variance = pass_.summed(build.Mul(centred, centred), average=True)
    factor = build.Mul(build.Reciprocal(build.Sqrt(build.Add(variance, epsilon))), build.Reshape(scale, per_channel))
    momentum = np.float32(op.attr("momentum"))
    for old, before, now in zip(op.outputs[1:], running, (mean, variance), strict=False):
        if old is not None:
            kept = build.Mul(before, momentum)
            pass_.replace(old, build.Add(kept, build.Mul(build.Reshape(now, [channels]), np.float32(1) - momentum)))
    return pass_.give(op.outputs[0], build.Add(build.Mul(centred, factor), build.Reshape(shift, per_channel)))


def _reduction(pass_: _Layout, op: Operator) -> bool:
    """Over all but the channels, or over the space of each image"""
    x, y = op.inputs[0], op.outputs[0]
    axes = op.inputs[1].value if len(op.inputs) > 1 and op.inputs[1] is not None else None
    assert x is not None and y is not None
    build, image = pass_.build, pass_.twin(x)
    summed = {2, 3} if axes is None else {int(axis) % 4 for axis in axes.numpy().reshape(-1)}
    batch, channels, height, width = shape_of(x)
    if summed == {2, 3}:
        flat = build.Reshape(image, [height * width, batch * channels])
        found = _over_rows(pass_, op.type, flat)
        return (
            pass_.give(y, build.Reshape(found, [1, 1, batch, channels]))
            if y.rank == 4
            else pass_.replace(y, build.Reshape(found, [batch, channels]))
        )
    if op.type == "ReduceMean":
        found = pass_.mean(x, image)
    else:
        found = _over_rows(pass_, op.type, build.Reshape(image, [height * width * batch, channels]))
    if y.rank == 4:
        return pass_.give(y, build.Reshape(found, [1, 1, 1, channels]))
    return pass_.replace(y, build.Reshape(found, [channels]))


def _over_rows(pass_: _Layout, op_type: str, matrix: Any) -> Any:
    build, rows = pass_.build, matrix.static_shape[0]
    if op_type in ("ReduceMax", "ReduceMin"):
        return build.emit(op_type, [matrix, build.constant(np.array([0]))], {"keepdims": 1})
    return build.MatMul(np.full((1, rows), 1 if op_type == "ReduceSum" else 1 / rows, np.float32), matrix)


def _global_average(pass_: _Layout, op: Operator) -> bool:
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None
    batch, channels, height, width = shape_of(x)
    found = _over_rows(pass_, "ReduceMean", pass_.build.Reshape(pass_.twin(x), [height * width, batch * channels]))
    return pass_.give(y, pass_.build.Reshape(found, [1, 1, batch, channels]))


def _concat(pass_: _Layout, op: Operator) -> bool:
    return pass_.give(op.outputs[0], pass_.build.Concat(*(pass_.twin(v) for v in op.inputs if v is not None), axis=3))


def _split(pass_: _Layout, op: Operator) -> bool:
    """Of channels"""
    x = op.inputs[0]
    assert x is not None
    parts = as_tuple(pass_.build.Split(pass_.twin(x), op.inputs[1], axis=3, outputs=len(op.outputs)))
    return all(pass_.give(v, part) for v, part in zip(op.outputs, parts, strict=True))


_Layout.FORMS = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "BatchNormalization": _batch_normalization,
    "GlobalAveragePool": _global_average,
    "Concat": _concat,
    "Split": _split,
    "Expand": _expand,
    "Transpose": lambda pass_, op: pass_.swap_back(op),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
}

"""The gradient of a filter as a matrix product for each of its taps, over copies of the image that are shifted by the tap.

Tests: tests/core/providers/test_filter_taps.py.
"""

from __future__ import annotations

from math import inf
from typing import Any

from onnxgrad.core.graph.contract import OPENVINO_FORMS, GraphPass, Pass
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import MapWindow, filter_operands, is_float32

__all__ = ["filter_taps"]

_MOST_TAPS = 9
"""A larger filter would read the images as often; and where there are as few channels as in a first layer, products are narrow."""
_LEAST_CHANNELS = 16


def filter_taps(most: float = inf) -> GraphPass:
    """Write filters' gradients of stride 1 as products, over so many terms at most: images times positions."""

    def form(build: Any, op: Operator) -> list[Variable | None] | None:
        return _filter_taps(build, op, most)

    return Pass("filter_taps", forms={"Conv": form}, rounding="order", gain=OPENVINO_FORMS)


def _filter_taps(build: Any, op: Operator, most: float) -> list[Variable | None] | None:
    """Multiply gy [O, N H W] by the image under each tap [C, N H W], transposed: Conv takes as many terms in its window.

    Of stride 1: a Slice with steps takes longer than the convolution.
    """
    operands, result = filter_operands(op), op.outputs[0]
    x, gy = op.inputs[:2]
    if operands is None or x is None or gy is None or result is None or not (is_float32(x) and is_float32(gy)):
        return None
    if result.static_shape is None or op.attr("auto_pad") not in (None, "NOTSET"):
        return None
    channels, out, *kernel = result.static_shape
    window = MapWindow.of_filter(op, kernel)
    taps = kernel[0] * kernel[1]
    if window.group != 1 or min(window.pads) < 0 or max(window.strides) > 1 or not 1 < taps <= _MOST_TAPS:
        return None
    height, width = gy.static_shape[2:]  # type: ignore[index]
    terms = gy.static_shape[1] * height * width  # type: ignore[index]
    if min(channels, out) < _LEAST_CHANNELS or not 0 < terms <= most:
        return None
    top, left, bottom, right = window.pads
    image = build.Pad(x, [0, 0, top, left, 0, 0, bottom, right]) if any(window.pads) else x
    rows = build.Reshape(gy, [out, terms])
    products = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            first = [i * window.dilations[0], j * window.dilations[1]]
            under = build.Slice(image, first, [first[0] + height, first[1] + width], [2, 3])
            product = build.Gemm(rows, build.Reshape(under, [channels, terms]), transB=1)
            products.append(build.Reshape(product, [out, 1, channels]))
    # Along the last axis a Concat of single elements takes three times as long as this one and the Transpose.
    by_filter = build.Reshape(build.Transpose(build.Concat(*products, axis=1), perm=[0, 2, 1]), [out, channels, *kernel])
    return [build.Transpose(by_filter, perm=[1, 0, 2, 3])]

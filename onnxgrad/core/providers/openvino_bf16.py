"""Forms of a training graph for OpenVINO's provider where it computes in bfloat16: those for float32, and convolutions.

Tests: tests/core/compile/test_corpus.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import OPENVINO_FORMS, GraphPass, Pass
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers import openvino
from onnxgrad.core.providers.layouts.filter_taps import filter_taps
from onnxgrad.core.providers.loops import written_out
from onnxgrad.core.providers.products.turned_products import EVEN_PRODUCTS, PARTED_PRODUCTS

__all__ = ["PASSES"]


def _transposed_convolution(build: Any, op: Operator) -> list[Variable | None] | None:
    """ConvTranspose of stride 1 as Conv with flipped filters: it has a bfloat16 kernel, four times as fast."""
    y, w = op.inputs[:2]
    shape = None if w is None else w.static_shape
    if shape is None or y is None or op.attr("group") not in (None, 1) or any(s != 1 for s in op.attr("strides") or ()):
        return None
    if op.attr("auto_pad") not in (None, "NOTSET") or op.attr("output_shape") or not all(shape):
        return None
    inner, outer, *kernel = shape
    rank = len(kernel)
    dilations, extra = op.attr("dilations") or [1] * rank, op.attr("output_padding") or [0] * rank
    pads = op.attr("pads") or [0] * 2 * rank
    reach = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
    begin = [r - p for r, p in zip(reach, pads[:rank], strict=True)]
    end = [r - p + e for r, p, e in zip(reach, pads[rank:], extra, strict=True)]
    if min(begin + end) < 0:
        return None
    filters = build.Transpose(w, perm=[1, 0, *range(2, rank + 2)])
    taps = prod(kernel)
    if taps > 1:
        # A product with a turned identity matrix: a Gather along the last axis takes ten times as long.
        turned = build.MatMul(build.Reshape(filters, [outer * inner, taps]), np.eye(taps, dtype=np.float32)[::-1].copy())
        filters = build.Reshape(turned, [outer, inner, *kernel])
    return [build.Conv(y, filters, *op.inputs[2:], pads=[*begin, *end], dilations=dilations)]


TRANSPOSED_CONVOLUTION = Pass(
    "transposed_convolution", forms={"ConvTranspose": _transposed_convolution}, rounding="order", gain=OPENVINO_FORMS
)
"""The gradients of images as convolutions. In float32 these are slower: a step of a ResNet-18 takes 1.2 times as long."""

_OWN = {each.name: each for each in (filter_taps(), written_out())}
PASSES: list[GraphPass] = [
    *(_OWN.get(each.name, each) for each in openvino.PASSES),
    TRANSPOSED_CONVOLUTION,
    PARTED_PRODUCTS,
    EVEN_PRODUCTS,
]

"""The gradient of a filter over images whose number is unknown: products as in the CHWN layout.

Tests: tests/core/providers/test_chwn.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onnxgrad.core.graph.contract import CPU_FORMS, Pass
from onnxgrad.core.graph.matching import SWAPPED
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import filter_operands
from onnxgrad.core.providers.layouts.filter_products import depthwise_filter_product, filter_product

__all__ = ["FILTER_GRADIENT", "filter_gradient"]


class _Window(NamedTuple):
    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]


def filter_gradient(build: Any, op: Operator) -> list[Variable | None] | None:
    """As ``filter_product``, where the backward pass has Conv with batch and channels of both operands swapped, and strides
    and dilations.
    """
    group, result = op.attr("group") or 1, op.outputs[0]
    operands = filter_operands(op)
    if operands is None or result is None:
        return None
    x, gy = operands
    image, given, found = (_inner_shape(v) for v in (x, gy, result))
    pads = op.attr("pads") or [0] * 4
    if image is None or given is None or found is None or result.static_shape is None or x.static_shape is not None:
        return None
    if min(pads) < 0 or x.dtype.name != "float32" or not (group == 1 or group == image[0] == given[0]):
        return None
    # In the gradient of a filter strides and dilations have changed roles.
    window = _Window(result.static_shape[2:], op.attr("dilations") or [1, 1], op.attr("strides") or [1, 1], pads)
    chwn, given_chwn = (build.Transpose(v, perm=[1, 2, 3, 0]) for v in (x, gy))
    form = filter_product if group == 1 else depthwise_filter_product
    gradient = form(build, chwn, given_chwn, image[1:], given[1:], window)
    return [build.Transpose(gradient, perm=SWAPPED)]


def _inner_shape(v: Variable) -> tuple[int, ...] | None:
    """Channels, height and width, if they are known."""
    dims = v.dims
    if dims is None or len(dims) != 4 or not all(isinstance(d, int) and d > 0 for d in dims[1:]):
        return None
    return tuple(int(d) for d in dims[1:])  # type: ignore[arg-type]


FILTER_GRADIENT = Pass("filter_gradient", forms={"Conv": filter_gradient}, rounding="order", gain=CPU_FORMS)

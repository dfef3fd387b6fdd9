"""The gradient of a filter over images whose number is unknown: products as in the CHWN layout.

Tests: tests/core/providers/test_chwn.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import CPU_FORMS, Pass
from onnxgrad.core.graph.matching import SWAPPED
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import MapWindow, filter_operands
from onnxgrad.core.providers.layouts.filter_products import depthwise_filter_product, filter_product

__all__ = ["FILTER_GRADIENT", "filter_gradient"]


def filter_gradient(build: Any, op: Operator) -> list[Variable | None] | None:
    """As ``filter_product``, where the backward pass has Conv with batch and channels of both operands swapped, and strides
    and dilations.
    """
    operands, result = filter_operands(op), op.outputs[0]
    if operands is None or result is None:
        return None
    x, gy = operands
    x_shape, gy_shape, gw_shape = (_inner_shape(v) for v in (x, gy, result))
    if x_shape is None or gy_shape is None or gw_shape is None or result.static_shape is None or x.static_shape is not None:
        return None
    window = MapWindow.of_filter(op, result.static_shape[2:])
    is_dense = window.group == 1
    if min(window.pads) < 0 or x.dtype.name != "float32" or not (is_dense or window.group == x_shape[0] == gy_shape[0]):
        return None
    x_chwn, gy_chwn = (build.Transpose(v, perm=[1, 2, 3, 0]) for v in (x, gy))
    form = filter_product if is_dense else depthwise_filter_product
    gradient = form(build, x_chwn, gy_chwn, x_shape[1:], gy_shape[1:], window)
    return [build.Transpose(gradient, perm=SWAPPED)]


def _inner_shape(v: Variable) -> tuple[int, ...] | None:
    """Channels, height and width, if they are known."""
    dims = v.dims
    if dims is None or len(dims) != 4 or not all(isinstance(d, int) and d > 0 for d in dims[1:]):
        return None
    return tuple(int(d) for d in dims[1:])  # type: ignore[arg-type]


FILTER_GRADIENT = Pass("filter_gradient", forms={"Conv": filter_gradient}, rounding="order", gain=CPU_FORMS)

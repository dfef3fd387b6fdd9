"""The gradient of a filter over images whose number is unknown: a product with the im2col matrix, as in the CHWN layout."""

from __future__ import annotations

from math import prod
from typing import Any

from onnxgrad.core.compile.patterns import SWAPPED, im2col_indices_of_image, operand_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["filter_gradient"]

_LARGEST_COLUMNS = 2**20
"""Numbers that the im2col matrix may have per image."""


def filter_gradient(build: Any, op: Operator) -> list[Variable | None] | None:
    """gw [O, C * taps] = gy [O, positions * N] times the transposed im2col(x) [C * taps, positions * N]

    Where the backward pass has Conv with batch and channels of both operands swapped, and strides and dilations.
    """
    x, gy = (operand_of(v, "Transpose", SWAPPED) for v in op.inputs[:2])
    result = op.outputs[0]
    if x is None or gy is None or result is None or op.attr("group") not in (None, 1):
        return None
    image, given, found = (_inner_shape(v) for v in (x, gy, result))
    pads = op.attr("pads") or [0] * 4
    if image is None or given is None or found is None or result.static_shape is None or x.static_shape is not None:
        return None
    if min(pads) < 0:
        return None
    (channels, height, width), (out, rows, columns), kernel = image, given, result.static_shape[2:]
    if channels * prod(kernel) * rows * columns > _LARGEST_COLUMNS or x.dtype.name != "float32":
        return None
    top, left, bottom, right = pads
    chwn = build.Transpose(x, perm=[1, 2, 3, 0])
    if any(pads):
        chwn = build.Pad(chwn, [0, top, left, 0, 0, bottom, right, 0])
    height, width = height + top + bottom, width + left + right
    # In the gradient of a filter strides and dilations have changed roles.
    dilations, strides = op.attr("strides") or [1, 1], op.attr("dilations") or [1, 1]
    indices = im2col_indices_of_image(dilations, strides, kernel, (rows, columns), width)
    flat = build.Reshape(chwn, [channels, height * width, -1])
    im2col = build.Reshape(build.Gather(flat, indices.reshape(-1), axis=1), [channels * prod(kernel), -1])
    rows_of_gy = build.Reshape(build.Transpose(gy, perm=[1, 2, 3, 0]), [out, -1])
    product = build.Gemm(rows_of_gy, im2col, transB=1)
    return [build.Transpose(build.Reshape(product, [out, channels, *kernel]), perm=SWAPPED)]


def _inner_shape(v: Variable) -> tuple[int, ...] | None:
    """Channels, height and width, if they are known."""
    dims = v.dims
    if dims is None or len(dims) != 4 or not all(isinstance(d, int) and d > 0 for d in dims[1:]):
        return None
    return tuple(int(d) for d in dims[1:])  # type: ignore[arg-type]

"""The gradient of a filter over images whose number is unknown: a product with the gathered input, as with the batch last."""

from __future__ import annotations

from math import prod
from typing import Any

from onnxgrad.ir.operator import Operator
from onnxgrad.ir.variable import Variable
from onnxgrad.lowering.patterns import SWAPPED, operand_of, seen_places

__all__ = ["filter_gradient"]

_LARGEST_COLUMNS = 2**20
"""Numbers that the gathered input may have per image."""


def filter_gradient(build: Any, op: Operator) -> list[Variable | None] | None:
    """gw [O, C * taps] = gy [O, positions * N] times what each tap sees [C * taps, positions * N], transposed

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
    turned = build.Transpose(x, perm=[1, 2, 3, 0])
    if any(pads):
        turned = build.Pad(turned, [0, top, left, 0, 0, bottom, right, 0])
    height, width = height + top + bottom, width + left + right
    steps = zip(op.attr("strides") or [1, 1], op.attr("dilations") or [1, 1], kernel, (rows, columns), strict=True)
    down, across = (seen_places(dilation, stride, 0, *sizes) for dilation, stride, *sizes in steps)
    places = down[:, None, :, None] * width + across[None, :, None, :]
    flat = build.Reshape(turned, [channels, height * width, -1])
    seen = build.Reshape(build.Gather(flat, places.reshape(-1), axis=1), [channels * prod(kernel), -1])
    rows_of_gy = build.Reshape(build.Transpose(gy, perm=[1, 2, 3, 0]), [out, -1])
    product = build.Gemm(rows_of_gy, seen, transB=1)
    return [build.Transpose(build.Reshape(product, [out, channels, *kernel]), perm=SWAPPED)]


def _inner_shape(v: Variable) -> tuple[int, ...] | None:
    """Channels, height and width, if they are known."""
    dims = v.dims
    if dims is None or len(dims) != 4 or not all(isinstance(d, int) and d > 0 for d in dims[1:]):
        return None
    return tuple(int(d) for d in dims[1:])  # type: ignore[arg-type]

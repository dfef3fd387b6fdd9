"""Pooling over windows and over whole maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.origin import SUM_AT_MAXIMA
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.ir.window import dim_of, window_of
from onnxgrad.core.rules.common import axes_from, cast_like, lowest_of, or_infinite, size_as, zeros_of_shape
from onnxgrad.core.rules.registry import gradient
from onnxgrad.errors import UnsupportedGradient

_MOST_COUNTED = COSTS.count("pooling.most_counted_windows")
"""Windows along an axis whose elements are counted when the rule is written."""


@gradient("MaxPool", moves=True)
def max_pool(op, node, gy, gindices=None):
    """gx = gy added up at the maxima (the first of several equal ones)"""
    x = node.inputs[0]
    if any(dilation != 1 for dilation in node.attr("dilations") or ()):
        _refuse_auto_pad(node)
        gy = _without_empty_windows(op, node, gy)
    indices = node.outputs[1] if len(node.outputs) > 1 and node.outputs[1] is not None else node.extra_output(1)
    planes = op.Concat(op.Shape(x, start=0, end=2), _area(op, gy, len(node.attr("kernel_shape"))), axis=0)
    area = _area(op, x, len(node.attr("kernel_shape")))
    if node.attr("storage_order"):
        indices = _row_major(op, node, indices, area)
    within = op.Mod(op.Reshape(indices, planes, allowzero=1), area)
    wide = op.Cast(gy, to=1) if gy.dtype.name in ("float16", "bfloat16") else gy
    empty = zeros_of_shape(op, op.Concat(op.Shape(x, start=0, end=2), area, axis=0), wide)
    summed = op.ScatterElements(empty, within, op.Reshape(wide, planes, allowzero=1), axis=2, reduction="add")
    node.wrote(SUM_AT_MAXIMA, summed)
    return op.Reshape(op.Cast(summed, to=gy.dtype.number), op.Shape(x), allowzero=1)


def _without_empty_windows(op: Builder, node: Any, gy: Variable) -> Variable:
    """gy, but 0 where a dilated window reads nothing but padding: its maximum is the lowest number, and its index is none"""
    window, outputs = window_of(op, node, node.inputs[0], list(node.attr("kernel_shape"))), gy.static_shape
    if window.static and outputs is not None and _count_static(window, outputs[2:], 0).all():
        return gy
    if not node.outputs[0].is_float:
        raise UnsupportedGradient(
            f"{node}: among integers, a dilated window of nothing but padding cannot be told from one of smallest integers. "
            "Declare the shape of its input, or pool before QuantizeLinear."
        )
    return op.Where(op.Greater(node.outputs[0], lowest_of(gy.dtype)), gy, 0.0)


def _area(op: Builder, x: Variable, rank: int) -> Variable:
    """Number of positions in one plane, as a vector of one element"""
    sizes = [dim_of(op, x, 2 + i) for i in range(rank)]
    area = sizes[0]
    for size in sizes[1:]:
        area = op.Mul(area, size)
    return area


def _row_major(op: Builder, node: Any, indices: Variable, area: Variable) -> Any:
    """Column-major positions (c*H + r) within a plane as row-major ones (r*W + c)"""
    x = node.inputs[0]
    shape = [dim_of(op, x, 2 + i) for i in range(len(node.attr("kernel_shape")))]
    rest = op.Mod(indices, area)
    position = None
    weight = None
    digits = []
    for size in shape:
        digits.append(op.Mod(rest, size))
        rest = op.Div(rest, size)
    for digit, size in zip(reversed(digits), reversed(shape), strict=True):
        term = digit if weight is None else op.Mul(digit, weight)
        position = term if position is None else op.Add(position, term)
        weight = size if weight is None else op.Mul(weight, size)
    return position


@gradient("AveragePool")
def average_pool(op, node, gy):
    """gx = gy / number of averaged elements, given back to the whole window"""
    x = node.inputs[0]
    window = _pooling_window(op, node, x)
    return _give_back(op, window, op.Div(gy, _window_counts(op, node, window, gy)))


def _pooling_window(op: Builder, node: Any, x: Variable) -> Any:
    """The window, unless it is one of which the specification and runtimes think differently"""
    window = window_of(op, node, x, list(node.attr("kernel_shape")))
    dilated = any(dilation != 1 for dilation in window.dilations)
    skips = any(stride > kernel + 1 for stride, kernel in zip(window.strides, window.kernel, strict=True))
    if dilated or skips:
        _refuse_auto_pad(node)
    return window


def _refuse_auto_pad(node: Any) -> None:
    if node.attr("auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        raise UnsupportedGradient(
            f"{node}: with auto_pad, runtimes place windows that are dilated or leave gaps otherwise than the specification. "
            "Write the pads out."
        )


def _give_back(op: Builder, window: Any, share: Variable) -> Variable:
    """Each element of ``share`` added to all elements that its window read"""
    single = op.Concat([-1, 1], op.Shape(share, start=2), axis=0)
    ones = op.constant(np.ones([1, 1, *window.kernel], share.dtype.numpy))
    attrs = {"strides": window.strides, "dilations": window.dilations, "kernel_shape": window.kernel}
    covered = op.ConvTranspose(op.Reshape(share, single), ones, **attrs)
    fitted = op.Pad(covered, window.fitting_pads(op, covered))
    return op.Reshape(fitted, op.Shape(window.x), allowzero=1)


def _window_counts(op: Builder, node: Any, window: Any, gy: Variable) -> Any:
    """Return the number of elements that each window averages: its size, or without padding if that is not counted"""
    include = node.attr("count_include_pad")
    unpadded = all(isinstance(p, int) and p == 0 for p in window.begin + window.end)
    if not node.attr("ceil_mode") and window.static and any(n < 1 for n in window.outputs()):
        raise UnsupportedGradient(
            f"{node}: its window is larger than its input, {window.sizes} and the pads, where runtimes differ. Make it smaller."
        )
    if not node.attr("ceil_mode") and (include or unpadded):
        return _elements_of_a_window(op, window, gy)
    outputs = gy.static_shape
    if window.static and outputs is not None and max(outputs[2:], default=0) < _MOST_COUNTED:
        return op.constant(_count_static(window, outputs[2:], include).astype(gy.dtype.numpy))
    lead = [0, 0]
    space = op.Concat([1, 1], op.Shape(window.x, start=2), axis=0)
    ones = op.Expand(op.constant(1, gy.dtype), space)
    begin, end = (op.Concat(*([p] if isinstance(p, int) else p for p in side), axis=0) for side in (window.begin, window.end))
    padded = op.Pad(ones, op.Concat(lead, begin, lead, end, axis=0), op.constant(float(include), gy.dtype))
    covered = op.Add(op.Mul(op.Sub(op.Shape(gy, start=2), [1]), window.strides), window.extent)
    overhang = op.Sub(covered, op.Shape(padded, start=2))
    padded = op.Pad(padded, op.Concat([0, 0] + [0] * window.rank, lead, overhang, axis=0))
    kernel = op.constant(np.ones([1, 1, *window.kernel], gy.dtype.numpy))
    return op.Conv(padded, kernel, strides=window.strides, dilations=window.dilations)


def _elements_of_a_window(op: Builder, window: Any, gy: Variable) -> Any:
    """The size of the kernel; less where even the padded x is smaller, for runtimes then compute one window of all there is"""
    if not all(isinstance(p, int) for p in window.begin + window.end):
        return float(np.prod(window.kernel))  # auto_pad makes room
    pads = [b + e for b, e in zip(window.begin, window.end, strict=True)]
    if all(isinstance(n, int) and n + p >= reach for n, p, reach in zip(window.sizes, pads, window.extent, strict=True)):
        return float(np.prod(window.kernel))
    more = [p + d - 1 for p, d in zip(pads, window.dilations, strict=True)]
    taps = op.Div(op.Add(op.Shape(window.x, start=2), more), window.dilations)
    return op.Cast(op.ReduceProd(op.Min(taps, window.kernel), keepdims=0), to=gy.dtype.number)


def _count_static(window: Any, outputs: Any, include: int) -> Any:
    """[1, 1, ...] array of element counts"""
    counts = np.ones([1, 1] + [1] * window.rank)
    for i in range(window.rank):
        low, high = (-window.begin[i], window.sizes[i] + window.end[i]) if include else (0, window.sizes[i])
        line = []
        for o in range(outputs[i]):
            start, step = o * window.strides[i] - window.begin[i], window.dilations[i]
            first, last = -((start - low) // step), -((start - high) // step)
            line.append(max(0, min(last, window.kernel[i]) - max(first, 0)))
        counts = counts * np.reshape(line, [-1 if axis == 2 + i else 1 for axis in range(2 + window.rank)])
    return counts


@gradient("GlobalAveragePool")
def global_average_pool(op, node, gy):
    """gx = gy / number of positions, at every position"""
    x, (y,) = node.inputs[0], node.outputs
    total, kept = size_as(op, x, x), size_as(op, y, x)
    if isinstance(total, float) and isinstance(kept, float):
        return op.Expand(op.Mul(gy, kept / total if total else 0.0), op.Shape(x))
    return op.Expand(op.Div(op.Mul(gy, kept), total), op.Shape(x))


@gradient("GlobalMaxPool")
def global_max_pool(op, node, gy):
    """gx = gy at the maxima; ties share it equally"""
    x, (y,) = node.inputs[0], node.outputs
    chosen = cast_like(op, op.Equal(x, y), x)
    count = op.ReduceSum(chosen, axes_from(op, x, 2), keepdims=1)
    return op.Div(op.Mul(chosen, gy), count)


@gradient("LpPool")
def lp_pool(op, node, gy):
    """gx = sign(x) |x|^(p-1) * (gy / y^(p-1) given back to the whole window), 0 where y = 0"""
    x, (y,), p = node.inputs[0], node.outputs, node.attr("p")
    window = _pooling_window(op, node, x)
    return op.Mul(_signed_power(op, x, p - 1), _give_back(op, window, _over_power(op, gy, y, p - 1)))


@gradient("GlobalLpPool")
def global_lp_pool(op, node, gy):
    """gx = gy * sign(x) (|x| / y)^(p-1), 0 where y = 0"""
    x, (y,), p = node.inputs[0], node.outputs, node.attr("p")
    return op.Mul(_signed_power(op, x, p - 1), _over_power(op, gy, y, p - 1))


def _signed_power(op: Builder, x: Variable, exponent: int) -> Variable:
    """sign(x) |x|^exponent"""
    if exponent == 1:
        return x
    return op.Sign(x) if exponent == 0 else op.Mul(op.Sign(x), op.Pow(op.Abs(x), float(exponent)))


def _over_power(op: Builder, g: Variable, y: Variable, exponent: int) -> Variable:
    """g / y^exponent, 0 where y = 0"""
    if exponent == 0:
        return g
    divisor = or_infinite(op, y)
    return op.Div(g, divisor if exponent == 1 else op.Pow(divisor, float(exponent)))

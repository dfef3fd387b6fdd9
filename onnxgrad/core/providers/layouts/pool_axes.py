"""Maximum pooling of images [1, C, H, W * N], and its gradient, one axis after the other.

onnxruntime's MaxPool that returns Indices looks at every tap of every window alone, in the usual order of axes. Without Indices,
and along one axis whose elements lie in rows, it takes the larger of whole rows. The maximum over columns comes first and then that
over rows, so the gradient, which goes the other way, finds the first of several equal elements in the usual order: the first row
whose maximum is that of the window, and in it the first column. Per axis it takes a slice, a comparison and a product for each tap,
a few channels at a time, so that they stay in the processor's cache.

Tests: tests/core/providers/test_pool_axes.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.matching import operand_of, summed_pool
from onnxgrad.core.ir.bodies import as_tuple
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.providers.layouts.channel_strips import by_channels
from onnxgrad.core.providers.layouts.feature_maps import shape_of
from onnxgrad.core.providers.layouts.layout import LayoutPass
from onnxgrad.core.providers.layouts.pool_gradient import PoolAxis, pool_axes

__all__ = ["max_pool", "max_pool_gradient"]

_SMALLEST = COSTS.count("pool_axes.smallest_image")
"""Numbers of all images from which on some more operators cost less than Indices."""


def max_pool(pass_: LayoutPass, op: Operator) -> bool:
    """Pool columns and then rows, where nothing reads the Indices but the gradients of this pool."""
    x, y = op.inputs[0], op.outputs[0]
    # Other providers than the CPU's compare and loop at another price, and have a form of their own.
    if not pass_.target.runs_on_cpu or not pass_.holds(x) or len(shape_of(y)) != 4 or not all(shape_of(y)):
        return False
    axes = pool_axes(op)
    if axes is None or prod(shape_of(x)) < _SMALLEST or any(axis.end >= axis.taps for axis in axes):
        return False
    if not _reads_only_gradients(pass_, op):
        return False
    (rows, columns), (batch, channels, height, _) = axes, shape_of(x)
    pass_.pooled[op] = of_rows = _maxima(pass_.build, pass_.image(x), channels * height, columns, batch)
    image = _maxima(pass_.build, of_rows, channels, rows, columns.windows * batch)
    return pass_.give(y, pass_.build.Reshape(image, pass_.LAYOUT.shape(shape_of(y))))


def max_pool_gradient(pass_: LayoutPass, op: Operator) -> bool:
    """Give the gradient of a pool's image, which a Reshape makes of the sums at its maxima, if the pool was written so."""
    summed = op.inputs[0].op if op.inputs[0] is not None else None
    pool = None if summed is None or summed.type != "ScatterElements" or summed.domain else summed_pool(summed)
    if pool is None or pool not in pass_.pooled:
        return False
    axes, build = pool_axes(pool), pass_.build
    x, y, gy = pool.inputs[0], pool.outputs[0], operand_of(summed.inputs[2], "Reshape")  # type: ignore[union-attr]
    assert axes is not None and gy is not None
    (rows, columns), (batch, channels, height, width) = axes, shape_of(x)
    of_rows = pass_.pooled[pool]
    image, result, gradient = (pass_.image(v) for v in (x, y, gy))
    across = columns.windows * batch

    def strip(build: Any, x: Any, middle: Any, y: Any, gy: Any) -> Any:
        each = x.static_shape[0]
        g_rows = _gradient(build, middle, y, gy, each, rows, across)
        return build.Reshape(_gradient(build, x, middle, g_rows, each * height, columns, batch), [each, -1])

    operands = [build.Reshape(v, [channels, -1]) for v in (image, of_rows, result, gradient)]
    gx = by_channels(build, channels, channels * height * width * batch, operands, strip)
    return pass_.give(op.outputs[0], build.Reshape(gx, pass_.LAYOUT.shape(shape_of(x))))


def _reads_only_gradients(pass_: LayoutPass, pool: Operator) -> bool:
    """Return whether nothing reads the Indices of a pool but what its rule writes for gradients of its image."""
    waiting = [v for v in pool.outputs[1:] if v is not None]
    while waiting:
        v = waiting.pop()
        if v in pass_.links.returned:
            return False
        for op in pass_.links.readers.get(v, ()):
            if op.type in ("Reshape", "Mod") and not op.domain and op.inputs[0] is v and op.outputs[0] is not None:
                waiting.append(op.outputs[0])
            elif not _is_gradient(pass_, op, pool):
                return False
    return True


def _is_gradient(pass_: LayoutPass, op: Operator, pool: Operator) -> bool:
    """Return whether an operator adds up the gradient of a pool, which is then read as an image and as nothing else."""
    if op.type != "ScatterElements" or op.domain or summed_pool(op) is not pool:
        return False
    x, y, gy, planes = pool.inputs[0], pool.outputs[0], operand_of(op.inputs[2], "Reshape"), op.outputs[0]
    if x is None or y is None or gy is None or planes is None or planes in pass_.links.returned:
        return False
    images = [reader.outputs[0] for reader in pass_.links.readers.get(planes, ()) if reader.type == "Reshape" and not reader.domain]
    is_image = len(images) == len(pass_.links.readers.get(planes, ())) and all(
        image is not None and image.static_shape == x.static_shape for image in images
    )
    return is_image and gy.static_shape == y.static_shape


def _maxima(build: Any, image: Any, before: int, axis: PoolAxis, after: int) -> Any:
    """The maxima along one axis, with so many numbers before it and after it"""
    if axis.is_whole:
        return image
    window = {"kernel_shape": [axis.taps, 1], "strides": [axis.stride, 1], "pads": [axis.pad, 0, axis.end, 0]}
    dilations = {} if axis.dilation == 1 else {"dilations": [axis.dilation, 1]}
    return build.MaxPool(build.Reshape(image, [1, before, axis.size, after]), **window, **dilations)


def _gradient(build: Any, x: Any, y: Any, gy: Any, before: int, axis: PoolAxis, after: int) -> Any:
    """The gradient of numbers [before, size, after] of which y [before, windows, after] are the maxima"""
    if axis.is_whole:
        return gy
    stride, rows = axis.stride, -(-axis.size // axis.stride)
    beyond = rows * stride - axis.size
    y, left = (build.Reshape(v, [before, axis.windows, after]) for v in (y, gy))
    x = _moved(build, build.Reshape(x, [before, axis.size, after]), 0, beyond, np.nan)
    residues = [x]
    if stride > 1:
        x = build.Reshape(x, [before, rows, stride * after])
        residues = list(as_tuple(build.Split(x, [after] * stride, axis=2, outputs=stride)))
    parts: list[Any] = [None] * stride
    taps = axis.reading_taps()
    for first in taps:
        shift, residue = divmod(first, stride)
        hit = left
        if first != taps[-1]:
            # NaN is equal to nothing, so what lies beside the image is never the maximum.
            read = _moved(build, residues[residue], -shift, axis.windows + shift - rows, np.nan)
            hit = build.Mul(left, build.Cast(build.Equal(read, y), to=left.dtype.number))
            left = build.Sub(left, hit)
        placed = _moved(build, hit, shift, rows - axis.windows - shift, 0.0)
        parts[residue] = placed if parts[residue] is None else build.Add(parts[residue], placed)
    if stride == 1:
        return parts[0]
    apart = [before, rows, 1, after]
    columns = [build.Expand(0.0, apart) if part is None else build.Reshape(part, apart) for part in parts]
    whole = build.Reshape(build.Concat(*columns, axis=2), [before, rows * stride, after])
    return _moved(build, whole, 0, -beyond, 0.0)


def _moved(build: Any, v: Any, front: int, behind: int, fill: float) -> Any:
    """Numbers [a, n, b] with so many rows more in front and behind, or fewer where they are negative"""
    size = v.static_shape[1]
    if min(front, behind) < 0:
        v = build.Slice(v, [max(0, -front)], [size - max(0, -behind)], [1])
    pads = [0, max(0, front), 0, 0, max(0, behind), 0]
    return build.Pad(v, pads, np.array(fill, v.dtype.numpy)) if any(pads) else v

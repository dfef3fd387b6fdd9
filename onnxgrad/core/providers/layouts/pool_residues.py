"""The gradient of maximum pooling in two dimensions without a strided read: the residues of an image side by side as channels.

``pool_gradient`` reads every tap of a window by a Slice with steps, and puts the residues between each other by Concat, which
OpenVINO does element by element. SpaceToDepth and DepthToSpace move all residues in a pass each, and a tap is then a block of rows.

Tests: tests/core/providers/test_pool_residues.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.graph.matching import operand_of, summed_pool
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import same_dims
from onnxgrad.core.ir.variable import Variable

__all__ = ["pool_gradient_by_residues"]

_LOWEST = -3e38
"""What is read in the padding."""
_WIDEST = 8
"""Taps along an axis, at most: each takes some operators."""


def pool_gradient_by_residues(build: Any, op: Operator) -> list[Variable | None] | None:
    """The ScatterElements of a pool's gradient, for images of known size, and windows of one stride above 1 without gaps."""
    pool, gy = summed_pool(op), op.inputs[2]
    x, y = (None, None) if pool is None else (pool.inputs[0], pool.outputs[0])
    if pool is None or gy is None or x is None or y is None or x.dims is None or x.rank != 4 or x.dtype.name != "float32":
        return None
    if not same_dims(gy.dims, y.dims):
        gy = operand_of(gy, "Reshape")
    kernel, strides = pool.attr("kernel_shape"), pool.attr("strides") or [1, 1]
    stride = strides[0]
    sizes = [n for n in x.dims[1:] if isinstance(n, int) and n > 0]
    windows = [n for n in (y.dims or ())[2:] if isinstance(n, int) and n > 0]
    if gy is None or not same_dims(gy.dims, y.dims) or (len(sizes), len(windows)) != (3, 2):
        return None
    if strides[1] != stride or stride < 2 or min(kernel) < stride or max(kernel) > _WIDEST:
        return None
    if pool.attr("auto_pad") not in (None, "NOTSET") or any(d != 1 for d in pool.attr("dilations") or ()):
        return None
    channels, *space = sizes
    pads = (pool.attr("pads") or [0] * 4)[:2]
    rows = [
        -(-max((count - 1) * stride + taps, pad + size) // stride)
        for count, taps, pad, size in zip(windows, kernel, pads, space, strict=True)
    ]
    ends = [n * stride - pad - size for n, pad, size in zip(rows, pads, space, strict=True)]
    residues = build.SpaceToDepth(build.Pad(x, [0, 0, *pads, 0, 0, *ends], _LOWEST), blocksize=stride)
    parts = build.Split(residues, [channels] * stride**2, axis=1, outputs=stride**2)
    left: Any = gy
    sums: dict[int, Any] = {}
    taps = list(np.ndindex(*kernel))
    for number, tap in enumerate(taps):
        at = tap[0] % stride * stride + tap[1] % stride
        shift = [n // stride for n in tap]
        hit = left
        if number < len(taps) - 1:
            read = build.Slice(parts[at], shift, [n + count for n, count in zip(shift, windows, strict=True)], [2, 3])
            hit = build.Mul(left, build.Cast(build.Equal(read, y), to=x.dtype.number))
            left = build.Sub(left, hit)
        after = [n - count - before for n, count, before in zip(rows, windows, shift, strict=True)]
        moved = build.Pad(hit, [0, 0, *shift, 0, 0, *after]) if any(shift) or any(after) else hit
        sums[at] = build.Add(sums[at], moved) if at in sums else moved
    whole = build.DepthToSpace(build.Concat(*(sums[at] for at in range(stride**2)), axis=1), blocksize=stride)
    if any(pads) or any(ends):
        whole = build.Slice(whole, pads, [pad + size for pad, size in zip(pads, space, strict=True)], [2, 3])
    return [build.Reshape(whole, [0, 0, -1])]

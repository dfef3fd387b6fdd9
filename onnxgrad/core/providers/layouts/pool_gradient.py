"""The gradient of maximum pooling without indices, for providers that have no kernel for them, or a slow one.

For each tap of the window, what it read is compared with the maximum; the gradient goes to the first tap that is equal, and from
there to the place that was read. So it takes some elementwise operators per tap, and no integers.

Tests: tests/core/providers/test_pool_gradient.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import operand_of, summed_pool
from onnxgrad.core.graph.rewriting import Links
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import same_dims
from onnxgrad.core.ir.variable import Variable

__all__ = ["UNREAD_INDICES", "PoolAxis", "drop_unread_indices", "pool_axes", "pool_gradient"]

_LOWEST = -3e38
"""What is read in the padding."""
_MOST_TAPS = COSTS.count("pool_gradient.most_taps")


class PoolAxis(NamedTuple):
    """One axis of a pool: so many windows of ``taps`` elements over ``size``."""

    size: int
    windows: int
    taps: int
    stride: int
    dilation: int
    pad: int

    @property
    def reach(self) -> int:
        """Elements, padding included, up to the last that a window reads"""
        return (self.windows - 1) * self.stride + (self.taps - 1) * self.dilation + 1

    @property
    def rows(self) -> int:
        """Elements of one residue modulo the stride"""
        return -(-max(self.reach, self.pad + self.size) // self.stride)

    @property
    def end(self) -> int:
        """Padding that the windows need behind the elements"""
        return max(0, self.reach - self.pad - self.size)

    @property
    def is_whole(self) -> bool:
        """Whether each window is one element, and each element a window"""
        return self.taps == self.stride == 1 and self.windows == self.size and self.pad == 0

    def reading_taps(self) -> list[int]:
        """The elements that the taps of the first window read, counted from the first of the axis, of taps that read any at all"""
        firsts = [tap * self.dilation - self.pad for tap in range(self.taps)]
        last = (self.windows - 1) * self.stride
        return [n for n in firsts if any(0 <= n + step < self.size for step in range(0, last + 1, self.stride))]


def pool_gradient(build: Any, op: Operator) -> list[Variable | None] | None:
    """The ScatterElements of a pool's gradient by taps: for known sizes of the maps, any number of images, at most 64 taps."""
    pool, gy = summed_pool(op), op.inputs[2]
    if pool is None or gy is None:
        return None
    x, y = pool.inputs[0], pool.outputs[0]
    if y is not None and not same_dims(gy.dims, y.dims):
        gy = operand_of(gy, "Reshape")
    axes = pool_axes(pool)
    if (
        axes is None
        or x is None
        or y is None
        or gy is None
        or not same_dims(gy.dims, y.dims)
        or x.dtype.name not in ("float32", "float64")
    ):
        return None
    padded = build.Pad(x, [0, 0, *(axis.pad for axis in axes), 0, 0, *(axis.end for axis in axes)], _LOWEST)
    left: Any = gy
    parts: dict[tuple[int, ...], Any] = {}
    taps = list(np.ndindex(*(axis.taps for axis in axes)))
    spatial = list(range(2, 2 + len(axes)))
    for number, tap in enumerate(taps):
        starts = [i * axis.dilation for i, axis in zip(tap, axes, strict=True)]
        if number < len(taps) - 1:
            ends = [start + (axis.windows - 1) * axis.stride + 1 for start, axis in zip(starts, axes, strict=True)]
            read = build.Slice(padded, starts, ends, spatial, [axis.stride for axis in axes])
            hit = build.Mul(left, build.Cast(build.Equal(read, y), to=x.dtype.number))
            left = build.Sub(left, hit)
        else:
            hit = left
        residue = tuple(start % axis.stride for start, axis in zip(starts, axes, strict=True))
        before = [start // axis.stride for start, axis in zip(starts, axes, strict=True)]
        after = [axis.rows - axis.windows - shift for axis, shift in zip(axes, before, strict=True)]
        moved = build.Pad(hit, [0, 0, *before, 0, 0, *after]) if any(before) or any(after) else hit
        parts[residue] = build.Add(parts[residue], moved) if residue in parts else moved
    whole = _interleaved(build, parts, axes)
    starts, ends = [axis.pad for axis in axes], [axis.pad + axis.size for axis in axes]
    if any(starts) or any(end < axis.rows * axis.stride for axis, end in zip(axes, ends, strict=True)):
        whole = build.Slice(whole, starts, ends, spatial)
    return [build.Reshape(whole, [0, 0, -1])]


def _interleaved(build: Any, parts: dict[tuple[int, ...], Any], axes: list[PoolAxis]) -> Any:
    """The residues of each axis put between each other, the last axis first"""
    missing = None
    for axis in reversed(range(len(axes))):
        joined: dict[tuple[int, ...], Any] = {}
        stride = axes[axis].stride
        for lead in dict.fromkeys(key[:-1] for key in parts):
            residues = [parts.get((*lead, r)) for r in range(stride)]
            if stride == 1:
                joined[lead] = residues[0]
                continue
            if any(part is None for part in residues):
                present = next(part for part in residues if part is not None)
                missing = build.Mul(present, 0.0)
            # [N, C, rows, ..., 1, ...] side by side along the new axis
            columns = [build.Unsqueeze(missing if part is None else part, [3 + axis]) for part in residues]
            sizes = [a.rows if i < axis else a.rows * (a.stride if i > axis else 1) for i, a in enumerate(axes)]
            sizes[axis] *= stride
            joined[lead] = build.Reshape(build.Concat(*columns, axis=3 + axis), [0, 0, *sizes])
        parts = joined
    return parts[()]


def pool_axes(pool: Operator) -> list[PoolAxis] | None:
    """The axes of the maps, where their sizes are known and the window has not too many taps"""
    x, y = pool.inputs[0], pool.outputs[0]
    kernel = pool.attr("kernel_shape")
    rank = len(kernel)
    if x is None or y is None or x.dims is None or y.dims is None or int(np.prod(kernel)) > _MOST_TAPS:
        return None
    sizes, counts = x.dims[2:], y.dims[2:]
    if not all(isinstance(n, int) and n > 0 for n in (*sizes, *counts)):
        return None
    strides, dilations = pool.attr("strides") or [1] * rank, pool.attr("dilations") or [1] * rank
    pads, mode = pool.attr("pads") or [0] * 2 * rank, pool.attr("auto_pad")
    axes = [PoolAxis(*axis) for axis in zip(sizes, counts, kernel, strides, dilations, pads[:rank], strict=True)]
    if mode in (None, "NOTSET"):
        return axes
    if mode != "VALID" and any(axis.dilation != 1 or axis.reach < axis.size for axis in axes):
        # Runtimes place windows that are dilated or leave gaps otherwise than the specification.
        return None
    # The windows say how much padding there is, and the mode on which side of an odd number the larger part lies.
    missing = [0 if mode == "VALID" else max(0, axis.reach - axis.size) for axis in axes]
    return [axis._replace(pad=(n + (mode == "SAME_LOWER")) // 2) for axis, n in zip(axes, missing, strict=True)]


def drop_unread_indices(graph: Graph, target: Target) -> int:
    """Leave out the Indices of pools that nothing reads any more."""
    links, count = Links(graph), 0
    for op in graph.operators:
        if op.type == "MaxPool" and not op.domain and len(op.outputs) > 1 and op.outputs[1] not in links.readers:
            if op.outputs[1] not in links.returned:
                op.outputs = op.outputs[:1]
                count += 1
    return count


UNREAD_INDICES = Pass("unread_indices", drop_unread_indices)

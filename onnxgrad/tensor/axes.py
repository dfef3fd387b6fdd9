"""Axes and their sizes: orders, neighbours, prefixes, shapes known now or only at run time.

Tests: tests/tensor/test_structure.py.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.tensor.common import known_dim, normal_axis, shape_of
from onnxgrad.tensor.layer import LayerHelper, is_variable

__all__ = ["count", "dim", "flat_if_none", "moved_order", "neighbours", "prefix_scan", "sizes_at", "sizes_from", "without_axes_too"]

_Along = TypeVar("_Along", bound=Callable[..., Any])
_FAR = np.iinfo(np.int64).max


def dim(op: Builder, x: Variable, axis: int) -> Any:
    """The size of an axis as an int64 operand of shape [1], constant when it is known."""
    size = x.shape[axis]
    if size >= 0:
        return np.array([size])
    axis %= x.ndim
    return op.Shape(x, start=axis, end=axis + 1)


def sizes_from(op: Builder, x: Variable, axis: int, lead: Sequence[int] = ()) -> Any:
    """``lead``, then the sizes of ``x`` from an axis on, as an operand; constant when they are known."""
    tail = x.shape[axis:]
    if all(size >= 0 for size in tail):
        return np.array([*lead, *tail], np.int64)
    return op.Concat(op.constant(np.array(lead, np.int64)), op.Shape(x, start=axis), axis=0)


def sizes_at(op: Builder, x: Variable, axes: Sequence[int]) -> Any:
    """The sizes of ``x`` on ``axes``, and 1 on the others, as an operand; constant when they are known."""
    size, wanted = shape_of(op, x), np.isin(np.arange(x.ndim), axes)
    return np.where(wanted, size, 1) if isinstance(size, np.ndarray) else op.Where(wanted, size, np.array(1))


def neighbours(op: Builder, x: Variable, axis: int) -> tuple[Variable, Variable]:
    """All elements along an axis but the first, and all but the last."""
    return op.Slice(x, [1], [_FAR], [axis]), op.Slice(x, [0], [-1], [axis])


def flat_if_none(layer: LayerHelper, x: Variable, axis: int | None) -> tuple[Variable, int]:
    """``x`` and an axis, counted from the front; without one, the flattened ``x`` and its only axis."""
    if axis is None:
        return layer.op.Reshape(x, np.array([-1])), 0
    return x, normal_axis(axis, x.ndim, layer.name)


def moved_order(x: Variable, sources: Sequence[int], targets: Sequence[int]) -> list[int]:
    """The order of axes in which those of ``sources`` stand at ``targets``, and the others as they stood."""
    others = iter(axis for axis in range(x.ndim) if axis not in sources)
    return [sources[targets.index(axis)] if axis in targets else next(others) for axis in range(x.ndim)]


def count(op: Builder, x: Variable, axes: list[int] | None) -> Any:
    """How many elements ``axes`` span (None: all): a number when known, else an operand in the type of ``x``."""
    if x.rank is not None:
        sizes = [x.shape[a] for a in (range(x.rank) if axes is None else axes)]
        if all(size >= 0 for size in sizes):
            return math.prod(sizes)
    if axes is None:
        return op.Cast(op.Size(x), to=x.dtype.number)
    sizes_now = op.Gather(op.Shape(x), np.array([a % x.ndim for a in axes]))
    return op.Cast(op.ReduceProd(sizes_now, keepdims=0), to=x.dtype.number)


def without_axes_too(function: _Along) -> _Along:
    """Let a function along an axis take a tensor without axes, as a vector of one element; so are its results then.

    Where the axis comes second and None, which means the flattened tensor, results are vectors, as in Paddle.
    """
    axis = list(inspect.signature(function).parameters.values())[1]

    @functools.wraps(function)
    def form(x: Any, *args: Any, **kwargs: Any) -> Any:
        flattened = axis.default is None and (args[0] if args else kwargs.get(axis.name)) is None
        if not is_variable(x) or x.rank != 0 or flattened:
            return function(x, *args, **kwargs)
        op = LayerHelper(function.__name__, x).op
        result = function(op.Reshape(x, np.array([1])), *args, **kwargs)
        bare = [op.Reshape(v, np.empty(0, np.int64)) for v in (result if isinstance(result, tuple) else (result,))]
        return tuple(bare) if isinstance(result, tuple) else bare[0]

    return form  # type: ignore[return-value]


def prefix_scan(op: Builder, x: Variable, axis: int, combine: Any, neutral: float, function: str) -> Variable:
    """All prefixes along ``axis`` combined by an associative operation, in log2(n) steps (Hillis and Steele 1986)."""
    size, rank = known_dim(x, axis, function), x.ndim
    shift = 1
    while shift < size:
        earlier = op.Slice(x, [0], [size - shift], [axis])
        pads = [shift if i == axis else 0 for i in range(rank)] + [0] * rank
        x = combine(x, op.Pad(earlier, pads, op.constant(np.array(neutral), x.dtype)))
        shift *= 2
    return x

"""Elementwise, reductions, indexing, quantisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_dequantize_linear import _CommonDequantizeLinear as _PlainDequantize

from onnxgrad.testing.reference_ops.registry import corrected


@corrected
class Einsum(OpRun):
    """An ellipsis that the output omits is refused: sum its axes, like any omitted index."""

    def _run(self, *args, equation=None):
        left, arrow, output = equation.replace(" ", "").partition("->")
        if arrow and "..." in left and "..." not in output:
            summed = np.einsum(f"{left}->...{output}", *args)
            return (summed.sum(axis=tuple(range(summed.ndim - len(output)))),)
        return (np.asarray(np.einsum(equation, *args)),)


@corrected
class LogSoftmax(OpRun):
    """Takes the logarithm of Softmax, which is 0 for small terms."""

    def _run(self, x, axis=None):
        shifted = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
        return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)),)


@corrected
class ReduceLogSumExp(OpRun):
    """Is NaN where all elements are minus infinity."""

    def _run(self, x, axes=None, keepdims=None, noop_with_empty_axes=None):
        if noop_with_empty_axes and (axes is None or len(axes) == 0):
            return (x,)
        over = None if axes is None or len(axes) == 0 else tuple(int(axis) for axis in axes)
        largest = x.max(axis=over, keepdims=True, initial=-np.inf)
        largest = np.where(np.isfinite(largest), largest, 0)
        total = np.log(np.exp(x - largest).sum(axis=over, keepdims=True)) + largest
        return (np.asarray(total if keepdims else total.reshape(x.sum(axis=over).shape), x.dtype),)


@corrected
class Softplus(OpRun):
    """Overflows for large x."""

    def _run(self, x):
        return (np.logaddexp(x, 0).astype(x.dtype),)


@corrected
class Pad(OpRun):
    """Negative pads are wrong: cut first, then pad."""

    def _run(self, data, pads, value=None, axes=None, mode=None):
        axes = list(range(data.ndim)) if axes is None else [int(axis) % data.ndim for axis in axes]
        half = len(axes)
        widths = [(0, 0)] * data.ndim
        for i, axis in enumerate(axes):
            widths[axis] = (int(pads[i]), int(pads[half + i]))
        cut = tuple(slice(max(-b, 0), n - max(-e, 0)) for (b, e), n in zip(widths, data.shape, strict=True))
        grow = [(max(b, 0), max(e, 0)) for b, e in widths]
        kept = data[cut]
        if mode == "constant":
            fill = data.dtype.type(0) if value is None else np.asarray(value).reshape(-1)[0]
            return (np.pad(kept, grow, mode="constant", constant_values=fill),)
        return (np.pad(kept, grow, mode=mode),)


@corrected
class GatherElements(OpRun):
    """An index shorter than the data on another axis is refused: take it element by element."""

    def _run(self, data, indices, axis=None):
        return (data[_element_index(data, indices, axis or 0)],)


@corrected
class ScatterElements(OpRun):
    """Likewise; ``ufunc.at`` adds where indices repeat."""

    def _run(self, data, indices, updates, axis=None, reduction=None):
        result = np.array(data)
        index = _element_index(data, indices, axis or 0)
        functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
        if reduction in functions:
            functions[reduction].at(result, index, updates)
        else:
            result[index] = updates
        return (result,)


def _element_index(data: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    grid = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)


@corrected
class Erf(OpRun):
    """Computed in float32 only, and not for empty tensors."""

    def _run(self, x):
        return (np.array([math.erf(v) for v in x.reshape(-1)], x.dtype).reshape(x.shape),)


@corrected
class Gelu(OpRun):
    """Uses that same function."""

    def _run(self, x, approximate=None):
        if approximate == "tanh":
            return ((0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))).astype(x.dtype),)
        distribution = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.reshape(-1)], x.dtype).reshape(x.shape)
        return (x * distribution,)


@corrected
class Softsign(OpRun):
    """Fails for a tensor without axes."""

    def _run(self, x):
        return (np.asarray(x / (1 + np.abs(x))),)


@corrected
class Mean(OpRun):
    """Adds in place to the first operand, which may be smaller than the result."""

    def _run(self, *args):
        return (np.asarray(sum(args[1:], args[0]) / len(args)).astype(args[0].dtype),)


@corrected
class OneHot(OpRun):
    """A depth of shape [1] is refused, an index out of range wraps around."""

    def _run(self, indices, depth, values, axis=None):
        depth = int(np.asarray(depth).reshape(-1)[0])
        axis = -1 if axis is None else axis
        index = np.expand_dims(np.asarray(indices).astype(np.int64), axis)
        classes = np.arange(depth).reshape([-1 if i == axis % index.ndim else 1 for i in range(index.ndim)])
        return (np.where((index == classes) | (index + depth == classes), values[1], values[0]),)


@corrected
class Unique(OpRun):
    """With sorted=0 and no axis, a tensor of several axes is not flattened."""

    def _run(self, x, axis=None, sorted=None):
        x = x.reshape(-1) if axis is None else x
        axis = axis or 0
        y, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
        inverse = inverse.reshape(-1)
        if not sorted:
            order = np.argsort(first)
            y, first, counts = np.take(y, order, axis=axis), first[order], counts[order]
            inverse = np.argsort(order)[inverse]
        return (y, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64))[: len(self.output)]


def _spread(values, shape, axis, block_size):
    """Scales or zero points in a form that broadcasts to the tensor of that shape"""
    if values.size == 1:
        return values.reshape(())
    if block_size:
        return np.repeat(values, block_size, axis).take(range(shape[axis]), axis)
    return values.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


@corrected
class DequantizeLinear(_PlainDequantize):
    """Its difference is rounded to float32, which double precision scales do not survive."""

    def _run(self, x, scale, zero_point=None, axis=None, block_size=None, output_dtype=None):
        if scale.dtype != np.float64:
            return super()._run(x, scale, zero_point, axis=axis, block_size=block_size or 0, output_dtype=output_dtype)
        level = x.astype(np.float64)
        if zero_point is not None:
            level = level - _spread(zero_point.astype(np.float64), x.shape, axis, block_size)
        return (level * _spread(scale, x.shape, axis, block_size),)


@corrected
class DynamicQuantizeLinear(OpRun):
    """Computed in float32 only."""

    def _run(self, x):
        high, low = max(x.max(initial=0), 0), min(x.min(initial=0), 0)
        scale = np.asarray((high - low) / 255 if high > low else 1, x.dtype)
        zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
        return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero


@corrected
class Flatten(OpRun):
    """Fails for empty tensors, whose remaining dimension cannot be found by dividing"""

    def _run(self, x, axis=None):
        rows = math.prod(x.shape[: axis % x.ndim if axis < 0 else axis])
        return (x.reshape(rows, math.prod(x.shape[axis % x.ndim if axis < 0 else axis :])),)

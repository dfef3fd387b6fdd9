"""Corrected operators for onnx.reference, used as an oracle in tests. Each says what it corrects in onnx 1.23."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import NodeProto
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_loop import Loop as _PlainLoop
from onnx.reference.ops.op_scan import Scan as _PlainScan

__all__ = ["CORRECTED"]

CORRECTED: list[type[OpRun]] = []


def corrected(operator: type[OpRun]) -> type[OpRun]:
    """Use this class in place of onnx's own"""
    CORRECTED.append(operator)
    return operator


@corrected
class Scan(_PlainScan):
    """Directions and axes are not implemented: turn the inputs and outputs instead."""

    def __init__(self, onnx_node: Any, run_params: Any) -> None:
        plain = NodeProto()
        plain.CopyFrom(onnx_node)
        del plain.attribute[:]
        self.layout: dict[str, list[int]] = {}
        for attribute in onnx_node.attribute:
            if attribute.name.startswith("scan_"):
                self.layout[attribute.name] = list(attribute.ints)
            else:
                plain.attribute.append(attribute)
        super().__init__(plain, run_params)

    def _turned(self, x: Any, kind: str, index: int, back: bool) -> Any:
        axes, directions = (self.layout.get(f"scan_{kind}_{name}", []) for name in ("axes", "directions"))
        axis = axes[index] if index < len(axes) else 0
        x = x if back else np.moveaxis(x, axis, 0)
        x = np.flip(x, 0) if index < len(directions) and directions[index] else x
        return np.moveaxis(x, 0, axis) if back else x

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        for name in ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"):
            kwargs[name] = None
        states = len(args) - self.num_scan_inputs
        turned = [self._turned(x, "input", i, False) for i, x in enumerate(args[states:])]
        results = super()._run(*args[:states], *turned, **kwargs)
        stacked = [self._turned(y, "output", i, True) for i, y in enumerate(results[states:])]
        return (*results[:states], *stacked)


@corrected
class Loop(_PlainLoop):
    """An absent condition runs no iteration; stacked scalars get an axis too many; no iteration at all raises."""

    def _run(self, count, condition, *states, context=None, body=None, attributes=None, bindings=None):
        names, results = body.input_names, list(states)
        stacked: list[list[Any]] = [[] for _ in range(len(body.output_names) - 1 - len(states))]
        alive, i = condition is None or bool(condition), 0
        while alive and (count is None or i < int(np.asarray(count).item())):
            arguments = dict(zip(names, [np.array(i, np.int64), np.array(alive), *results], strict=True))
            again, *found = self._run_body({**(context or {}), **arguments}, attributes=attributes, bindings=bindings)
            results, alive, i = found[: len(states)], bool(again), i + 1
            for values, value in zip(stacked, found[len(states) :], strict=True):
                values.append(value)
        types = body.output_types[1 + len(states) :]
        return (*results, *(np.stack(v) if v else _no_rows(t) for v, t in zip(stacked, types, strict=True)))


def _no_rows(type: Any) -> Any:
    """What a stacked output is after no iteration."""
    tensor = type.tensor_type
    return np.zeros((0, *(dim.dim_value for dim in tensor.shape.dim)), tensor_dtype_to_np_dtype(tensor.elem_type))


@corrected
class SequenceInsert(OpRun):
    """A position at the end is taken for the front."""

    def _run(self, sequence, tensor, position=None):
        items = list(sequence)
        place = len(items) if position is None else int(np.asarray(position).item())
        items.insert(place, tensor)
        return (items,)


@corrected
class Optional(OpRun):
    """Wraps its value in a list, which the next operator takes for a sequence."""

    def _run(self, x=None, type=None):
        return (x,)


@corrected
class SequenceMap(OpRun):
    """The body does not see the values around it."""

    def need_context(self) -> bool:
        return True

    def _run(self, first, *others, body=None, context=None, attributes=None):
        results = []
        for i, element in enumerate(first):
            given = [element, *(other[i] if isinstance(other, list) else other for other in others)]
            feeds = {**(context or {}), **dict(zip(body.input_names, given, strict=True))}
            results.append(body.run(None, feeds, attributes=attributes or {}))
        return tuple([list(values) for values in zip(*results, strict=True)] if results else [[] for _ in body.output_names])


@corrected
class ConvTranspose(OpRun):
    """Groups raise for equal channel counts: scatter every input element instead."""

    def _run(
        self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None,
        output_padding=None, output_shape=None, pads=None, strides=None,
    ):  # fmt: skip
        rank = x.ndim - 2
        strides, dilations = list(strides or [1] * rank), list(dilations or [1] * rank)
        extra, group = list(output_padding or [0] * rank), group or 1
        kernel = w.shape[2:]
        begin, end = list((pads or [0] * 2 * rank)[:rank]), list((pads or [0] * 2 * rank)[rank:])
        full = [
            (n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(x.shape[2:], strides, dilations, kernel, extra, strict=True)
        ]
        if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            wanted = list(output_shape)[-rank:] if output_shape else [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
            full = [max(f, w) for f, w in zip(full, wanted, strict=True)] if output_shape else full
            for i in range(rank):
                total = max(full[i] - wanted[i], 0)
                begin[i] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
                end[i] = total - begin[i]
        per_group, channels = w.shape[1], x.shape[1] // group
        y = np.zeros((x.shape[0], per_group * group, *full), x.dtype)
        for tap in np.ndindex(*kernel):
            window = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, x.shape[2:], strides, strict=True)
            )
            for g in range(group):
                rows, columns = slice(g * channels, (g + 1) * channels), slice(g * per_group, (g + 1) * per_group)
                product = np.einsum("nc...,cm->nm...", x[:, rows], w[(rows, slice(None), *tap)])
                y[(slice(None), columns, *window)] += product
        cut = tuple(slice(p, n - q) for p, n, q in zip(begin, full, end, strict=True))
        y = y[(slice(None), slice(None), *cut)]
        return (y if b is None else y + b.reshape(1, -1, *[1] * rank),)


class _Windows:
    """The elements under each position of a pooling window, by the specification: ``values`` [N, C, *outputs, taps]."""

    def __init__(self, x: Any, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: Any, ceil_mode: Any) -> None:
        rank = x.ndim - 2
        strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
        inside = counted = positions = np.zeros((1,) * 2 * rank, np.int64)
        inside = counted = inside == 0
        for i, n in enumerate(x.shape[2:]):
            extent, begin, end = dilations[i] * (kernel[i] - 1) + 1, pads[i], pads[rank + i]
            if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
                total = max((-(-n // strides[i]) - 1) * strides[i] + extent - n, 0)
                begin = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
                end = total - begin
            elif auto_pad == "VALID":
                begin = end = 0
            span = n + begin + end - extent
            outputs = (-(-span // strides[i]) if ceil_mode else span // strides[i]) + 1
            if ceil_mode and (outputs - 1) * strides[i] >= n + begin:
                outputs -= 1
            taps = np.arange(outputs)[:, None] * strides[i] - begin + np.arange(kernel[i]) * dilations[i]
            taps = taps.reshape([taps.shape[axis // rank] if axis % rank == i else 1 for axis in range(2 * rank)])
            inside = inside & (taps >= 0) & (taps < n)
            counted = counted & (taps < n + end)
            positions = positions * n + np.clip(taps, 0, n - 1)
        shape = (*positions.shape[:rank], math.prod(kernel))
        self.inside, self.counted, self.positions = (a.reshape(shape) for a in (inside, counted, positions))
        self.values = x.reshape(*x.shape[:2], math.prod(x.shape[2:]))[:, :, self.positions]


@corrected
class AveragePool(OpRun):
    """ceil_mode moves the window where it reaches over the end by more than one; auto_pad ignores dilations."""

    def _run(
        self, x, auto_pad=None, ceil_mode=None, count_include_pad=None, dilations=None, kernel_shape=None, pads=None, strides=None
    ):
        windows = _Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
        counts = (windows.counted if count_include_pad else windows.inside).sum(-1)
        return (((windows.values * windows.inside).sum(-1) / counts).astype(x.dtype),)


@corrected
class MaxPool(OpRun):
    """The same, and Indices lack the offset of the plane."""

    def _run(
        self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None, storage_order=None, strides=None
    ):
        windows = _Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
        values = np.where(windows.inside, windows.values, -np.inf)
        chosen = values.argmax(-1)[..., None]
        positions = np.broadcast_to(windows.positions, values.shape)
        within = np.take_along_axis(positions, chosen, -1)[..., 0]
        if storage_order:
            space = x.shape[2:]
            within = np.ravel_multi_index(np.unravel_index(within, space), space, order="F")
        planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
        indices = within + planes * int(np.prod(x.shape[2:]))
        results = (np.take_along_axis(values, chosen, -1)[..., 0].astype(x.dtype), indices.astype(np.int64))
        return results[: len(self.onnx_node.output)]


@corrected
class LpPool(OpRun):
    """The same, and the sum is scaled where the window holds padding."""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, p=None, pads=None, strides=None):
        windows = _Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
        return (((np.abs(windows.values) ** p * windows.inside).sum(-1) ** (1 / p)).astype(x.dtype),)


@corrected
class GlobalLpPool(OpRun):
    """Is missing."""

    def _run(self, x, p=None):
        return (((np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)).astype(x.dtype),)


@corrected
class GlobalMaxPool(OpRun):
    """Loses the last axis of tensors of rank 3."""

    def _run(self, x):
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


@corrected
class LRN(OpRun):
    """Fills as many channels as the batch has elements, and only takes rank 4."""

    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        before, after = (size - 1) // 2, size // 2
        sums = [(x[:, max(0, c - before) : c + after + 1] ** 2).sum(axis=1) for c in range(x.shape[1])]
        total = np.stack(sums, axis=1) if sums else x
        return ((x / (bias + alpha / size * total) ** beta).astype(x.dtype),)


@corrected
class LpNormalization(OpRun):
    """The norm of p=1 lacks the absolute value."""

    def _run(self, x, axis=None, p=None):
        norm = (np.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
        return (np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)).astype(x.dtype),)


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
class GroupNormalization(OpRun):
    """Has the scale per group of opset 18: from 21 on it is per channel."""

    def _run(self, x, scale, bias, epsilon=None, num_groups=None, stash_type=None):
        grouped = x.reshape(x.shape[0], num_groups, -1)
        mean, variance = grouped.mean(axis=2, keepdims=True), grouped.var(axis=2, keepdims=True)
        unit = ((grouped - mean) / np.sqrt(variance + epsilon)).reshape(x.shape)
        shape = (1, -1, *[1] * (x.ndim - 2))
        return ((unit * scale.reshape(shape) + bias.reshape(shape)).astype(x.dtype),)


@corrected
class MeanVarianceNormalization(OpRun):
    """Its body holds float32 constants, which refuse other element types."""

    def _run(self, x, axes=None):  # type: ignore[no-untyped-def]
        axes = tuple(axes)
        centred = x - x.mean(axis=axes, keepdims=True)
        return (centred / (np.sqrt((centred**2).mean(axis=axes, keepdims=True)) + x.dtype.type(1e-9)),)

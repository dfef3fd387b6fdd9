"""Corrected operators for onnx.reference, used as an oracle in tests. Each says what it corrects in onnx 1.23."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import NodeProto
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference.op_run import OpRun
from onnx.reference.ops._quant_utils import reshape_input
from onnx.reference.ops.op_attention import Attention as _PlainAttention
from onnx.reference.ops.op_dequantize_linear import _CommonDequantizeLinear as _PlainDequantize
from onnx.reference.ops.op_loop import Loop as _PlainLoop
from onnx.reference.ops.op_resize import Resize as _PlainResize
from onnx.reference.ops.op_scan import Scan as _PlainScan

from onnxgrad.reference_recurrent import GRU, LSTM, RNN

__all__ = ["CORRECTED"]

CORRECTED: list[type[OpRun]] = []


def corrected(operator: type[OpRun]) -> type[OpRun]:
    """Use this class in place of onnx's own"""
    CORRECTED.append(operator)
    return operator


for _recurrent in (RNN, GRU, LSTM):
    corrected(_recurrent)


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


@corrected
class Attention(_PlainAttention):
    """Mode 0 shows the raw product, which the softcap must not have changed."""

    def _run(self, *operands, softcap=None, qk_matmul_output_mode=None, **attributes):
        results = super()._run(*operands, softcap=softcap, qk_matmul_output_mode=qk_matmul_output_mode, **attributes)
        if softcap and not qk_matmul_output_mode and len(results) > 3:
            return (*results[:3], super()._run(*operands, softcap=0.0, qk_matmul_output_mode=0, **attributes)[3])
        return results


@corrected
class CausalConvWithState(OpRun):
    """Its activation is computed in float32 only."""

    def _run(self, x, weight, bias=None, past_state=None, activation=None):
        size = weight.shape[2]
        past = np.zeros((*x.shape[:2], size - 1), x.dtype) if past_state is None else past_state
        padded = np.concatenate([past, x], axis=2)
        y = sum(weight[:, :, tap] * padded[:, :, tap : tap + x.shape[2]] for tap in range(size))
        y = y if bias is None else y + bias[:, None]
        if activation in ("silu", "swish"):
            y = y / (1 + np.exp(-y))
        return y, padded[:, :, x.shape[2] :]


@corrected
class LinearAttention(OpRun):
    """Computed in float32 only. The recurrence is the specification's, head by head."""

    def _run(
        self, query, key, value, past_state=None, decay=None, beta=None,
        chunk_size=None, kv_num_heads=None, q_num_heads=None, scale=None, update_rule=None,
    ):  # fmt: skip
        batch, steps, _ = query.shape
        group, d_k, d_v = q_num_heads // kv_num_heads, query.shape[2] // q_num_heads, value.shape[2] // kv_num_heads
        q = query.reshape(batch, steps, q_num_heads, d_k)
        k, v = key.reshape(batch, steps, kv_num_heads, d_k), value.reshape(batch, steps, kv_num_heads, d_v)
        y = np.zeros((batch, steps, q_num_heads, d_v), query.dtype)
        present = np.zeros((batch, kv_num_heads, d_k, d_v), query.dtype) if past_state is None else past_state.copy()
        for b, h, t in np.ndindex(batch, kv_num_heads, steps):
            state, kt, vt = present[b, h], k[b, t, h], v[b, t, h]
            if decay is not None:
                state = np.exp(decay[b, t].reshape(kv_num_heads, -1)[h])[:, None] * state
            if beta is not None:
                vt = beta[b, t, h % beta.shape[2]] * (vt - state.T @ kt)
            present[b, h] = state + np.outer(kt, vt)
            for i in range(h * group, (h + 1) * group):
                y[b, t, i] = (scale or d_k**-0.5) * (present[b, h].T @ q[b, t, i])
        return y.reshape(batch, steps, -1), present


@corrected
class DequantizeLinear(_PlainDequantize):
    """Its difference is rounded to float32, which double precision scales do not survive."""

    def _run(self, x, scale, zero_point=None, axis=None, block_size=None, output_dtype=None):
        if scale.dtype != np.float64:
            return super()._run(x, scale, zero_point, axis=axis, block_size=block_size or 0, output_dtype=output_dtype)
        level = x.astype(np.float64)
        if zero_point is not None:
            level = level - reshape_input(zero_point.astype(np.float64), x.shape, axis, block_size)
        return (level * reshape_input(scale, x.shape, axis, block_size),)


@corrected
class DynamicQuantizeLinear(OpRun):
    """Computed in float32 only."""

    def _run(self, x):
        high, low = max(x.max(initial=0), 0), min(x.min(initial=0), 0)
        scale = np.asarray((high - low) / 255 if high > low else 1, x.dtype)
        zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
        return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero


class Resize(_PlainResize):
    """Fails for axes counted from the back and for empty tensors"""

    def _run(self, x, roi=None, scales=None, sizes=None, axes=None, **attrs):
        axes = None if axes is None else [axis % x.ndim for axis in axes]
        if x.size:
            return super()._run(x, roi, scales, sizes, axes=axes, **attrs)
        shape = list(x.shape)
        for place, axis in enumerate(range(x.ndim) if axes is None else axes):
            shape[axis] = int(shape[axis] * scales[place]) if sizes is None else int(sizes[place])
        return (np.zeros(shape, x.dtype),)


@corrected
class Flatten(OpRun):
    """Fails for empty tensors, whose remaining dimension cannot be found by dividing"""

    def _run(self, x, axis=None):
        rows = math.prod(x.shape[: axis % x.ndim if axis < 0 else axis])
        return (x.reshape(rows, math.prod(x.shape[axis % x.ndim if axis < 0 else axis :])),)


@corrected
class AffineGrid(OpRun):
    """Rounds its result to float32, and fails where a length of one has its corners aligned"""

    def _run(self, theta, size, align_corners=None):
        lengths = [int(n) for n in size[2:]]
        axes = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in lengths]
        base = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(lengths)], axis=-1)
        return (np.einsum("nij,...j->n...i", theta, base).astype(theta.dtype),)


@corrected
class GridSample(OpRun):
    """Rounds coordinates to float32, loses the shape of empty results, and clamps coordinates in cubic mode with border
    padding: onnxruntime, like the framework that the operator comes from, only repeats the border there."""

    def _run(self, x, grid, mode=None, padding_mode=None, align_corners=None):
        lengths = np.array(x.shape[2:])
        y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
        for n, *place in np.ndindex(*grid.shape[:-1]):
            normal = grid[(n, *place)][::-1]
            point = (normal + 1) / 2 * (lengths - 1) if align_corners else ((normal + 1) * lengths - 1) / 2
            reach = {"nearest": 0, "linear": 1, "cubic": 2}[mode]
            low = np.rint(point) if mode == "nearest" else np.floor(point)
            for offset in np.ndindex(*[max(2 * reach, 1)] * len(lengths)):
                tap = low + np.array(offset) - max(reach - 1, 0)
                weight = np.prod([_KERNELS[mode](d) for d in tap - point])
                found = [_padded(int(i), int(size), padding_mode, align_corners) for i, size in zip(tap, lengths, strict=True)]
                if None not in found:
                    y[(n, slice(None), *place)] += weight * x[(n, slice(None), *found)]
        return (y,)


def _keys(distance: float, a: float = -0.75) -> float:
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


_KERNELS = {"nearest": lambda d: 1.0, "linear": lambda d: max(0.0, 1 - abs(d)), "cubic": _keys}


def _padded(i: int, size: int, padding: str, align_corners: bool) -> int | None:
    if padding == "border":
        return min(max(i, 0), size - 1)
    while padding == "reflection" and not 0 <= i < size:
        if size == 1:
            return 0
        i = (-i if align_corners else -1 - i) if i < 0 else (2 * size - 2 - i if align_corners else 2 * size - 1 - i)
    return i if 0 <= i < size else None


@corrected
class MaxRoiPool(OpRun):
    """Is missing: the bins of Girshick, "Fast R-CNN", 2015, with the rounding of onnxruntime."""

    def _run(self, x, rois, pooled_shape=None, spatial_scale=None):
        y = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
        for r, (image, *corners) in enumerate(rois):
            x1, y1, x2, y2 = (int(math.copysign(math.floor(abs(c * spatial_scale) + 0.5), c)) for c in corners)
            edges = []
            for (start, end), bins, size in zip(((y1, y2), (x1, x2)), pooled_shape, x.shape[2:], strict=True):
                step = max(end - start + 1, 1) / bins
                pairs = [(math.floor(b * step) + start, math.ceil((b + 1) * step) + start) for b in range(bins)]
                edges.append([slice(*(min(max(edge, 0), size) for edge in pair)) for pair in pairs])
            for i, j in np.ndindex(*pooled_shape):
                part = x[int(image), :, edges[0][i], edges[1][j]]
                if part[0].size:
                    y[r, :, i, j] = part.max(axis=(1, 2))
        return (y,)


@corrected
class DeformConv(OpRun):
    """Samples with the plain GridSample, and fails for an image of one row or column."""

    def _run(
        self, x, w, offset, b=None, mask=None, dilations=None, group=None, kernel_shape=None, offset_group=None, pads=None,
        strides=None,
    ):  # fmt: skip
        strides, dilations, pads = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
        kernel, space, sets = w.shape[2:], offset.shape[2:], offset_group or 1
        shifts = offset.reshape(len(x), sets, *kernel, 2, *space)
        factors = np.ones((len(x), sets, *kernel, *space)) if mask is None else mask.reshape(len(x), sets, *kernel, *space)
        y = np.zeros((len(x), len(w), *space), x.dtype)
        if b is not None:
            y += b.reshape(1, -1, 1, 1)
        for n, out, c, *tap, i, j in np.ndindex(*y.shape[:2], w.shape[1], *kernel, *space):
            channel = out // (len(w) // (group or 1)) * w.shape[1] + c
            which = channel // (x.shape[1] // sets)
            point = [tap[a] * dilations[a] + (i, j)[a] * strides[a] - pads[a] + shifts[(n, which, *tap, a, i, j)] for a in (0, 1)]
            value = _bilinear(x[n, channel], *point)
            y[n, out, i, j] += w[(out, c, *tap)] * factors[(n, which, *tap, i, j)] * value
        return (y,)


def _bilinear(plane: Any, row: float, column: float) -> float:
    """Between the elements around a point; zeros outside"""
    total = 0.0
    for i in (math.floor(row), math.floor(row) + 1):
        for j in (math.floor(column), math.floor(column) + 1):
            if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
                total += plane[i, j] * (1 - abs(row - i)) * (1 - abs(column - j))
    return total

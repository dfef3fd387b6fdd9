"""Convolution, pooling, normalization, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_attention import Attention as _PlainAttention

from onnxgrad.testing.reference_ops.registry import corrected


@corrected
class BatchNormalization(OpRun):
    """Running statistics have the element type of the given ones, not that of x, and those of float16 are found in float32."""

    def _run(self, x, scale, bias, mean, var, epsilon=None, momentum=None, training_mode=None, is_test=None, spatial=None):
        wide = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        trains = training_mode or is_test == 0
        center, spread = (wide.mean(axis=axes), wide.var(axis=axes)) if trains else (mean, var)
        shape = (-1,) + (1,) * (x.ndim - 2)
        center, spread, scale, bias = (v.astype(wide.dtype).reshape(shape) for v in (center, spread, scale, bias))
        y = (scale * (wide - center) / np.sqrt(spread + epsilon) + bias).astype(x.dtype)
        if not trains:
            return (y,)
        running = [
            (momentum * old.astype(wide.dtype) + (1 - momentum) * new.reshape(-1)).astype(old.dtype)
            for old, new in ((mean, center), (var, spread))
        ]
        return (y, *running)


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

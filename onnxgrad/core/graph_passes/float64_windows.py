"""Convolution and pooling in float64, out of Gather, MatMul and ScatterElements, which onnxruntime's CPU provider has in float64.

What the windows read is gathered first, so these hold as many times the image as a window has elements.

Tests: tests/core/graph_passes/test_float64.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.operator import Operator, as_stored
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.ir.window import Window, dim_of, extent_at_run_time, kernel_of, transposed_window, window_of

__all__ = ["WINDOWS"]

Results = list["Variable | None"]


# Sizes: numbers where they are known, else vectors of one element -------------------------------------------------------------


def _vector(value: Any) -> Any:
    return [value] if isinstance(value, int) else value


def _scalar(op: Any, value: Any) -> Any:
    return value if isinstance(value, int) else op.Squeeze(value, [0])


def _joined(op: Any, *parts: Any) -> Any:
    return op.Concat(*(_vector(part) for part in parts), axis=0)


def _count(op: Any, sizes: Any) -> Any:
    """The product of a vector of sizes"""
    known = known_ints(sizes)
    return [prod(known)] if known is not None else op.ReduceProd(sizes, [0], keepdims=1)


def _size(op: Any, x: Variable, axis: int) -> Any:
    """The size of one axis, a number if it is known"""
    size = None if x.dims is None else x.dims[axis]
    return size if isinstance(size, int) else dim_of(op, x, axis)


def _range(op: Any, count: Any) -> Any:
    return np.arange(count) if isinstance(count, int) else op.Range(0, _scalar(op, count), 1)


def _plus(op: Any, a: Any, b: Any) -> Any:
    return a + b if isinstance(a, int) and isinstance(b, int) else op.Add(_vector(a), _vector(b))


def _minus(op: Any, a: Any, b: Any) -> Any:
    return a - b if isinstance(a, int) and isinstance(b, int) else op.Sub(_vector(a), _vector(b))


def _times(op: Any, a: Any, factor: int) -> Any:
    return a * factor if isinstance(a, int) else op.Mul(a, [factor])


def _at_least_0(op: Any, a: Any) -> Any:
    return max(a, 0) if isinstance(a, int) else op.Max(a, [0])


def _over(op: Any, a: Any, divisor: int) -> Any:
    """a / divisor rounded down, for a of at least 0"""
    return a // divisor if isinstance(a, int) else op.Div(a, [divisor])


def _tap_indices(op: Any, taps: Any, dilation: int, positions: Any, stride: int) -> Any:
    """[taps, positions]: the index that each tap reads in the padded axis"""
    across, down = _range(op, positions), _range(op, taps)
    if isinstance(across, np.ndarray) and isinstance(down, np.ndarray):
        return down[:, None] * dilation + across[None] * stride
    return op.Add(op.Unsqueeze(op.Mul(down, [dilation]), [1]), op.Unsqueeze(op.Mul(across, [stride]), [0]))


# Windows gathered -------------------------------------------------------------------------------------------------------------


def _positions(op: Any, window: Window, i: int, ceil: bool = False) -> Any:
    """How many windows there are along an axis; with ``ceil`` also one that begins in the image, or before it, and ends behind"""
    size, stride = _size(op, window.x, 2 + i), window.strides[i]
    padded = _plus(op, _plus(op, size, window.begin[i]), window.end[i])
    span = _minus(op, padded, extent_at_run_time(op, window.kernel[i], window.dilations[i]))
    if not ceil:
        return _at_least_0(op, _plus(op, _over(op, span, stride), 1))
    count = _plus(op, _over(op, _plus(op, span, stride - 1), stride), 1)
    begins = _plus(op, _over(op, _minus(op, _plus(op, size, window.begin[i]), 1), stride), 1)
    return min(count, begins) if isinstance(count, int) and isinstance(begins, int) else op.Min(_vector(count), _vector(begins))


def _columns(op: Any, x: Any, window: Window, positions: list[Any]) -> Any:
    """[batch, channels, taps, positions, taps, positions, ...]: what each window reads of ``x``, zeros in the padding"""
    ends = []
    for i, count in enumerate(positions):
        reach = _plus(op, _times(op, _minus(op, count, 1), window.strides[i]), _extent(op, window, i))
        ends.append(_at_least_0(op, _minus(op, _minus(op, reach, _size(op, x, 2 + i)), window.begin[i])))
    columns = op.Pad(x, _joined(op, [0, 0], *window.begin, [0, 0], *ends))
    for i, count in enumerate(positions):
        indices = _tap_indices(op, window.kernel[i], window.dilations[i], count, window.strides[i])
        columns = op.Gather(columns, indices, axis=2 + 2 * i)
    return columns


def _extent(op: Any, window: Window, i: int) -> Any:
    return extent_at_run_time(op, window.kernel[i], window.dilations[i])


def _taps_first(rank: int) -> list[int]:
    """The order of axes that takes the taps of all axes before the positions."""
    return [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]


def _convolution(op: Any, node: Operator) -> Results | None:
    """y = w [group, out, wide * taps] times columns [batch, group, wide * taps, positions]"""
    x, w = node.inputs[:2]
    kernel = None if x is None or w is None else kernel_of(op, node, w)
    if x is None or w is None or kernel is None:
        return None
    window, group = window_of(op, node, x, kernel), node.attr("group")
    rank = window.rank
    positions = [_positions(op, window, i) for i in range(rank)]
    columns = op.Transpose(_columns(op, x, window, positions), perm=_taps_first(rank))
    batch, out, area = op.Shape(x, start=0, end=1), op.Shape(w, start=0, end=1), _joined(op, *positions)
    inner = _count(op, op.Shape(w, start=1))
    flat_w = op.Reshape(w, _joined(op, group, _over_group(op, out, group), inner), allowzero=1)
    flat = op.Reshape(columns, _joined(op, batch, group, inner, _count(op, area)), allowzero=1)
    y = op.Reshape(op.MatMul(flat_w, flat), _joined(op, batch, out, area), allowzero=1)
    return [_with_bias(op, node, y, rank)]


def _over_group(op: Any, sizes: Any, group: int) -> Any:
    known = known_ints(sizes)
    return [known[0] // group] if known is not None else op.Div(sizes, [group])


def _with_bias(op: Any, node: Operator, y: Any, rank: int) -> Any:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return y if bias is None else op.Add(y, op.Unsqueeze(bias, list(range(1, rank + 1))))


# Windows scattered back -----------------------------------------------------------------------------------------------------------


def _folded(op: Any, columns: Any, taps: list[Any], positions: list[Any], strides: list[int], dilations: list[int]) -> Any:
    """[batch, channels, *reach]: columns [batch, channels, taps, positions, ...] added up where their windows read"""
    for i, (k, count) in enumerate(zip(taps, positions, strict=True)):
        axis = 2 + i
        indices = op.Reshape(_tap_indices(op, k, dilations[i], count, strides[i]), [-1])
        before, after = op.Shape(columns, start=0, end=axis), op.Shape(columns, start=axis + 2)
        merged = _joined(op, before, op.Shape(indices), after)
        reach = _plus(op, _times(op, _minus(op, count, 1), strides[i]), extent_at_run_time(op, k, dilations[i]))
        zeros = op.Expand(np.float64(0), _joined(op, before, _at_least_0(op, reach), after))
        further = len(taps) - 1 - i
        index = op.Expand(op.Unsqueeze(indices, list(range(1, 1 + 2 * further))), merged)
        columns = op.ScatterElements(zeros, index, op.Reshape(columns, merged, allowzero=1), axis=axis, reduction="add")
    return columns


def _pairs(rank: int) -> list[int]:
    """The order of axes that takes [batch, channels, *taps, *positions] to tap and position of each axis in turn."""
    return [0, 1, *(axis for i in range(rank) for axis in (2 + i, 2 + rank + i))]


def _transposed(op: Any, node: Operator) -> Results | None:
    """Columns w^T [group, out * taps, wide] times x [batch, group, wide, positions], added back into their windows"""
    x, w = node.inputs[:2]
    kernel = None if x is None or w is None else kernel_of(op, node, w)
    if x is None or w is None or kernel is None:
        return None
    window, group, rank = transposed_window(op, node, x, node.outputs[0], kernel), node.attr("group"), len(kernel)
    batch, area = op.Shape(x, start=0, end=1), op.Shape(x, start=2)
    wide = _over_group(op, op.Shape(w, start=0, end=1), group)
    per_group, taps = op.Shape(w, start=1, end=2), op.Shape(w, start=2)
    lanes = _count(op, op.Shape(w, start=1))
    flat_w = op.Transpose(op.Reshape(w, _joined(op, group, wide, lanes), allowzero=1), perm=[0, 2, 1])
    flat_x = op.Reshape(x, _joined(op, batch, group, wide, _count(op, area)), allowzero=1)
    channels = _count(op, _joined(op, per_group, [group]))
    columns = op.Reshape(op.MatMul(flat_w, flat_x), _joined(op, batch, channels, taps, area), allowzero=1)
    positions = [_size(op, x, 2 + i) for i in range(rank)]
    columns = op.Transpose(columns, perm=_pairs(rank))
    covered = _folded(op, columns, kernel, positions, window.strides, window.dilations)
    begin = [_minus(op, 0, b) for b in window.begin]
    end = [_behind(op, node, window, i, _size(op, covered, 2 + i)) for i in range(rank)]
    return [_with_bias(op, node, op.Pad(covered, _joined(op, [0, 0], *begin, [0, 0], *end)), rank)]


def _behind(op: Any, node: Operator, window: Window, i: int, covered: Any) -> Any:
    """Return how much a ConvTranspose pads behind the elements it has covered along an axis, or cuts off"""
    wanted, extra = node.attr("output_shape"), node.attr("output_padding")
    if not wanted:
        return _minus(op, extra[i] if extra else 0, window.end[i])
    return _plus(op, _minus(op, list(wanted)[-window.rank :][i], covered), window.begin[i])


def _col2im(op: Any, node: Operator) -> Results | None:
    """Add the columns back into their blocks"""
    x, image, block = node.inputs
    rank = next((v.static_shape[0] for v in (image, block) if v is not None and v.static_shape is not None), None)
    if x is None or rank is None:
        return None
    strides, dilations = list(node.attr("strides") or [1] * rank), list(node.attr("dilations") or [1] * rank)
    pads = list(node.attr("pads") or [0] * 2 * rank)
    sizes, taps = _entries(op, image, rank), _entries(op, block, rank)
    positions = []
    for i in range(rank):
        span = _minus(op, _plus(op, sizes[i], pads[i] + pads[rank + i]), extent_at_run_time(op, taps[i], dilations[i]))
        positions.append(_plus(op, _over(op, span, strides[i]), 1))
    per_block = _count(op, _joined(op, *taps))
    channels = op.Div(op.Shape(x, start=1, end=2), per_block)
    shape = _joined(op, op.Shape(x, start=0, end=1), channels, *taps, *positions)
    columns = op.Transpose(op.Reshape(x, shape, allowzero=1), perm=_pairs(rank))
    covered = _folded(op, columns, taps, positions, strides, dilations)
    missing = op.Add(op.Sub(_joined(op, *sizes), op.Shape(covered, start=2)), pads[:rank])
    return [op.Pad(covered, op.Concat([0, 0, *(-p for p in pads[:rank]), 0, 0], missing, axis=0))]


def _entries(op: Any, vector: Any, rank: int) -> list[Any]:
    """The entries of a vector of sizes"""
    known = known_ints(vector)
    return list(known) if known is not None else [op.Slice(vector, [i], [i + 1]) for i in range(rank)]


def _max_unpool(op: Any, node: Operator) -> Results | None:
    """x written to its indices in zeros; with output_shape they count within that, as in onnxruntime's other element types"""
    x, indices = node.inputs[:2]
    output_shape = node.inputs[2] if len(node.inputs) > 2 else None
    if x is None:
        return None
    shape = _unpooled_shape(op, node, x) if output_shape is None else output_shape
    empty = op.Expand(np.float64(0), _count(op, shape))
    written = op.ScatterElements(empty, op.Reshape(indices, [-1]), op.Reshape(x, [-1]), axis=0)
    return [op.Reshape(written, shape, allowzero=1)]


def _unpooled_shape(op: Any, node: Operator, x: Variable) -> Any:
    """(size - 1) * stride + kernel - pads along each axis"""
    kernel = node.attr("kernel_shape")
    rank = len(kernel)
    strides, pads = node.attr("strides") or [1] * rank, node.attr("pads") or [0] * 2 * rank
    sizes = []
    for i in range(rank):
        reach = _plus(op, _times(op, _minus(op, _size(op, x, 2 + i), 1), strides[i]), kernel[i])
        sizes.append(_minus(op, reach, pads[i] + pads[rank + i]))
    return _joined(op, op.Shape(x, start=0, end=2), *sizes)


# Pooling ----------------------------------------------------------------------------------------------------------------------


def _pooled(op: Any, node: Operator, x: Any) -> tuple[Window, list[Any], Any] | None:
    """The window, the number of its positions, and the sum over each; None where runtimes and the specification differ"""
    window = window_of(op, node, x, list(node.attr("kernel_shape")))
    skips = any(stride > kernel + 1 for stride, kernel in zip(window.strides, window.kernel, strict=True))
    if node.attr("auto_pad") in ("SAME_UPPER", "SAME_LOWER") and (skips or any(d != 1 for d in window.dilations)):
        return None
    positions = [_positions(op, window, i, bool(_attribute(node, "ceil_mode"))) for i in range(window.rank)]
    columns = _columns(op, x, window, positions)
    return window, positions, op.ReduceSum(columns, list(range(2, 2 + 2 * window.rank, 2)), keepdims=0)


def _attribute(node: Operator, name: str) -> Any:
    return node.attr(name) if node.schema is not None and name in node.schema.attributes else None


def _average_pool(op: Any, node: Operator) -> Results | None:
    """The sum of each window over the number of its elements, those of the padding counted if asked for"""
    x = node.inputs[0]
    pooled = None if x is None else _pooled(op, node, x)
    if x is None or pooled is None:
        return None
    window, positions, total = pooled
    for i, count in enumerate(positions):
        indices = _tap_indices(op, window.kernel[i], window.dilations[i], count, window.strides[i])
        counted = _counted(op, indices, window, i, node.attr("count_include_pad"))
        total = op.Div(total, op.Unsqueeze(counted, list(range(1, window.rank - i))) if i + 1 < window.rank else counted)
    return [total]


def _counted(op: Any, indices: Any, window: Window, i: int, include: int) -> Any:
    """[positions]: how many taps of a window along one axis are counted"""
    size, begin, end = _size(op, window.x, 2 + i), window.begin[i], window.end[i]
    low = 0 if include else begin
    high = _plus(op, size, begin)
    high = _plus(op, high, end) if include else high
    if isinstance(indices, np.ndarray) and isinstance(low, int) and isinstance(high, int):
        return op.constant(((indices >= low) & (indices < high)).sum(axis=0).astype(np.float64))
    indices = op.constant(indices) if isinstance(indices, np.ndarray) else indices
    inside = op.And(op.GreaterOrEqual(indices, _vector(low)), op.Less(indices, _vector(high)))
    return op.ReduceSum(op.Cast(inside, to=11), [0], keepdims=0)


def _lp_pool(op: Any, node: Operator) -> Results | None:
    """(sum of |x|^p)^(1/p)"""
    x, p = node.inputs[0], float(node.attr("p"))
    pooled = None if x is None else _pooled(op, node, op.Pow(op.Abs(x), np.float64(p)))
    return None if pooled is None else [op.Pow(pooled[2], np.float64(1 / p))]


def _global(reduction: str) -> Any:
    def form(op: Any, node: Operator) -> Results | None:
        x = node.inputs[0]
        if x is None or x.rank is None:
            return None
        return [op.emit(reduction, [x, list(range(2, x.rank))], {"keepdims": 1})]

    form.__doc__ = f"{reduction} over all axes but batch and channels"
    return form


def _global_lp_pool(op: Any, node: Operator) -> Results | None:
    """(sum of |x|^p)^(1/p) over all axes but batch and channels"""
    x, p = node.inputs[0], float(node.attr("p"))
    if x is None or x.rank is None:
        return None
    total = op.ReduceSum(op.Pow(op.Abs(x), np.float64(p)), list(range(2, x.rank)), keepdims=1)
    return [op.Pow(total, np.float64(1 / p))]


def _local_response(op: Any, node: Operator) -> Results | None:
    """x / (bias + alpha / size * sum of squares over neighbouring channels)^beta"""
    x, size = node.inputs[0], node.attr("size")
    if x is None or x.rank is None:
        return None
    alpha, beta, bias = (as_stored(node.attr(name)) for name in ("alpha", "beta", "bias"))
    before, after = (size - 1) // 2, size // 2
    rest = [0] * (x.rank - 2)
    padded = op.Pad(op.Mul(x, x), [0, before, *rest, 0, after, *rest])
    neighbours = op.Gather(padded, _tap_indices(op, size, 1, _size(op, x, 1), 1), axis=1)
    total = op.ReduceSum(neighbours, [1], keepdims=0)
    return [op.Div(x, op.Pow(op.Add(op.Mul(total, alpha / size), bias), np.float64(beta)))]


WINDOWS = {
    "AveragePool": _average_pool,
    "Col2Im": _col2im,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "GlobalAveragePool": _global("ReduceMean"),
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global("ReduceMax"),
    "LRN": _local_response,
    "LpPool": _lp_pool,
    "MaxUnpool": _max_unpool,
}

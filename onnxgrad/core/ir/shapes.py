"""Dimensions that follow from what is known of small integers: what onnx's inference forgets when a shape is computed at run time.

Tests: tests/core/ir/test_shapes.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgrad.core.ir.equation import parse_equation
from onnxgrad.core.ir.known import broadcast_dims, entries_of, nonzero_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import Dim, Dims

__all__ = ["FROM_ENTRIES", "OVERRULES"]


def _reshape(operator: Operator) -> Dims | None:
    x, target = operator.inputs[0], entries_of(operator.inputs[1] if len(operator.inputs) > 1 else None)
    if x is None or target is None:
        return None
    zero_copies = not operator.attrs.get("allowzero", 0)
    dims: list[Dim] = []
    for i, entry in enumerate(target):
        if entry == 0 and zero_copies:
            dims.append(x.dims[i] if x.dims is not None and i < len(x.dims) else None)
        else:
            dims.append(entry)
    for i, entry in enumerate(dims):
        if entry == -1:
            dims[i] = _remaining(x.dims, [d for j, d in enumerate(dims) if j != i])
    return tuple(dims)


def _remaining(source: Dims | None, others: list[Dim]) -> Dim:
    """Return the dimension to put for -1, when everything else cancels."""
    if source is None:
        return None
    left = list(source)
    # A 0 cancels too: -1 is then what it would be of a filled tensor.
    for dim in [d for d in others if isinstance(d, str) or d == 0]:
        if dim not in left:
            return None
        left.remove(dim)
    others = [d for d in others if d != 0]
    if any(d is None for d in others):
        return None
    symbols = [d for d in left if not isinstance(d, int)]
    above = int(np.prod([d for d in left if isinstance(d, int)], dtype=np.int64))
    below = int(np.prod([d for d in others if isinstance(d, int)], dtype=np.int64))
    if below == 0:
        return None
    if not symbols:
        return above // below if above % below == 0 else None
    return symbols[0] if len(symbols) == 1 and above == below else None


def _expand(operator: Operator) -> Dims | None:
    x, target = operator.inputs[0], entries_of(operator.inputs[1])
    if x is None or x.dims is None or target is None:
        return None
    return broadcast_dims(x.dims, target)


def _as_first(operator: Operator) -> Dims | None:
    x = operator.inputs[0]
    return None if x is None else x.dims


def _constant_of_shape(operator: Operator) -> Dims | None:
    return entries_of(operator.inputs[0])


def _tile(operator: Operator) -> Dims | None:
    x, repeats = operator.inputs[0], entries_of(operator.inputs[1])
    if x is None or x.dims is None or repeats is None:
        return None
    dims: list[Dim] = []
    for dim, times in zip(x.dims, repeats, strict=True):
        if isinstance(dim, int) and isinstance(times, int):
            dims.append(dim * times)
        else:
            dims.append(dim if times == 1 else times if dim == 1 else None)
    return tuple(dims)


def _range(operator: Operator) -> Dims | None:
    start, limit, delta = (entries_of(v) for v in operator.inputs)
    if start == (0,) and delta == (1,) and limit is not None:
        return limit
    return None


def _resize(operator: Operator) -> Dims | None:
    sizes = entries_of(operator.inputs[3]) if len(operator.inputs) > 3 else None
    final = not operator.attrs.get("axes") and operator.attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    return sizes if final else None


def _slice(operator: Operator) -> Dims | None:
    """Keeps the axes that are not sliced when the bounds of the others are unknown."""
    x = operator.inputs[0]
    if x is None or x.dims is None or len(operator.inputs) < 3:
        return None
    starts, ends = entries_of(operator.inputs[1]), entries_of(operator.inputs[2])
    axes_operand, steps_operand = ([*operator.inputs, None, None][i] for i in (3, 4))
    if axes_operand is not None:
        axes = entries_of(axes_operand)
    else:
        length = operator.inputs[1].dims[0] if operator.inputs[1] is not None and operator.inputs[1].dims else None
        axes = tuple(range(length)) if isinstance(length, int) else None
    if axes is None or not all(isinstance(axis, int) for axis in axes):
        return None
    steps = entries_of(steps_operand) if steps_operand is not None else (1,) * len(axes)
    dims = list(x.dims)
    for i, axis in enumerate(axes):
        assert isinstance(axis, int)
        known = starts is not None and ends is not None and steps is not None
        dims[axis] = _sliced(dims[axis], starts[i], ends[i], steps[i]) if known else None  # type: ignore[index]
    return tuple(dims)


def _sliced(dim: Dim, start: Dim, end: Dim, step: Dim) -> Dim:
    if start == 0 and step == 1 and isinstance(end, int) and end >= 2**31 - 1:
        return dim
    if start == 0 and step == 1 and end is not None and end == dim:
        return dim
    if isinstance(dim, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return len(range(*slice(start, end if step > 0 or end >= -dim else None, step).indices(dim)))
    return None


def _pool(operator: Operator) -> Dims | None:
    """With ceil_mode a window that would start behind the data is left out, which onnx's inference forgets."""
    x, attrs = operator.inputs[0], operator.attrs
    if x is None or x.dims is None:
        return None
    rank, mode = len(x.dims) - 2, attrs.get("auto_pad", "NOTSET")
    ones = [1] * rank
    strides, dilations, pads = attrs.get("strides") or ones, attrs.get("dilations") or ones, attrs.get("pads") or [0] * 2 * rank
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        # Of dilated windows, onnxruntime places fewer than the specification says.
        plain = all(dilation == 1 for dilation in dilations)
        sizes = [-(-n // s) if plain and isinstance(n, int) else None for n, s in zip(x.dims[2:], strides, strict=True)]
        return (*x.dims[:2], *sizes)
    if not attrs.get("ceil_mode", 0):
        return None
    if mode == "VALID":
        pads = [0] * 2 * rank
    dims: list[Dim] = list(x.dims)
    for i, size in enumerate(x.dims[2:]):
        if not isinstance(size, int):
            dims[2 + i] = None
            continue
        extent = dilations[i] * (attrs["kernel_shape"][i] - 1) + 1
        outputs = -(-(size + pads[i] + pads[rank + i] - extent) // strides[i]) + 1
        dims[2 + i] = outputs - 1 if (outputs - 1) * strides[i] >= size + pads[i] else outputs
    return tuple(dims)


def _nonzero(operator: Operator) -> Dims | None:
    indices = nonzero_of(operator.inputs[0])
    return None if indices is None else indices.shape


def _einsum(operator: Operator) -> Dims | None:
    """onnx's inference takes an index from the first operand that has it, also where its size of 1 is repeated."""
    dims = [v.dims if v is not None else None for v in operator.inputs]
    terms, output = parse_equation(operator.attrs["equation"], [None if d is None else len(d) for d in dims])
    sizes: dict[str, Dim] = {}
    for term, known in zip(terms, dims, strict=True):
        for position, letter in enumerate(term):
            dim = None if known is None else known[position]
            sizes[letter] = broadcast_dims((sizes[letter],), (dim,))[0] if letter in sizes else dim
    return tuple(sizes[letter] for letter in output) if "." not in "".join(terms) else None


def _stft(operator: Operator) -> Dims | None:
    """onnx's inference forgets that half of the frequencies are left out by default."""
    window, length = ([*operator.inputs, None, None][i] for i in (2, 3))
    known = entries_of(length)
    size = known[0] if known else window.dims[0] if window is not None and window.dims else None
    if not isinstance(size, int):
        return None
    return (None, None, size // 2 + 1 if operator.attrs.get("onesided", 1) else size, 2)


FROM_ENTRIES: dict[str, Callable[[Operator], Dims | None]] = {
    "Reshape": _reshape,
    "Expand": _expand,
    "GroupNormalization": _as_first,
    "ConstantOfShape": _constant_of_shape,
    "Tile": _tile,
    "Range": _range,
    "Resize": _resize,
    "Slice": _slice,
    "AveragePool": _pool,
    "MaxPool": _pool,
    "LpPool": _pool,
    "Einsum": _einsum,
    "NonZero": _nonzero,
    "STFT": _stft,
}

OVERRULES = ("Einsum", "AveragePool", "LpPool", "MaxPool")
"""Operators of which onnx's inference claims wrong sizes, so that nothing of it is kept."""

"""Reshaping, joining and cutting, with Paddle's argument names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.dtypes import dtype_of
from onnxgrad.ir.variable import Variable
from onnxgrad.tensor.layer import Layer

__all__ = ["concat", "expand", "flatten", "full", "reshape", "split", "squeeze", "stack", "transpose", "unsqueeze"]


def reshape(x: Variable, shape: Sequence[int] | Variable, name: str | None = None) -> Variable:
    """The elements of ``x`` in another shape; -1 for one dimension to compute, 0 to keep the one of ``x``.

    Example:
        >>> paddle.reshape(static.data("x", [None, 4, 6]), [0, -1]).shape
        (-1, 24)
    """
    target = shape if isinstance(shape, Variable) else np.asarray(shape, np.int64)
    return Layer("reshape2", x, name=name).emit("Reshape", x, target)  # type: ignore[no-any-return]


def flatten(x: Variable, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Variable:
    """Axes ``start_axis`` to ``stop_axis`` (inclusive) merged into one."""
    rank = x.ndim
    start, stop = start_axis % rank, stop_axis % rank
    dims = x.shape
    if stop == rank - 1 and start <= 1 and rank > 1 and start == 1:
        return Layer("flatten", x, name=name).emit("Flatten", x, axis=1)  # type: ignore[no-any-return]
    target = [*([0] * start), -1, *dims[stop + 1 :]]
    return Layer("flatten", x, name=name).emit("Reshape", x, np.asarray(target, np.int64))  # type: ignore[no-any-return]


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """Axes in the order ``perm``."""
    return Layer("transpose", x, name=name).emit("Transpose", x, perm=list(perm))  # type: ignore[no-any-return]


def squeeze(x: Variable, axis: int | Sequence[int] | None = None, name: str | None = None) -> Variable:
    """Without the axes of size 1: those given, or all."""
    axes = None if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return Layer("squeeze2", x, name=name).emit("Squeeze", x, axes)  # type: ignore[no-any-return]


def unsqueeze(x: Variable, axis: int | Sequence[int], name: str | None = None) -> Variable:
    """With axes of size 1 inserted."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    return Layer("unsqueeze2", x, name=name).emit("Unsqueeze", x, axes)  # type: ignore[no-any-return]


def concat(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Several tensors joined along ``axis``."""
    items = list(x)
    return Layer("concat", *items, name=name).emit("Concat", *items, axis=axis)  # type: ignore[no-any-return]


def stack(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Several tensors of one shape, joined along a new axis."""
    layer = Layer("stack", *x, name=name)
    return layer.emit("Concat", *(layer.op.Unsqueeze(item, [axis]) for item in x), axis=axis)  # type: ignore[no-any-return]


def split(x: Variable, num_or_sections: int | Sequence[int], axis: int = 0, name: str | None = None) -> list[Variable]:
    """Parts of ``x`` along ``axis``: a number of equal ones, or of given sizes (one may be -1)."""
    layer = Layer("split", x, name=name)
    if isinstance(num_or_sections, int):
        names = [layer.program.generate_name(f"{layer.name}.tmp") for _ in range(num_or_sections)]
        results = layer.op.emit("Split", (x,), {"axis": axis, "num_outputs": num_or_sections}, outputs=names)
        return list(results)
    sizes = list(num_or_sections)
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(size for size in sizes if size != -1)
    names = [layer.program.generate_name(f"{layer.name}.tmp") for _ in sizes]
    return list(layer.op.emit("Split", (x, np.asarray(sizes, np.int64)), {"axis": axis}, outputs=names))


def expand(x: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """``x`` repeated to ``shape``; -1 keeps a dimension."""
    target = [1 if dim == -1 else dim for dim in shape]
    return Layer("expand", x, name=name).emit("Expand", x, np.asarray(target, np.int64))  # type: ignore[no-any-return]


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A tensor of one value; float32 unless a dtype is given."""
    layer = Layer("fill_constant", name=name)
    element = dtype_of("float32" if dtype is None else dtype)
    value = layer.op.constant(np.asarray(fill_value), element)
    return layer.emit("Expand", value, np.asarray(list(shape), np.int64))  # type: ignore[no-any-return]

"""Shapes: reshaping, joining, cutting, gathering."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgrad.errors import ArgumentError
from onnxgrad.ir.variable import Variable
from onnxgrad.tensor.layer import Layer
from onnxgrad.tensor.manipulation import transpose

__all__ = [
    "concat",
    "expand",
    "flatten",
    "gather",
    "pad",
    "reshape",
    "slice",
    "split",
    "squeeze",
    "stack",
    "transpose",
    "unsqueeze",
    "unstack",
]


def reshape(
    x: Variable,
    shape: Sequence[int] | Variable,
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """The elements of ``x`` in another shape; -1 for one dimension to compute, 0 to keep the one of ``x``.

    Example:
        >>> fluid.layers.reshape(fluid.layers.data("x", [4, 6]), shape=[0, -1], act="relu").shape
        (-1, 24)
    """
    layer = Layer("reshape2", x, name=name)
    target = actual_shape if actual_shape is not None else shape
    operand = target if isinstance(target, Variable) else np.asarray(target, np.int64)
    return layer.activate(layer.emit("Reshape", x, operand), act)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the axes before ``axis`` become rows, the others columns."""
    return Layer("flatten", x, name=name).emit("Flatten", x, axis=axis)  # type: ignore[no-any-return]


def concat(input: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Several tensors joined along ``axis``."""
    items = list(input)
    return Layer("concat", *items, name=name).emit("Concat", *items, axis=axis)  # type: ignore[no-any-return]


def stack(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Several tensors of one shape joined along a new axis."""
    layer = Layer("stack", *x, name=name)
    return layer.emit("Concat", *(layer.op.Unsqueeze(item, [axis]) for item in x), axis=axis)  # type: ignore[no-any-return]


def split(input: Variable, num_or_sections: int | Sequence[int], dim: int = -1, name: str | None = None) -> list[Variable]:
    """Parts along ``dim``: a number of equal ones, or of given sizes (one may be -1)."""
    layer = Layer("split", input, name=name)
    if isinstance(num_or_sections, int):
        count, operands = num_or_sections, (input,)
        attrs = {"axis": dim, "num_outputs": num_or_sections}
    else:
        sizes = list(num_or_sections)
        if -1 in sizes:
            sizes[sizes.index(-1)] = input.shape[dim] - sum(size for size in sizes if size != -1)
        count, operands = len(sizes), (input, np.asarray(sizes, np.int64))  # type: ignore[assignment]
        attrs = {"axis": dim}
    names = [layer.program.generate_name(f"{layer.name}.tmp") for _ in range(count)]
    return list(layer.op.emit("Split", operands, attrs, outputs=names))


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices along ``axis``, without it."""
    count = x.shape[axis] if num is None else num
    if count < 0:
        raise ArgumentError(f"unstack: axis {axis} of {x!r} must be known, or give num.")
    layer = Layer("unstack", x)
    return [layer.emit("Squeeze", part, [axis]) for part in split(x, count, axis)]


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Without the given axes of size 1; all of size 1 if ``axes`` is empty."""
    return Layer("squeeze2", input, name=name).emit("Squeeze", input, list(axes) or None)  # type: ignore[no-any-return]


def unsqueeze(input: Variable, axes: int | Sequence[int], name: str | None = None) -> Variable:
    """With axes of size 1 inserted."""
    wanted = [axes] if isinstance(axes, int) else list(axes)
    return Layer("unsqueeze2", input, name=name).emit("Unsqueeze", input, wanted)  # type: ignore[no-any-return]


def expand(x: Variable, expand_times: Sequence[int] | Variable, name: str | None = None) -> Variable:
    """Repeated so many times along each axis."""
    times = expand_times if isinstance(expand_times, Variable) else np.asarray(expand_times, np.int64)
    return Layer("expand", x, name=name).emit("Tile", x, times)  # type: ignore[no-any-return]


def slice(input: Variable, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> Variable:
    """From ``starts`` to ``ends`` along ``axes``."""
    return Layer("slice", input).emit("Slice", input, list(starts), list(ends), list(axes))  # type: ignore[no-any-return]


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """Rows of ``input`` by integer; an index of shape [N, 1] counts as [N]."""
    layer = Layer("gather", input, index)
    rows = layer.op.Squeeze(index, [1]) if index.ndim == 2 else index
    return layer.emit("Gather", input, rows, axis=0)  # type: ignore[no-any-return]


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """With a value before and after each axis: ``paddings`` is [before_0, after_0, before_1, after_1, ...]."""
    layer = Layer("pad", x, name=name)
    pads = [*paddings[0::2], *paddings[1::2]]
    return layer.emit("Pad", x, pads, layer.op.constant(pad_value, x.dtype))  # type: ignore[no-any-return]

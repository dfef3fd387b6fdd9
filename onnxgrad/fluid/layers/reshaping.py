"""Shapes: reshaping, joining, cutting, gathering."""

from __future__ import annotations

from collections.abc import Sequence

import onnxgrad.nn.functional as functional
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.fluid.renamed import renamed
from onnxgrad.tensor import joining, manipulation
from onnxgrad.tensor.common import axes_of
from onnxgrad.tensor.joining import slice, stack
from onnxgrad.tensor.layer import LayerHelper
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

concat = renamed("concat(input, axis=0, name=None)", joining.concat, x="input")
split = renamed("split(input, num_or_sections, dim=-1, name=None)", joining.split, x="input", axis="dim")


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
    layer = LayerHelper("reshape2", x, name=name)
    return layer.activate(manipulation.reshape(x, shape if actual_shape is None else actual_shape, layer.name), act)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the axes before ``axis`` become rows, the others columns."""
    return LayerHelper("flatten", x, name=name).result("Flatten", x, axis=axis)


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices along ``axis``, without it."""
    count = x.shape[axis] if num is None else num
    if count < 0:
        raise ArgumentError(f"unstack: axis {axis} of {x!r} must be known, or give num.")
    layer = LayerHelper("unstack", x)
    return [layer.result("Squeeze", part, [axis]) for part in split(x, count, axis)]


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Without the given axes of size 1; all of size 1 if ``axes`` is empty."""
    return LayerHelper("squeeze2", input, name=name).result("Squeeze", input, axes_of(axes))


def unsqueeze(input: Variable, axes: int | Sequence[int], name: str | None = None) -> Variable:
    """With axes of size 1 inserted."""
    return LayerHelper("unsqueeze2", input, name=name).result("Unsqueeze", input, axes_of(axes))


def expand(x: Variable, expand_times: Sequence[int] | Variable, name: str | None = None) -> Variable:
    """Repeated so many times along each axis."""
    return manipulation.tile(x, expand_times, LayerHelper("expand", x, name=name).name)


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """Rows of ``input`` by integer; an index of shape [N, 1] counts as [N]."""
    layer = LayerHelper("gather", input, index)
    return layer.result("Gather", input, layer.op.Squeeze(index, [1]) if index.ndim == 2 else index, axis=0)


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """With a value before and after each axis: ``paddings`` is [before_0, after_0, before_1, after_1, ...]."""
    return functional.pad(x, paddings, value=pad_value, name=LayerHelper("pad", x, name=name).name)

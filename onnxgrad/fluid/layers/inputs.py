"""Inputs, constants and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad import static
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import NotOffered
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.nn.initializer import Initializer
from onnxgrad.static.input import create_global_var
from onnxgrad.tensor.layer import Layer

__all__ = ["assign", "cast", "create_global_var", "create_parameter", "data", "fill_constant", "ones", "shape", "zeros"]


def data(
    name: str,
    shape: Sequence[int],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: Any = None,
    stop_gradient: bool = True,
) -> Variable:
    """An input; a batch axis of any size is put in front.

    Args:
        name: its name.
        shape: its dimensions without the batch axis.
        append_batch_size: False if ``shape`` has it; it is not added either where a dimension is -1 or None.
        dtype: element type.
        lod_level, type: accepted for compatibility.
        stop_gradient: whether gradients stop there.

    Example:
        >>> fluid.layers.data(name="x", shape=[13], dtype="float32").shape
        (-1, 13)
    """
    dims = [None if dim is None or dim < 0 else dim for dim in shape]
    if append_batch_size and None not in dims:
        dims = [None, *dims]
    variable = static.data(name, dims, dtype, lod_level)
    variable.stop_gradient = stop_gradient
    return variable


def fill_constant(
    shape: Sequence[int], dtype: Any, value: Any, force_cpu: bool = False, out: Variable | None = None, name: str | None = None
) -> Variable:
    """A tensor of one value."""
    layer = Layer("fill_constant", name=name)
    filled = layer.op.constant(np.asarray(value), dtype_of(dtype))
    return layer.emit("Expand", filled, np.asarray(list(shape), np.int64))  # type: ignore[no-any-return]


def zeros(shape: Sequence[int], dtype: Any, force_cpu: bool = False, name: str | None = None) -> Variable:
    """A tensor of zeros."""
    return fill_constant(shape, dtype, 0, name=name)


def ones(shape: Sequence[int], dtype: Any, force_cpu: bool = False) -> Variable:
    """A tensor of ones."""
    return fill_constant(shape, dtype, 1)


def assign(input: Variable | np.ndarray[Any, Any], output: Variable | None = None) -> Variable:
    """A copy of a variable, or an array as a constant.

    Raises:
        NotOffered: if ``output`` is given: values are never overwritten.
    """
    if output is not None:
        raise NotOffered("fluid.layers.assign(output=...): variables are assigned once. Use the returned variable.")
    if isinstance(input, Variable):
        return Layer("assign", input).emit("Identity", input)  # type: ignore[no-any-return]
    layer = Layer("assign")
    return layer.emit("Identity", layer.op.constant(np.asarray(input)))  # type: ignore[no-any-return]


def cast(x: Variable, dtype: Any) -> Variable:
    """The same numbers in another element type."""
    return Layer("cast", x).emit("Cast", x, to=dtype_of(dtype).number)  # type: ignore[no-any-return]


def shape(input: Variable) -> Variable:
    """The dimensions, as int32."""
    layer = Layer("shape", input)
    return layer.emit("Cast", layer.op.Shape(input), to=6)  # type: ignore[no-any-return]


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Parameter:
    """A parameter of its own."""
    return static.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)

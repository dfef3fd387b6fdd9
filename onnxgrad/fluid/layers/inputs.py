"""Inputs, constants and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad import static
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import NotOffered
from onnxgrad.fluid.renamed import renamed
from onnxgrad.static.input import create_global_var, create_parameter
from onnxgrad.tensor import creation
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.manipulation import cast

__all__ = ["assign", "cast", "create_global_var", "create_parameter", "data", "fill_constant", "ones", "shape", "zeros"]

fill_constant = renamed(
    "fill_constant(shape, dtype, value, force_cpu=False, out=None, name=None)", creation.full, fill_value="value"
)
zeros = renamed("zeros(shape, dtype, force_cpu=False, name=None)", creation.zeros)
ones = renamed("ones(shape, dtype, force_cpu=False)", creation.ones)


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


def assign(input: Variable | np.ndarray[Any, Any], output: Variable | None = None) -> Variable:
    """A copy of a variable, or an array as a constant.

    Raises:
        NotOffered: if ``output`` is given: values are never overwritten.
    """
    if output is not None:
        raise NotOffered("fluid.layers.assign(output=...): variables are assigned once. Use the returned variable.")
    return creation.assign(input)


def shape(input: Variable) -> Variable:
    """The dimensions, as int32."""
    layer = LayerHelper("shape", input)
    return layer.result("Cast", layer.op.Shape(input), to=6)

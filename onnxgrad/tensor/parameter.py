"""create_parameter: a weight of a static program that belongs to no layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Parameter
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.tensor.initializer import Initializer, chosen_initializer
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = ["create_parameter", "sizes_of"]


def sizes_of(shape: Sequence[int]) -> list[int]:
    """The shape of a parameter.

    Raises:
        ArgumentTypeError: if something in it is no int.
    """
    if not all(isinstance(size, (int, np.integer)) for size in shape):
        raise ArgumentTypeError(f"create_parameter: the shape is a list of ints, not {list(shape)}.")
    return [int(size) for size in shape]


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: ParamAttr | str | None = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Parameter:
    """A parameter of its own, initialised by the startup program.

    Args:
        shape: positive dimensions.
        dtype: element type.
        name: its name; default ``create_parameter_N.w_0``.
        attr: further attributes.
        is_bias: initialise with 0 instead of Xavier uniform.
        default_initializer: what to initialise with if ``attr`` does not say.
    """
    layer, sizes = LayerHelper("create_parameter", static=True), sizes_of(shape)
    chosen = ParamAttr.of(attr)
    if chosen is None:
        raise ArgumentTypeError("create_parameter: attr=False makes no sense here.")
    if name is not None and chosen.name is None:
        chosen = chosen.under(name)
    parameter = layer.parameter(chosen, "w", sizes, dtype_of(dtype), chosen_initializer(default_initializer, is_bias))
    assert parameter is not None
    return parameter

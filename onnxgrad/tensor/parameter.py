"""create_parameter: a weight that belongs to no layer, eager or of a static program.

Tests: tests/static/test_initializers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.record import EAGER
from onnxgrad.errors import ArgumentTypeError, Mismatch
from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.initializer import Initializer, chosen_initializer
from onnxgrad.tensor.layer import LayerHelper, program_of
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = ["create_parameter", "eager_parameter"]


@checked
def create_parameter(
    shape: Sequence[int],
    dtype: DTypeLike,
    name: str | None = None,
    attr: ParamAttr | str | None = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> EagerParameter:
    """A weight of its own: an eager tensor, or in static mode a parameter of the default main program.

    Args:
        shape: positive dimensions.
        dtype: element type.
        name: its name; by default a counted one, ``create_parameter_N.w_0``.
        attr: further attributes.
        is_bias: initialise with 0 instead of Xavier uniform.
        default_initializer: what to initialise with if ``attr`` does not say.

    Returns:
        A tensor with ``stop_gradient`` False, or a static Parameter, which the startup program initialises.

    Raises:
        ArgumentTypeError: if something in the shape is no int, or ``attr`` is False.

    Example:
        >>> paddle.create_parameter([2, 3], "float32").shape
        [2, 3]
    """
    chosen = ParamAttr.of(attr)
    if chosen is None:
        raise ArgumentTypeError("create_parameter: attr=False makes no sense here.")
    sizes, default = [int(size) for size in shape], chosen_initializer(default_initializer, is_bias)
    if program_of(()) is EAGER:
        return eager_parameter(chosen, sizes, dtype, default, name or chosen.name or _counted_name(is_bias))
    if name is not None and chosen.name is None:
        chosen = chosen.under(name)
    helper = LayerHelper("create_parameter", static=True)
    return cast(EagerParameter, helper.parameter(chosen, "w", sizes, dtype_of(dtype), default))


def _counted_name(is_bias: bool) -> str:
    return f"{state.generate_name('create_parameter')}.{'b' if is_bias else 'w'}_0"


def eager_parameter(attr: ParamAttr, shape: list[int], dtype: DTypeLike, default: Initializer, name: str) -> EagerParameter:
    """An eager weight with the value that its initializer samples."""
    if min(shape, default=0) < 0:
        raise Mismatch(f"{name}: the sizes of a parameter are not negative, unlike those of {shape}.")
    build = EAGER.global_block().build
    value = (attr.initializer or default).append(build, [int(n) for n in shape], dtype_of(dtype))
    parameter = EagerParameter(np.asarray(value), attr.trainable, name=name)
    attr.describe(parameter)
    return parameter

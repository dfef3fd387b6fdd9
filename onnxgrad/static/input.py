"""Inputs and free-standing parameters of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentTypeError, DuplicateName
from onnxgrad.ir.defaults import default_main_program
from onnxgrad.ir.types import Dim, TensorType, shown_type
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.nn.initializer import Constant, Initializer, XavierUniform
from onnxgrad.nn.param_attr import ParamAttr
from onnxgrad.tensor.layer import Layer

__all__ = ["create_parameter", "data"]


def data(name: str, shape: Sequence[int | str | None], dtype: Any = None, lod_level: int = 0) -> Variable:
    """An input of the program, to be fed.

    Args:
        name: its name, also in ONNX files.
        shape: dimensions: numbers; None or -1 for any size; a str for any size that has a name.
        dtype: element type, default float32.

    Returns:
        A variable with ``stop_gradient`` True; set it False to differentiate with respect to the input.

    Raises:
        DuplicateName: if the name exists with another shape or dtype.
        ArgumentTypeError: if ``shape`` is not a list or tuple of dimensions.

    Example:
        >>> static.data("ids", ["batch", None], "int64").shape
        (-1, -1)
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(f"data: the name is a str, not {type(name).__name__}.")
    if not isinstance(shape, (list, tuple)):
        raise ArgumentTypeError(f"data: the shape is a list or tuple, not {type(shape).__name__}.")
    dims: list[Dim] = []
    for dim in shape:
        if dim is not None and not isinstance(dim, (int, str)):
            raise ArgumentTypeError(f"data: a dimension is an int, a str or None, not {type(dim).__name__}.")
        dims.append(None if dim == -1 else dim)
    block = default_main_program().global_block()
    wanted = TensorType(dtype_of("float32" if dtype is None else dtype), tuple(dims))
    present = block.vars.get(name)
    if present is not None:
        if not present.is_data or shown_type(present.type) != wanted:
            raise DuplicateName(f"data: {name!r} exists already as {present!r}. Choose another name.")
        return present
    variable = Variable(block, name, wanted)
    variable.is_data = True
    block.register(variable)
    block.inputs.append(variable)
    return variable


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
    layer = Layer("create_parameter", static=True)
    chosen = ParamAttr.of(attr)
    if chosen is None:
        raise ArgumentTypeError("create_parameter: attr=False makes no sense here.")
    if name is not None and chosen.name is None:
        chosen = ParamAttr(
            name,
            chosen.initializer,
            chosen.learning_rate,
            chosen.regularizer,
            chosen.trainable,
            chosen.do_model_average,
            chosen.need_clip,
        )
    default = default_initializer or (Constant(0.0) if is_bias else XavierUniform())
    parameter = layer.parameter(chosen, "w", list(shape), dtype_of(dtype), default)
    assert parameter is not None
    return parameter

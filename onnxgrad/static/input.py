"""Inputs and free-standing parameters of a program.

Tests: tests/static/test_static.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from onnxgrad.core.ir.defaults import create_global_var, default_main_program
from onnxgrad.core.ir.types import Dim, TensorType, shown_type
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError, DuplicateName
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_flag, as_int, as_kind, as_text, checked
from onnxgrad.tensor import parameter
from onnxgrad.tensor.initializer import Initializer
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = ["InputSpec", "create_global_var", "create_parameter", "data"]


@checked
def create_parameter(
    shape: Sequence[int],
    dtype: DTypeLike,
    name: str | None = None,
    attr: ParamAttr | str | None = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Parameter:
    """A weight of its own in the default main program, whatever the mode.

    Args:
        shape: positive dimensions.
        dtype: element type.
        name: its name; by default a new one.
        attr: its attributes; a str for its name.
        is_bias: whether it starts at 0 where no initializer is given.
        default_initializer: where ``attr`` has none.

    Example:
        >>> static.create_parameter([2, 3], "float32", name="table")
        Parameter(table: float32[2, 3])
    """
    with state.guard(static_mode=True):
        created: Any = parameter.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)
    return cast(Parameter, created)


@checked
def data(name: str, shape: Sequence[int | str | None], dtype: DTypeLike | None = None, lod_level: int = 0) -> Variable:
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
    as_kind("data", "name", name, str)
    as_kind("data", "shape", shape, list | tuple)
    dims: list[Dim] = []
    for dim in shape:
        if dim is not None and not isinstance(dim, (int, str)):
            raise ArgumentTypeError(f"data: a dimension is an int, a str or None, not {type(dim).__name__}.")
        dims.append(None if dim == -1 else dim)
    block = default_main_program().global_block()
    wanted = TensorType(dtype_of(state.current.default_dtype if dtype is None else dtype), tuple(dims))
    present = block.vars.get(name)
    if present is not None:
        if not present.is_data or shown_type(present.type) != wanted:
            raise DuplicateName(f"data: {name!r} exists already as {present!r}. Choose another name.")
        return present
    return block.add_input(name, wanted)


class InputSpec:
    """The shape, element type and name of an input.

    Args:
        shape: dimensions; None or -1 for any size.
        dtype: element type.
        name: its name.
        stop_gradient: whether gradients stop there.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if a dimension is below -1.

    Example:
        >>> static.InputSpec([None, 784], "float32", "x")
        InputSpec(shape=(-1, 784), dtype=paddle.float32, name=x, stop_gradient=False)
    """

    def __init__(
        self, shape: Sequence[int | None], dtype: DTypeLike = "float32", name: str | None = None, stop_gradient: bool = False
    ) -> None:
        as_kind(self, "shape", shape, list | tuple)
        self.shape = tuple(-1 if dim is None else as_int(self, "a dimension", dim, least=-1) for dim in shape)
        self.dtype = dtype_of(dtype)
        self.name = as_text(self, "name", name)
        self.stop_gradient = as_flag(self, "stop_gradient", stop_gradient)

    @classmethod
    def from_tensor(cls, tensor: Variable, name: str | None = None) -> InputSpec:
        """The description of a Variable or Tensor.

        Args:
            tensor: of any shape.
            name: of the input.
        """
        return cls(list(tensor.shape), tensor.dtype, name if name is not None else tensor.name)

    @classmethod
    def from_numpy(cls, ndarray: np.ndarray[Any, Any], name: str | None = None) -> InputSpec:
        """The description of an array.

        Args:
            ndarray: of any shape.
            name: of the input.
        """
        return cls(list(ndarray.shape), ndarray.dtype, name)

    def batch(self, batch_size: int) -> InputSpec:
        """Put an axis of this size in front; returns itself.

        Args:
            batch_size: the size of the new first axis.
        """
        self.shape = (as_int("InputSpec.batch", "batch_size", batch_size), *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Take the first axis off; returns itself."""
        if not self.shape:
            raise ArgumentError("InputSpec.unbatch: there is no axis to take off.")
        self.shape = self.shape[1:]
        return self

    def _key(self) -> tuple[Any, ...]:
        return (self.shape, self.dtype, self.name, self.stop_gradient)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"InputSpec(shape={self.shape}, dtype={self.dtype}, name={self.name}, stop_gradient={self.stop_gradient})"

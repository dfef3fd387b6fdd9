"""to_tensor: values of Python and numpy as tensors.

Tests: tests/eager/test_tensors.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from onnxgrad.core.ir.defaults import default_main_program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.state.inputs import FEED, Given, as_array, converted
from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.eager.record import record
from onnxgrad.eager.tensor import Tensor, leaf
from onnxgrad.errors import ArgumentError, ArgumentTypeError, ProviderError, WrongKind
from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked

__all__ = ["as_tensor", "asarray", "from_numpy", "is_tensor", "to_tensor"]


@checked
def to_tensor(data: Given, dtype: DTypeLike | None = None, place: Place | None = None, stop_gradient: bool = True) -> Tensor:
    """A tensor with the value of ``data``, which is copied.

    Args:
        data: a number, nested lists or tuples of numbers, a numpy array, or a Tensor.
        dtype: element type; by default that of the array or Tensor, int64 for Python integers, and for other numbers, and lists of
            numbers and of arrays, the default type (``set_default_dtype``), complex64 or with float64 complex128.
        place: ``CPUPlace()`` or None.
        stop_gradient: set False to compute gradients with respect to it.

    Returns:
        A Tensor; in static mode a constant of the default main program.

    Raises:
        ArgumentTypeError: if ``data`` is of another type.
        ArgumentError: if nested lists have different lengths.
        FeedError: if ``dtype`` does not hold a value, such as 300 for uint8 or 0.9 for int64. Use ``astype`` to round or wrap.

    Example:
        >>> paddle.to_tensor([1, 2, 3])
        Tensor(shape=[3], dtype=int64, place=Place(cpu), stop_gradient=True,
               [1, 2, 3])
    """
    if place is not None and getattr(place, "device", str(place)) != "cpu":
        raise ProviderError(f"eager tensors are computed on the CPU; {place!r} is not offered. Use static programs there.")
    if isinstance(data, Variable) and not isinstance(data, Tensor):
        return cast("Tensor", data if dtype is None else data.astype(dtype))  # of a program that is being built
    array = data if isinstance(data, Tensor) else _array(data, dtype is None)
    if state.current.static_mode or state.current.guards:
        wanted = np.asarray(leaf(array, dtype)._array())
        return cast("Tensor", default_main_program().current_block().build.constant(wanted))
    if isinstance(array, Tensor) and array._node.array is None:
        tensor: Tensor = array.detach() if dtype is None else record("Cast", (array.detach(),), {"to": dtype_of(dtype).number})
        tensor.stop_gradient = stop_gradient
        return tensor
    return leaf(array, dtype, stop_gradient)


@checked
def as_tensor(
    data: Given, dtype: DTypeLike | None = None, device: Place | None = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """``to_tensor`` with the arguments that torch has.

    Args:
        data: as of ``to_tensor``.
        dtype: element type.
        device: ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: accepted for compatibility.

    Example:
        >>> paddle.as_tensor([1, 2]).tolist()
        [1, 2]
    """
    return to_tensor(data, dtype, device, stop_gradient=not requires_grad)


@checked
def asarray(
    obj: Given,
    dtype: DTypeLike | None = None,
    device: Place | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``to_tensor`` with the arguments that torch has.

    Args:
        obj: as of ``to_tensor``.
        dtype: element type.
        device: ``CPUPlace()`` or None.
        copy: False is refused: values are always copied.
        requires_grad: True to compute gradients with respect to it.

    Raises:
        ArgumentError: if ``copy`` is False.
    """
    if copy is False:
        raise ArgumentError("asarray: tensors own their values, so copy=False is not offered. Leave it out.")
    return to_tensor(obj, dtype, device, stop_gradient=not requires_grad)


@checked
def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A tensor with the value of an array, which is copied.

    Args:
        ndarray: numbers of any shape.
    """
    return to_tensor(ndarray)


def _array(data: Any, is_typeless: bool) -> Any:
    """Read ``data`` as an array; of the default type where neither it nor a ``dtype`` says one"""
    if isinstance(data, (np.generic, np.ndarray)):
        if data.dtype.kind in "OSU":
            raise ArgumentTypeError(f"to_tensor takes numbers, not elements of {data.dtype}.")
        return data
    if isinstance(data, (bool, int, float, complex)):
        return _in_default_type(np.asarray(data)) if is_typeless and not isinstance(data, int) else data
    if isinstance(data, (list, tuple, range)):
        return _from_nested(data, is_typeless)
    if hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        return as_array(data, "data", FEED)
    raise ArgumentTypeError(f"to_tensor takes numbers, lists, arrays and Tensors, not {type(data).__name__}.")


def _from_nested(data: Sequence[Any], is_typeless: bool) -> Any:
    plain = _without_tensors(data)
    try:
        array = np.asarray(plain)
    except ValueError as error:
        raise ArgumentError("to_tensor: the nested lists have different lengths. Pad them first.") from error
    if array.dtype.kind in "OSU":
        raise WrongKind(f"to_tensor takes nested lists of numbers, not of {type(data[0]).__name__}.")
    return _in_default_type(array) if is_typeless and not _holds_tensor(data) else array


def _in_default_type(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers whose type nobody chose: floats become those of ``set_default_dtype``, complex ones twice as wide."""
    default = dtype_of(state.current.default_dtype)
    if array.dtype.kind == "c":
        return array.astype(np.complex128 if default.name == "float64" else np.complex64)
    return converted(array, default, "data", FEED) if dtype_of(array.dtype).is_float else array


def _holds_tensor(data: Any) -> bool:
    return any(_holds_tensor(item) for item in data) if isinstance(data, (list, tuple)) else isinstance(data, Tensor)


def _without_tensors(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.numpy()
    return [_without_tensors(item) for item in data] if isinstance(data, (list, tuple)) else data


def is_tensor(x: object) -> bool:
    """Whether ``x`` is a tensor, eager or static.

    Args:
        x: anything.
    """
    return isinstance(x, Variable)

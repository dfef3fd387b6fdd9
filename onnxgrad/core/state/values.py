"""Arrays to and from OrtValues, also of types that onnxruntime's Python interface does not hand over: bfloat16, 8-bit floats.

Tests: tests/core/runtime/test_bfloat16.py, tests/core/runtime/test_buffers.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentTypeError, ExecutionError

__all__ = [
    "array_of",
    "copy_into",
    "device_of",
    "is_plain",
    "room_of",
    "shares_memory",
    "use_device_copier",
    "value_of",
    "value_on",
    "view_of",
]

Array = np.ndarray[Any, Any]
_WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16}
_NAMES = {
    "tensor(bfloat16)": "bfloat16",
    **{f"tensor({name.replace('_', '')})": name for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")},
}
_NUMBERS = {
    **_NAMES,
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{
        f"tensor({name})": name
        for name in ("float16", "bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
    },
}


def is_plain(value: Any) -> bool:
    """Whether an array or an OrtValue has elements that onnxruntime's Python interface hands over."""
    if isinstance(value, np.ndarray):
        return dtype_of(value.dtype).name not in _NAMES.values()
    return value.data_type() not in _NAMES


def device_of(value: Any) -> tuple[str, int]:
    """The device that an OrtValue lies on: its name and number."""
    name = value.device_name()
    ask = getattr(value, "__dlpack_device__", None)
    return name, int(ask()[1]) if name != "cpu" and ask is not None else 0


def array_of(value: Any) -> Array:
    """The elements of an OrtValue, in memory of their own.

    Raises:
        ExecutionError: if the value is of a type that numpy does not have.
    """
    data_type = value.data_type()
    if data_type in _NAMES:
        held = value if value.device_name() == "cpu" else _COPIERS[-1](value)
        return view_of(held).copy()
    try:
        return np.array(value.numpy())
    except RuntimeError as error:
        raise ExecutionError(f"onnxruntime does not hand over a {value.data_type()}. Cast it first.") from error


def view_of(value: Any) -> Array:
    """The elements of an OrtValue where they lie, if that is main memory; whoever reads them keeps the OrtValue alive.

    Raises:
        ExecutionError: as ``array_of``.
    """
    data_type = value.data_type()
    if value.device_name() != "cpu" or data_type not in _NUMBERS:
        return array_of(value)
    dtype, shape = dtype_of(_NUMBERS[data_type]).numpy, tuple(value.shape())
    # Older versions of onnxruntime give a copy as value.numpy().
    memory = (ctypes.c_char * (prod(shape) * dtype.itemsize)).from_address(value.data_ptr())
    return np.ndarray(shape, dtype, memory)


def value_of(array: Array, device: str = "cpu", index: int = 0) -> Any:
    """An OrtValue with a copy of an array, on a device.

    Raises:
        ArgumentTypeError: if onnxruntime takes no such elements.
    """
    return value_on(np.array(array, order="C"), device, index)


def value_on(array: Array, device: str = "cpu", index: int = 0) -> Any:
    """An OrtValue on the memory of an array, if it is to be in main memory; the rest as ``value_of``."""
    import onnxruntime

    element_type = dtype_of(array.dtype)
    if element_type.name not in _NAMES.values():
        return onnxruntime.OrtValue.ortvalue_from_numpy(array, device, index)
    if device != "cpu":
        value = room_of(array.shape, element_type, device, index)
        copy_into(value, array)
        return value
    make = getattr(onnxruntime.OrtValue, "ortvalue_from_numpy_with_onnx_type", None)
    if make is None:
        raise ArgumentTypeError(
            f"this onnxruntime takes no {element_type.name} from Python. Cast it to float32, or use a newer one."
        )
    words = array.view(_WORDS[array.dtype.itemsize])
    value = make(words, element_type.number)
    value._holds = words  # it is on their memory
    return value


def shares_memory(value: Any, other: Any) -> bool:
    """Return whether an OrtValue and another one, or an array, overlap in memory."""
    (start, size), (first, length) = _extent(value), _extent(other)
    return start < first + length and first < start + size


def _extent(value: Any) -> tuple[int, int]:
    """The address and the number of bytes of what lies in one piece"""
    if isinstance(value, np.ndarray):
        return value.ctypes.data, value.nbytes
    name = value.data_type()
    size = dtype_of(_NUMBERS[name]).numpy.itemsize if name in _NUMBERS else 1
    return value.data_ptr(), prod(value.shape()) * size


def room_of(shape: Sequence[int], dtype: Any, device: str = "cpu", index: int = 0, memory_info: Any = None) -> Any:
    """An OrtValue on a device, or in the memory of onnxruntime's description, whose content is not set."""
    import onnxruntime

    element_type = dtype_of(dtype)
    element = element_type.number if element_type.name in _NAMES.values() else element_type.numpy
    named = {} if memory_info is None else {"memory_info": memory_info}
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), element, device, index, **named)


def copy_into(value: Any, array: Array) -> None:
    """Write an array over the elements of an OrtValue of its shape and type."""
    words = _WORDS.get(array.dtype.itemsize) if not is_plain(array) else None
    value.update_inplace(np.ascontiguousarray(array).reshape(array.shape).view(words or array.dtype))


_COPIERS: list[Callable[[Any], Any]] = []


def use_device_copier(copier: Callable[[Any], Any]) -> None:
    """Say how an OrtValue on a device whose type numpy lacks gets into main memory: whoever opens sessions can copy it."""
    _COPIERS.append(copier)

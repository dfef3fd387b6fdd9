"""Arrays to and from OrtValues, also of types that onnxruntime's Python interface does not hand over: bfloat16, 8-bit floats."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentTypeError, ExecutionError

__all__ = ["array_of", "device_of", "is_plain", "value_of"]

Array = np.ndarray[Any, Any]
_WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16}
_NAMES = {
    "tensor(bfloat16)": "bfloat16",
    **{f"tensor({name.replace('_', '')})": name for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")},
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
        ExecutionError: if the value is of a type that numpy does not have, or of one of these types on another device.
    """
    name = _NAMES.get(value.data_type())
    if name is None:
        try:
            return np.array(value.numpy())
        except RuntimeError as error:
            raise ExecutionError(f"onnxruntime does not hand over a {value.data_type()}. Cast it first.") from error
    if value.device_name() != "cpu":
        raise ExecutionError(f"onnxruntime does not hand over a {value.data_type()} on {value.device_name()}. Cast it first.")
    dtype, shape = dtype_of(name).numpy, tuple(value.shape())
    memory = (ctypes.c_char * (prod(shape) * dtype.itemsize)).from_address(value.data_ptr())
    return np.frombuffer(bytearray(memory), dtype).reshape(shape)


def value_of(array: Array, device: str = "cpu", index: int = 0) -> Any:
    """An OrtValue with a copy of an array, on a device. Those types come into main memory, from where runs take them.

    Raises:
        ArgumentTypeError: if onnxruntime takes no such elements.
    """
    import onnxruntime

    copy, kind = np.array(array, order="C"), dtype_of(array.dtype)
    if kind.name not in _NAMES.values():
        return onnxruntime.OrtValue.ortvalue_from_numpy(copy, device, index)
    make = getattr(onnxruntime.OrtValue, "ortvalue_from_numpy_with_onnx_type", None)
    if make is None:
        raise ArgumentTypeError(f"this onnxruntime takes no {kind.name} from Python. Cast it to float32, or use a newer one.")
    words = copy.view(_WORDS[copy.dtype.itemsize])
    value = make(words, kind.number)
    value._holds = words  # it is on their memory
    return value

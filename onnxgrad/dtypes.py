"""One table of element types: ONNX number, numpy dtype, and the name users write.

Tests: tests/core/ir/test_variables.py, tests/tensor/test_math.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onnxgrad.errors import ArgumentTypeError, UnknownDType
from onnxgrad.internal.arguments import checked

__all__ = ["DType", "DTypeLike", "DTypeName", "dtype_of", "from_onnx_number"]


def __dir__() -> list[str]:
    return __all__


DTypeName: TypeAlias = Literal[
    "bfloat16", "bool", "complex64", "complex128", "double", "float", "float16", "float32", "float4e2m1", "float64", "float6e2m3",
    "float6e3m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0", "half", "int", "int16",
    "int2", "int32", "int4", "int64", "int8", "str", "string", "uint16", "uint2", "uint32", "uint4", "uint64", "uint8",
]  # fmt: skip
"""The names of element types."""
DTypeLike: TypeAlias = "DTypeName | DType | np.dtype[Any] | type[Any]"
"""What names an element type: its name, a ``DType``, a dtype or a type of numpy, or ``float``, ``int`` or ``bool``."""


class DType:
    """Element type of a tensor; equal to its name, its numpy dtype and its ONNX number's other views.

    Args:
        name: what users write.
        number: of ONNX.
        numpy: the dtype of arrays.
        is_float: whether it holds floating-point numbers.

    Example:
        >>> dtype_of("float32") == np.float32
        True
    """

    __slots__ = ("_hash", "is_float", "name", "number", "numpy")

    def __init__(self, name: str, number: int, numpy: npt.DTypeLike, is_float: builtins.bool) -> None:
        self.name = name
        self.number = number
        self.numpy = np.dtype(numpy)
        self.is_float = is_float
        self._hash = hash(self.numpy)

    def __repr__(self) -> str:
        return f"onnxgrad.{self.name}"

    def __str__(self) -> str:
        return f"paddle.{self.name}"  # what Paddle prints; messages and records use the name

    def __eq__(self, other: object) -> builtins.bool:
        if self is other:
            return True
        if isinstance(other, DType):
            return self.number == other.number
        try:
            return self.number == dtype_of(other).number  # type: ignore[arg-type]
        except ArgumentTypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Callable[[int], DType], tuple[int]]:
        return from_onnx_number, (self.number,)  # numpy's hashes are those of this process

    @property
    def is_integer(self) -> builtins.bool:
        return (not self.is_float and self.numpy.kind in "iu") or self.name in _SMALL_INTEGERS

    @property
    def bits(self) -> int:
        return _BITS.get(self.name, int(self.numpy.itemsize) * 8)


_BITS = {"uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2, "int2": 2, "float6e2m3": 6, "float6e3m2": 6}
_SMALL_INTEGERS = ("uint4", "int4", "uint2", "int2")

_TABLE = [
    DType("float32", 1, np.float32, True),
    DType("uint8", 2, np.uint8, False),
    DType("int8", 3, np.int8, False),
    DType("uint16", 4, np.uint16, False),
    DType("int16", 5, np.int16, False),
    DType("int32", 6, np.int32, False),
    DType("int64", 7, np.int64, False),
    DType("string", 8, object, False),
    DType("bool", 9, np.bool_, False),
    DType("float16", 10, np.float16, True),
    DType("float64", 11, np.float64, True),
    DType("uint32", 12, np.uint32, False),
    DType("uint64", 13, np.uint64, False),
    DType("complex64", 14, np.complex64, False),
    DType("complex128", 15, np.complex128, False),
    DType("bfloat16", 16, ml_dtypes.bfloat16, True),
    DType("float8_e4m3fn", 17, ml_dtypes.float8_e4m3fn, True),
    DType("float8_e4m3fnuz", 18, ml_dtypes.float8_e4m3fnuz, True),
    DType("float8_e5m2", 19, ml_dtypes.float8_e5m2, True),
    DType("float8_e5m2fnuz", 20, ml_dtypes.float8_e5m2fnuz, True),
    DType("uint4", 21, ml_dtypes.uint4, False),
    DType("int4", 22, ml_dtypes.int4, False),
    DType("float4e2m1", 23, ml_dtypes.float4_e2m1fn, True),
    DType("float8_e8m0", 24, ml_dtypes.float8_e8m0fnu, True),
    DType("uint2", 25, ml_dtypes.uint2, False),
    DType("int2", 26, ml_dtypes.int2, False),
    DType("float6e2m3", 27, ml_dtypes.float6_e2m3fn, True),
    DType("float6e3m2", 28, ml_dtypes.float6_e3m2fn, True),
]
_BY_NUMBER = {entry.number: entry for entry in _TABLE}
_BY_NAME = {entry.name: entry for entry in _TABLE}
_BY_NAME.update(
    double=_BY_NAME["float64"],
    float=_BY_NAME["float32"],
    half=_BY_NAME["float16"],
    int=_BY_NAME["int64"],
    str=_BY_NAME["string"],
)
_BY_NUMPY = {entry.numpy: entry for entry in _TABLE}


@checked
def from_onnx_number(number: int) -> DType:
    """Element type for a value of ``TensorProto.DataType``.

    Args:
        number: of ``TensorProto.DataType``.
    """
    try:
        return _BY_NUMBER[number]
    except KeyError:
        raise ArgumentTypeError(f"ONNX element type {number} is not known; the known ones are 1 to 28.") from None


def dtype_of(value: str | DType | np.dtype[Any] | type[Any]) -> DType:
    """Element type for a name (``"float32"``), a numpy dtype or type, or a DType.

    Args:
        value: a name, a DType, or a dtype or type of numpy.

    Raises:
        UnknownDType: if there is no ONNX element type for it.

    Example:
        >>> dtype_of("bfloat16")
        onnxgrad.bfloat16
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        known = _BY_NAME.get(value.rsplit(".", 1)[-1])
        if known is not None:
            return known
    elif value is not None:  # which numpy takes for float64
        try:
            dtype = np.dtype(value)
        except TypeError:
            dtype = None
        if dtype is not None:
            known = _BY_NUMPY.get(dtype)
            if known is not None:
                return known
            if dtype.kind in "US":
                return _BY_NAME["string"]
    raise UnknownDType(f"{value!r} is not an ONNX element type. Use a name such as 'float32' or 'int64'.")


float16, float32, float64, bfloat16 = (dtype_of(name) for name in ("float16", "float32", "float64", "bfloat16"))
int8, int16, int32, int64 = (dtype_of(name) for name in ("int8", "int16", "int32", "int64"))
uint8, uint32, uint64 = (dtype_of(name) for name in ("uint8", "uint32", "uint64"))
bool = dtype_of("bool")
half, float, double = float16, float32, float64
dtype = DType

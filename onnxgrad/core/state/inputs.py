"""The one door for values: what a caller gives for an input, as an array of its type and shape, or an error that says why not.

Nothing is cast that could become another value:

- Integers and booleans become integers that hold them, and booleans where they are 0 and 1.
- Real numbers, integers and booleans become floating-point numbers, rounded, unless they are too large for the type.
- Floating-point numbers never become integers or booleans, and texts and None never become numbers.

Tests: tests/core/state/test_inputs.py.
"""

from __future__ import annotations

import array as buffers
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple, Protocol, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onnxgrad.core.state.values import array_of, view_of
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import DataError, FeedError, OnnxGradError, UnknownDType

__all__ = [
    "COLUMN",
    "FEED",
    "Door",
    "Given",
    "GivenByName",
    "Input",
    "as_array",
    "as_input",
    "check_classes",
    "check_shape",
    "converted",
    "is_ortvalue",
]

Array = np.ndarray[Any, Any]


class HoldsArray(Protocol):
    """A tensor of another package, or an OrtValue: what gives its elements as an array."""

    def numpy(self) -> Any: ...


Given: TypeAlias = "npt.ArrayLike | HoldsArray"
"""What may be given as a value: an array, a number, nested lists of numbers or of texts, an OrtValue, a tensor."""

GivenByName: TypeAlias = "Mapping[str, object]"
"""Such values by name. A dict of arrays of several element types that is made beforehand is one of ``object`` to a checker."""

_SATURATING = ("float4e2m1", "float6e2m3", "float6e3m2", "float8_e8m0")
"""Types without infinity, whose casts give another finite number for what they do not hold."""


class Input(Protocol):
    """What says how a value is to look: a variable, or an entry of a manifest; ``dims`` has an int where a dimension is known."""

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def dims(self) -> Sequence[Any] | None: ...


def check_shape(variable: Input, array: Array, door: Door) -> Array:
    """Check an array against the dimensions that are known, and return it.

    Raises:
        FeedError: if it has another shape; of the door's class.
    """
    _check_dims(variable, array.shape, door)
    return array


def _check_dims(variable: Input, shape: Sequence[int], door: Door) -> None:
    dims = variable.dims
    if dims is None:
        return
    if len(shape) == len(dims):
        for want, have in zip(dims, shape, strict=True):
            if want != have and isinstance(want, int):
                break
        else:
            return
    wanted = [dim if isinstance(dim, int) else -1 for dim in dims]
    raise door.error(f"{door.what} {variable.name!r} has shape {list(shape)}, {door.owner} takes {wanted}.")


class Door(NamedTuple):
    """Where values come in.

    Attributes:
        what: what a value is called there.
        owner: who takes it.
        error: what is raised.
        casts: whether numpy arrays of another type are converted too; what has no such type (numbers, lists) always is.
        lies: whether an OrtValue is taken where it lies, and not read.
        fit: gives an array the shape of the input, or refuses it.
    """

    what: str
    owner: str
    error: type[OnnxGradError] = FeedError
    casts: bool = True
    lies: bool = False
    fit: Callable[[Input, Array, Any], Array] = check_shape


FEED = Door("the feed", "the program", casts=False, lies=True)
COLUMN = Door("column", "the model", DataError)


def as_input(variable: Input, value: Any, door: Door = FEED) -> Any:
    """What was given for an input, as an array of its type and shape, its elements in order.

    Args:
        variable: the input: its ``name``, ``dtype`` and ``dims``.
        value: a number, nested lists, a numpy array or scalar, an OrtValue, or whatever has ``__array__``, ``__dlpack__`` or a
            buffer, as tensors of other libraries do.
        door: who asks, for the text and the class of errors.

    Returns:
        The array itself where it is as it must be, and an OrtValue as it lies; anything else is converted.

    Raises:
        FeedError: if it is of another kind, out of range, masked or of another shape; of the door's class.

    Example:
        >>> x = static.data("x", [None, 2], "uint8")
        >>> as_input(x, [[1, 255]])
        array([[  1, 255]], dtype=uint8)
        >>> as_input(x, [[1, 256]])
        Traceback (most recent call last):
        onnxgrad.errors.FeedError: the feed 'x' holds 256, which uint8 does not hold. Give values from 0 to 255.
    """
    dtype = variable.dtype
    wanted = dtype.numpy
    if value.__class__ is np.ndarray and value.dtype == wanted and wanted is not _OBJECT:
        array = value
    elif door.lies and is_ortvalue(value):
        if value.element_type() != dtype.number:
            raise door.error(
                f"{door.what} {variable.name!r} is a {value.data_type()}, {door.owner} takes {dtype.name}. Cast it before."
            )
        _check_dims(variable, value.shape(), door)
        return value
    else:
        array = _elements(variable, value, door)
    array = door.fit(variable, array, door)
    return array if array.flags.c_contiguous else np.array(array, order="C")


def _elements(variable: Input, value: Any, door: Door) -> Array:
    """The elements of anything but an OrtValue in the type of the input"""
    dtype, has_type = variable.dtype, isinstance(value, (np.ndarray, np.generic))
    array = as_array(value, variable.name, door, texts=dtype.name == "string")
    if has_type and not door.casts and array.dtype.newbyteorder("=") != dtype.numpy and not _is_text(array, dtype):
        raise door.error(
            f"{door.what} {variable.name!r} is {array.dtype}, {door.owner} takes {dtype.name}. Use .astype({dtype.name!r})."
        )
    return converted(array, dtype, variable.name, door)


def as_array(value: Any, name: str, door: Door, texts: bool = False) -> Array:
    """What was given as an array of its own type; with ``texts``, lists keep their elements as they are.

    Raises:
        FeedError: if it is masked, ragged, or nothing that has elements; of the door's class.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise door.error(f"{door.what} {name!r} has masked elements, which have no value. Fill them: .filled(number).")
    try:
        if isinstance(value, (np.ndarray, np.generic)):
            return np.asarray(value)
        if is_ortvalue(value):
            return array_of(value)
        if texts and isinstance(value, (list, tuple, str)):
            return np.asarray(value, object)
        if hasattr(value, "__array__") or isinstance(value, (Number, str, list, tuple, range, memoryview, buffers.array)):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except OnnxGradError:
        raise
    except Exception as error:
        # The reasons that numpy and tensors of other libraries give are of many classes.
        if isinstance(value, (list, tuple)):
            advice = "All lists of one level must be of one length"
        else:
            advice = "Give it as a numpy array"
        raise door.error(f"{door.what} {name!r}: a {type(value).__name__} gives no array: {error}. {advice}.") from error
    raise door.error(f"{door.what} {name!r} is a {type(value).__name__}, which has no elements. Give it as a numpy array.")


def check_classes(value: Any, name: str, classes: int, ignored: int | None, door: Door = FEED) -> None:
    """Check that labels, an array or OrtValue of integers, are classes from 0 or the label that does not count.

    Raises:
        FeedError: if one is another; of the door's class.
    """
    array = value if value.__class__ is np.ndarray else view_of(value)
    if not array.size:
        return
    words = _WORDS.get(array.dtype.itemsize)
    if words is not None:
        # As numbers without sign, those below 0 are large ones. To find the largest takes a third of the time that max does.
        numbers = array.view(words)
        if numbers.item(numbers.argmax()) < classes:
            return
    wrong = (array < 0) | (array >= classes)
    if ignored is not None:
        wrong &= array != ignored
    if wrong.any():
        label = int(array[wrong].reshape(-1)[0])
        besides = "" if ignored is None else f", or {ignored} for ignored elements"
        raise door.error(
            f"{door.what} {name!r} holds the label {label}; the loss that reads it has {classes} classes. "
            f"Give labels from 0 to {classes - 1}{besides}."
        )


_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def converted(array: Array, dtype: DType, name: str, door: Door) -> Array:
    """An array in another type that holds its values, by the rules of this module; the array itself where it has that type.

    Raises:
        FeedError: if a value would become another; of the door's class.
    """
    if dtype.name == "string":
        return _texts(array, name, door)
    source = _type_of(array.dtype)
    if source is dtype:
        return array if array.dtype == dtype.numpy else array.astype(dtype.numpy)
    if source is None or not _keeps_kind(source, dtype):
        raise door.error(f"{door.what} {name!r} is {_shown(array)}, {door.owner} takes {dtype.name}. Convert it.")
    if dtype.is_integer or dtype.name == "bool":
        if source.bits < 8:
            array = array.astype(np.int8)
        _check_range(array, dtype, name, door)
        return array.astype(dtype.numpy)
    with np.errstate(all="ignore"):
        result = array.astype(dtype.numpy)
    wrong = _changed(array, result, source, dtype)
    if wrong is not None:
        raise door.error(
            f"{door.what} {name!r} holds {wrong}, which {dtype.name} does not hold. Scale the values, or use another type."
        )
    return result


_OBJECT = np.dtype(object)


def is_ortvalue(value: Any) -> bool:
    """Return whether a value is one of onnxruntime's."""
    return callable(getattr(value, "device_name", None))


def _is_text(array: Array, dtype: DType) -> bool:
    return dtype.name == "string" and array.dtype.kind in "OU"


def _type_of(dtype: Any) -> DType | None:
    try:
        known = dtype_of(dtype.newbyteorder("="))
    except UnknownDType:
        return None
    return None if known.name == "string" else known


def _shown(array: Array) -> str:
    """What an array holds, for a message"""
    if array.dtype.kind == "O":
        held = next((type(item).__name__ for item in array.flat if not isinstance(item, (int, float))), "")
        return f"an array of objects ({held or 'numbers that are too large'})"
    return str(array.dtype)


def _keeps_kind(source: DType, dtype: DType) -> bool:
    """Whether numbers of a type may become those of another: real ones complex, integers real, but nothing the other way round"""
    order = [_rank(source), _rank(dtype)]
    return order == sorted(order)


def _rank(dtype: DType) -> int:
    return 0 if dtype.is_integer or dtype.name == "bool" else 1 if dtype.is_float else 2


def _check_range(array: Array, dtype: DType, name: str, door: Door) -> None:
    if not array.size or array.dtype.kind == "b":
        return
    low, high = (0, 1) if dtype.name == "bool" else _bounds(dtype)
    least, most = int(array.min()), int(array.max())
    if least < low or most > high:
        wrong = least if least < low else most
        raise door.error(f"{door.what} {name!r} holds {wrong}, which {dtype.name} does not hold. Give values from {low} to {high}.")


def _bounds(dtype: DType) -> tuple[int, int]:
    limits = ml_dtypes.iinfo(dtype.numpy)  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max)


def _changed(array: Array, result: Array, source: DType, dtype: DType) -> Any:
    """The first value that has become infinite or not a number, or has lost being so; None if there is none"""
    if dtype.name not in _SATURATING and bool(np.isfinite(result).all()):
        # float8_e4m3fn and the like have no infinity, but what they do not hold is not a number.
        return None
    real = array.astype(np.complex128 if _rank(dtype) == 2 else np.float64)
    back = result.astype(real.dtype)
    wrong = (np.isnan(real) != np.isnan(back)) | (np.isinf(real) != np.isinf(back))
    if dtype.name in _SATURATING:
        limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
        wrong |= (real > float(limits.max)) | (real < float(limits.min)) | ((real == 0) & (back != 0))
    return array.reshape(-1)[int(np.argmax(wrong.reshape(-1)))].item() if wrong.any() else None


def _texts(array: Array, name: str, door: Door) -> Array:
    if array.dtype.kind == "U":
        return array.astype(object)
    other = array.dtype if array.dtype.kind != "O" else next((type(t).__name__ for t in array.flat if not isinstance(t, str)), None)
    if other is not None:
        raise door.error(f"{door.what} {name!r} holds {other}, {door.owner} takes texts. Give strings.")
    return array

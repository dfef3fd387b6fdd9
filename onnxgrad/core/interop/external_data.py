"""Weights stored beside the model file: read when looked at, never from outside the model's folder.

Tests: tests/core/interop/test_external_layouts.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto, numpy_helper

from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.dtypes import from_onnx_number
from onnxgrad.errors import ExternalDataError, ModelError
from onnxgrad.internal.files import is_file

__all__ = ["embed", "is_external", "sparse_tensor", "stored_tensor"]


def is_external(proto: object) -> bool:
    """Whether the message of a tensor, also of a sparse one, names a file that holds its content."""
    if isinstance(proto, SparseTensorProto):
        return is_external(proto.values) or is_external(proto.indices)
    return isinstance(proto, TensorProto) and proto.data_location == TensorProto.EXTERNAL


def embed(proto: TensorProto, tensor: TensorValue) -> None:
    """Put the content of an external file, which the tensor reads, into the message."""
    array = tensor.numpy()
    del proto.external_data[:]
    proto.data_location = TensorProto.DEFAULT
    proto.raw_data = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape)).raw_data


def stored_tensor(proto: TensorProto, folder: Path | None) -> TensorValue:
    """A tensor backed by its message; external data is checked now and read later.

    Raises:
        ExternalDataError: if the location leaves the model's folder or the file is missing or short.
        ModelError: if the element type is unknown.
    """
    try:
        dtype = from_onnx_number(proto.data_type)
    except TypeError as error:
        raise ModelError(f"tensor {proto.name!r}: {error}") from error
    shape = tuple(proto.dims)
    load = _external_loader(proto, folder) if is_external(proto) else _inline_loader(proto)
    return TensorValue(dtype, shape, None, load, origin=proto)


def sparse_tensor(proto: SparseTensorProto, folder: Path | None) -> TensorValue:
    """The dense form of a sparse tensor, backed by its message.

    Raises:
        ModelError: if the positions do not fit the shape; ExternalDataError as for a dense one.
    """
    values, positions = stored_tensor(proto.values, folder), stored_tensor(proto.indices, folder)
    shape = tuple(proto.dims)

    def load() -> np.ndarray[Any, Any]:
        where = positions.numpy()
        index = tuple(where.T) if where.ndim == 2 else np.unravel_index(where, shape)
        dense = np.zeros(shape, values.dtype.numpy)
        dense[index] = values.numpy()
        return dense

    where = positions.numpy()
    bounds = np.array(shape if where.ndim == 2 else math.prod(shape), dtype=np.int64)
    if (where < 0).any() or (where >= bounds).any():
        raise ModelError(f"sparse tensor {proto.values.name!r}: its positions do not fit its shape {list(shape)}.")
    return TensorValue(values.dtype, shape, None, load, origin=proto)


def _inline_loader(proto: TensorProto) -> Callable[[], np.ndarray[Any, Any]]:
    def load() -> np.ndarray[Any, Any]:
        try:
            return numpy_helper.to_array(proto)
        except (ValueError, TypeError) as error:
            raise ModelError(f"tensor {proto.name!r} is damaged: {error}. Fetch the file again.") from error

    return load


def _external_loader(proto: TensorProto, folder: Path | None) -> Callable[[], np.ndarray[Any, Any]]:
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ExternalDataError(
            f"tensor {proto.name!r} is stored in the file {location!r}, but the model was given as bytes. Load it by its path."
        )
    path = _resolved(folder, location)
    if path is None:
        raise ExternalDataError(
            f"tensor {proto.name!r} points to {location!r}, outside the model's folder. "
            "Move the weights beside the model file and correct the location."
        )
    dtype = from_onnx_number(proto.data_type)
    if dtype.name == "string":
        raise ExternalDataError(f"tensor {proto.name!r}: texts cannot be stored in an external file. Store it in the model.")
    needed = bytes_needed(dtype, proto.dims)
    offset, length = (_number(proto, entries, key, default) for key, default in (("offset", 0), ("length", needed)))
    if not is_file(path):
        raise ExternalDataError(f"tensor {proto.name!r}: its file {location!r} is missing. Copy it beside the model.")
    if length < needed or path.stat().st_size < offset + needed:
        raise ExternalDataError(f"tensor {proto.name!r}: {location!r} is too short. It may be cut off; fetch it again.")

    def load() -> np.ndarray[Any, Any]:
        raw = np.memmap(path, np.uint8, "r", offset, (needed,)) if needed else np.zeros(0, np.uint8)
        if dtype.bits >= 8:
            return np.asarray(raw.view(dtype.numpy).reshape(tuple(proto.dims)))
        whole = TensorProto(data_type=proto.data_type, dims=list(proto.dims), raw_data=raw.tobytes())
        return numpy_helper.to_array(whole)

    return load


def _resolved(folder: Path, location: str) -> Path | None:
    """The file that a location means, or None if it is not within the folder"""
    if not location or "\0" in location or Path(location).is_absolute():
        return None
    try:
        path = (folder / location).resolve()
        return path if path.is_relative_to(folder.resolve()) else None
    except (OSError, RuntimeError):
        return None  # a circle of links, or a name longer than names may be


def _number(proto: TensorProto, entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ExternalDataError(
            f"tensor {proto.name!r}: the {key} {text!r} of its external data is not a number. Fetch the file again."
        )
    return int(text)

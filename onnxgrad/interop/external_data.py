"""Weights stored beside the model file: read when looked at, never from outside the model's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto, numpy_helper

from onnxgrad.dtypes import from_onnx_number
from onnxgrad.errors import ExternalDataError, ModelError
from onnxgrad.ir.tensor import Tensor

__all__ = ["is_external", "pack_external", "sparse_tensor", "stored_tensor"]


def is_external(proto: TensorProto) -> bool:
    return proto.data_location == TensorProto.EXTERNAL


def stored_tensor(proto: TensorProto, folder: Path | None) -> Tensor:
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
    return Tensor(dtype, shape, None, load, origin=proto)


def sparse_tensor(proto: SparseTensorProto, folder: Path | None) -> Tensor:
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

    try:
        load()
    except (IndexError, ValueError) as error:
        raise ModelError(f"sparse tensor {proto.values.name!r}: its positions do not fit its shape {list(shape)}.") from error
    return Tensor(values.dtype, shape, None, load, origin=proto)


def _inline_loader(proto: TensorProto) -> Callable[[], np.ndarray[Any, Any]]:
    def load() -> np.ndarray[Any, Any]:
        try:
            return numpy_helper.to_array(proto)
        except (ValueError, TypeError) as error:
            raise ModelError(f"tensor {proto.name!r} is damaged: {error}. Get the file anew.") from error

    return load


def _external_loader(proto: TensorProto, folder: Path | None) -> Callable[[], np.ndarray[Any, Any]]:
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ExternalDataError(
            f"tensor {proto.name!r} is stored in the file {location!r}, but the model was given as bytes. Load it by its path."
        )
    path = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not path.is_relative_to(folder.resolve()):
        raise ExternalDataError(
            f"tensor {proto.name!r} points to {location!r}, outside the model's folder. "
            "Move the weights beside the model file and correct the location."
        )
    dtype = from_onnx_number(proto.data_type)
    count = int(np.prod(tuple(proto.dims), dtype=np.int64))
    offset = int(entries.get("offset", 0))
    needed = (count * dtype.bits + 7) // 8
    length = int(entries.get("length", needed))
    if not path.is_file():
        raise ExternalDataError(f"tensor {proto.name!r}: its file {location!r} is missing. Copy it beside the model.")
    if length < needed or path.stat().st_size < offset + needed:
        raise ExternalDataError(f"tensor {proto.name!r}: {location!r} is too short. It may be cut off; get it anew.")

    def load() -> np.ndarray[Any, Any]:
        raw = np.memmap(path, np.uint8, "r", offset, (needed,)) if needed else np.zeros(0, np.uint8)
        if dtype.bits >= 8:
            return np.asarray(raw.view(dtype.numpy).reshape(tuple(proto.dims)))
        whole = TensorProto(data_type=proto.data_type, dims=list(proto.dims), raw_data=raw.tobytes())
        return numpy_helper.to_array(whole)

    return load


def pack_external(protos: list[TensorProto], arrays: list[bytes], target: Path, location: str) -> None:
    """Write the bytes of several tensors into one file, each at a multiple of 4096, and point the messages to it."""
    with target.open("wb") as file:
        for proto, data in zip(protos, arrays, strict=True):
            file.write(b"\0" * (-file.tell() % 4096))
            start = file.tell()
            file.write(data)
            name, doc = proto.name, proto.doc_string
            dims, data_type = list(proto.dims), proto.data_type
            proto.Clear()
            proto.name, proto.doc_string, proto.data_type = name, doc, data_type
            proto.dims.extend(dims)
            proto.data_location = TensorProto.EXTERNAL
            for key, value in (("location", location), ("offset", str(start)), ("length", str(len(data)))):
                entry = proto.external_data.add()
                entry.key, entry.value = key, value

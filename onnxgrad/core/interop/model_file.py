"""Model files, written tensor by tensor: beside the weights that are held anyway, one at a time is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, numpy_helper

from onnxgrad.core.interop.external_data import is_external
from onnxgrad.core.interop.messages import bodies_of
from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.dtypes import from_onnx_number
from onnxgrad.errors import ExternalDataError
from onnxgrad.internal.files import writing

__all__ = ["Stored", "bytes_of_array", "files_read_by", "fits_message", "write_model_file"]

_EXTERNAL_THRESHOLD = 1024
_LARGEST_MESSAGE = 2**31 - 2**20
_ALIGNMENT = 4096
# Wire format of protocol buffers: the numbers of ModelProto.graph, GraphProto.initializer and TensorProto.raw_data, each a field
# with a length.
_GRAPH, _INITIALIZER, _RAW_DATA = (bytes([number << 3 | 2]) for number in (7, 5, 9))


class Stored(NamedTuple):
    """An initializer of the main graph, which is read when its turn to be written comes.

    ``header`` is its message without content, or all of it where ``read`` is None; the content has ``size`` bytes.
    """

    header: TensorProto
    size: int = 0
    read: Callable[[], Any] | None = None

    @property
    def length(self) -> int:
        """Bytes of the message with its content."""
        head: int = self.header.ByteSize()
        return head if self.read is None else head + len(_RAW_DATA) + len(_number(self.size)) + self.size


def fits_message(size: int) -> bool:
    """Whether a message can hold this many bytes of weights."""
    return size <= _LARGEST_MESSAGE


def bytes_of_array(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of an array's elements, row by row, lowest byte first; without a copy where they lie so."""
    laid = np.ascontiguousarray(array)
    if laid.dtype.byteorder == ">":
        laid = laid.astype(laid.dtype.newbyteorder("<"))
    return laid.reshape(-1).view(np.uint8).data


def files_read_by(path: str | Path) -> list[str]:
    """List the files in its folder that a model file reads weights from, in the order in which it names them."""
    graph = onnx.load(path, load_external_data=False).graph
    tensors = [t for t in (*graph.initializer, *_tensors_of_nodes(graph)) if is_external(t)]
    return list(dict.fromkeys(entry.value for t in tensors for entry in t.external_data if entry.key == "location"))


def write_model_file(
    model: ModelProto, tensors: list[Stored], path: Path, source: Path | None, *, keeps: bool = False, copies: bool = False
) -> None:
    """Write a model and the initializers of its main graph, in this order, under temporary names first.

    Args:
        model: without these initializers; its graph's are then replaced by them.
        tensors: what is stored in files of the folder ``source`` is left there if ``path`` is in it.
        path: of the model. What a message cannot hold, and what would be out of reach, goes to ``<path>.data``.
        source: the folder that the model was loaded from.
        keeps: whether what is stored in files must be left there, though other values go to ``<path>.data``.
        copies: whether what is stored in files goes to ``<path>.data``, wherever they are.

    Raises:
        FileError: if a file cannot be written; ExternalDataError if a weight cannot be read, or not be left where it is.
    """
    inner = list(_tensors_of_nodes(model.graph))
    outside = any(is_external(t) for t in (*(s.header for s in tensors), *inner))
    moved = outside and (copies or source is None or source.resolve() != path.parent.resolve())
    if moved and keeps and source is not None:
        tensors = [Stored(_referred(s.header, source, path.parent), s.size, s.read) for s in tensors]
        for t in inner:
            t.CopyFrom(_referred(t, source, path.parent))
        moved, source = False, path.parent
    with ExitStack() as stack:
        # Both files are there before either gets its name.
        file = stack.enter_context(writing(path))
        if moved or sum(s.length for s in tensors) + sum(t.ByteSize() for t in inner) > _LARGEST_MESSAGE:
            beside = _Beside(stack.enter_context(writing(path.with_name(path.name + ".data"))), path.name + ".data", source, keeps)
            tensors = [beside.take(s) for s in tensors]
            for t in inner:
                t.CopyFrom(beside.take(Stored(t)).header)
        _stream(model, tensors, file)


def _referred(tensor: TensorProto, source: Path, folder: Path) -> TensorProto:
    """The message of a tensor whose file is named from another folder."""
    if not is_external(tensor):
        return tensor
    proto = TensorProto()
    proto.CopyFrom(tensor)
    for entry in proto.external_data:
        if entry.key == "location":
            file = (source / entry.value).resolve()
            if not file.is_relative_to(folder.resolve()):
                message = f"tensor {tensor.name!r} cannot be left in {str(file)!r}: a model refers to files in its own folder"
                raise ExternalDataError(f"{message}. Save the model in {str(source)!r}, or leave external_data out.")
            entry.value = file.relative_to(folder.resolve()).as_posix()
    return proto


def _stream(model: ModelProto, tensors: list[Stored], file: BinaryIO) -> None:
    """Write the message field by field: onnx's own way needs it in memory twice, and ends at 2 GB."""
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    file.write(model.SerializeToString())
    file.write(_GRAPH + _number(len(graph) + sum(len(_INITIALIZER) + len(_number(s.length)) + s.length for s in tensors)))
    file.write(graph)
    for stored in tensors:
        file.write(_INITIALIZER + _number(stored.length))
        file.write(stored.header.SerializeToString())
        if stored.read is not None:
            file.write(_RAW_DATA + _number(stored.size))
            file.write(stored.read())


def _number(value: int) -> bytes:
    """A length, seven bits to a byte, the lowest first"""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


class _Beside:
    """The file beside the model: each tensor begins at a multiple of 4096."""

    def __init__(self, file: BinaryIO, location: str, source: Path | None, keeps: bool) -> None:
        self.file, self.location, self.source, self.keeps = file, location, source, keeps

    def take(self, stored: Stored) -> Stored:
        """Write the content of a tensor, unless it is short, and return the message that the model keeps."""
        header, read = stored.header, stored.read
        if not is_external(header) and (stored.length <= _EXTERNAL_THRESHOLD or header.data_type == TensorProto.STRING):
            return stored
        if is_external(header) and self.keeps and not self._replaces(header):
            return stored
        content = _content_of(header, self.source) if read is None else read()
        self.file.write(b"\0" * (-self.file.tell() % _ALIGNMENT))
        start = self.file.tell()
        self.file.write(content)
        proto = TensorProto(name=header.name, doc_string=header.doc_string, data_type=header.data_type, dims=header.dims)
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.location), ("offset", start), ("length", self.file.tell() - start)):
            proto.external_data.add(key=key, value=str(value))
        return Stored(proto)

    def _replaces(self, header: TensorProto) -> bool:
        """Return whether a tensor is stored in the file that this one replaces"""
        locations = [entry.value for entry in header.external_data if entry.key == "location"]
        return (
            self.source is None
            or locations == []
            or (self.source / locations[0]).resolve() == (self.source / self.location).resolve()
        )


def _content_of(tensor: TensorProto, folder: Path | None) -> Any:
    if not is_external(tensor):
        return tensor.raw_data or _bytes_of_typed(tensor)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if folder is None:
        raise ExternalDataError(
            f"tensor {tensor.name!r} is stored in an external file, and the folder of the model is not known. Load the "
            "model by path."
        )
    try:
        with (folder / entries["location"]).open("rb") as file:
            file.seek(int(entries.get("offset", 0)))
            return file.read(bytes_needed(from_onnx_number(tensor.data_type), tensor.dims))
    except OSError as error:
        reason = error.strerror or error
        raise ExternalDataError(f"tensor {tensor.name!r}: cannot read {entries['location']!r}: {reason}.") from error


def _bytes_of_typed(tensor: TensorProto) -> bytes:
    """The content of a message with typed data, as raw data would be."""
    array = numpy_helper.to_array(tensor)
    return bytes(numpy_helper.from_array(array).raw_data)


def _tensors_of_nodes(graph: GraphProto) -> Iterable[TensorProto]:
    """Yield the tensors that constants and bodies hold, and sparse ones"""
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for body in bodies_of(attribute):
                yield from body.initializer
                yield from _tensors_of_nodes(body)

"""Safetensors files with checksums: what is read is what was written, or a ModelError says what is damaged.

A file may name others beside it, which several processes have written: each has ranges of the elements of further tensors, or
a term of each.

Tests: tests/internal/test_files.py, tests/training/test_damaged_checkpoints.py, tests/distributed/test_shard_files.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, FileError, ModelError, OnnxGradError, TrainingError
from onnxgrad.internal.files import writing

__all__ = [
    "SHARDS",
    "ShardedTensor",
    "TensorFile",
    "damaged",
    "read_metadata",
    "read_tensors",
    "shard_files",
    "sum_of",
    "write_ranges",
    "write_tensors",
]

Array = np.ndarray[Any, Any]

CHECKSUMS = "checksums"
SHARDS = "shards"
"""The entry of a file that names the others with ranges of further tensors, or terms whose sums these are, and what these are."""
_STARTS = "starts"
_LENGTH = 32  # digits: 128 bits
_ADVICE = "Use another checkpoint of the run, or an intact copy of this one"
_DTYPES = {
    **{f"{kind}{bits}": f"{name}{bits}" for kind, name in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)},
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0",
    "C64": "complex64",
}
_NAMES = {name: written for written, name in _DTYPES.items()}


class ShardedTensor:
    """A tensor that lies in several files: ranges of its elements, or terms whose sum it is. It is put together when it is read.

    Args:
        name: for messages.
        shape, dtype: of the tensor.
        terms: one where each file has a range; else one for each file.

    Attributes:
        shape, dtype: of the tensor.
        terms: rows whose ranges are all of the tensor, for each term.
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], terms: Sequence[Sequence[_Row]]) -> None:
        self.name, self.shape, self.dtype, self.terms = name, shape, dtype, terms

    def range(self, start: int, stop: int, terms: Iterable[int] | None = None) -> Array:
        """A copy of some elements, in the order in which they lie; only files that have some of them are read.

        Args:
            start, stop: of the elements.
            terms: numbers of the terms that are added up; None for all.

        Raises:
            ModelError: if they do not fit their checksums.
        """
        elements: Array | None = None
        for number in range(len(self.terms)) if terms is None else terms:
            term = self._range_of(self.terms[number], start, stop)
            elements = term if elements is None else np.add(elements, term, out=elements)
        return np.zeros(stop - start, self.dtype) if elements is None else elements

    def _range_of(self, rows: Sequence[_Row], start: int, stop: int) -> Array:
        elements = np.empty(stop - start, self.dtype)
        for row in rows:
            first, last = max(start, row.start), min(stop, row.start + row.array.size)
            if first < last:
                if row.checksum is not None and _checksum(self.name, row.array) != row.checksum:
                    raise damaged(row.path, f"the tensor {self.name!r} does not fit its checksum")
                elements[first - start : last - start] = row.array[first - row.start : last - row.start]
        return elements

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.range(0, prod(self.shape)).reshape(self.shape)
        return array if dtype is None else array.astype(dtype)


def sum_of(name: str, arrays: Sequence[Array]) -> ShardedTensor:
    """The sum of some arrays as a tensor of as many terms.

    Args:
        name: of the tensor.
        arrays: of one shape and dtype.
    """
    terms = [[_Row(Path(), 0, array.reshape(-1), None)] for array in arrays]
    return ShardedTensor(name, arrays[0].shape, arrays[0].dtype, terms)


class _Row(NamedTuple):
    """Elements of a tensor in a file, from ``start`` on."""

    path: Path
    start: int
    array: Array
    checksum: str | None


@dataclass(frozen=True)
class TensorFile:
    """Arrays and strings of a file; ``checked`` if it held checksums, which older files lack.

    Of a tensor in several files there is a ``ShardedTensor``.
    """

    path: str
    arrays: dict[str, Any]
    metadata: dict[str, str]
    checked: bool


def damaged(path: str | Path, what: str) -> ModelError:
    """The error for a file that is not as it was written."""
    return ModelError(f"{str(path)!r} is damaged: {what}. {_ADVICE}.")


def write_tensors(path: str | Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays, strings and a checksum of each, under a temporary name first.

    Args:
        arrays: looked up by name one after another, twice, and not kept; so it need not hold them.

    Raises:
        ArgumentError: if ``metadata`` has an entry ``checksums``.
        TrainingError: if the file cannot be written; an old file of that name is then untouched.
    """
    if CHECKSUMS in (metadata or {}):
        raise ArgumentError(f"metadata cannot have an entry {CHECKSUMS!r}, which the file uses itself. Give it another name.")
    layouts: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    sums: dict[str, str] = {}
    for name in arrays:
        array = _laid(arrays[name])
        layouts[name], sums[name] = (array.dtype, array.shape), _checksum(name, array)
        del array  # before the next one is there
    entries: dict[str, dict[str, Any]] = {}
    end = 0
    for name, (dtype, shape) in sorted(layouts.items(), key=lambda item: (-item[1][0].itemsize, item[0])):
        start, end = end, end + dtype.itemsize * prod(shape)
        entries[name] = {"dtype": _NAMES[dtype_of(dtype).name], "shape": shape, "data_offsets": [start, end]}
    strings = dict(metadata or {})
    checksums = json.dumps({"tensors": sums, "metadata": _checksum_of_strings(strings)})
    header = json.dumps({"__metadata__": {**strings, CHECKSUMS: checksums}, **entries}).encode()
    header += b" " * (-len(header) % 8)
    try:
        with writing(Path(path)) as file:
            file.write(len(header).to_bytes(8, "little") + header)
            for name in entries:
                file.write(_laid(arrays[name]).reshape(-1).view(np.uint8).data)
    except FileError as error:
        raise TrainingError(f"{error} The old file is unchanged.") from error


def _laid(array: Array) -> Array:
    """The elements row by row; without a copy where they lie so"""
    return np.ascontiguousarray(array).reshape(array.shape)


def read_tensors(path: str | Path) -> TensorFile:
    """Read a file and compare its checksums, if it has any. The arrays lie in the file, not in memory.

    Raises:
        ModelError: if it cannot be read, or is damaged.
    """
    arrays, strings = _opened(path)
    metadata, sums = _checked_strings(path, strings)
    sharded = _sharded(Path(path), metadata.pop(SHARDS)) if SHARDS in metadata else {}
    if sums is None:
        return TensorFile(str(path), {**arrays, **sharded}, metadata, checked=False)
    _check_names(path, arrays, sums)
    for name, array in arrays.items():
        if _checksum(name, array) != sums[name]:
            raise damaged(path, f"the tensor {name!r} does not fit its checksum")
    return TensorFile(str(path), {**arrays, **sharded}, metadata, checked=True)


def _opened(path: str | Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a file, which lie in it, and its strings"""
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(str(path), framework="numpy"):
            pass  # the header is sound and fits the size of the file
        with open(path, "rb") as file:
            content = np.frombuffer(mmap(file.fileno(), 0, access=ACCESS_READ), np.uint8)
        start = 8 + int.from_bytes(content[:8].tobytes(), "little")
        header = json.loads(content[8:start].tobytes())
        strings = dict(header.pop("__metadata__", None) or {})
        return {name: _array(entry, content[start:]) for name, entry in header.items()}, strings
    except Exception as error:
        raise ModelError(f"{str(path)!r} is not a readable checkpoint: {error}") from error


def _check_names(path: str | Path, arrays: Mapping[str, Array], sums: Mapping[str, str]) -> None:
    for name in sorted(arrays.keys() ^ sums.keys()):
        raise damaged(path, f"the tensor {name!r} {'has no checksum' if name in arrays else 'is missing'}")


def write_ranges(path: str | Path, rows: Mapping[str, Array], starts: Mapping[str, int]) -> None:
    """Write ranges of elements to a file beside the one that names it, under a temporary name first.

    Args:
        rows: by the name of the tensor.
        starts: how many elements of the tensor lie before each.

    Raises:
        TrainingError: if the file cannot be written.
    """
    write_tensors(path, rows, {_STARTS: json.dumps(dict(starts))})


def shard_files(path: Path) -> list[str]:
    """Names of the files beside a file that have ranges of its tensors; none where it cannot be read."""
    try:
        return [str(name) for name in json.loads(read_metadata(path)[SHARDS])["files"]]
    except (KeyError, TypeError, ValueError, ModelError):
        return []


def _sharded(path: Path, entry: str) -> dict[str, ShardedTensor]:
    """The tensors whose ranges lie in other files"""
    rows: dict[str, list[_Row]] = {}
    try:
        named = json.loads(entry)
        files = [str(name) for name in named["files"]]
        tensors, sums = _layouts(named["tensors"]), _layouts(named.get("sums", {}))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, f"its entry {SHARDS!r} cannot be read") from error
    for name in files:
        shard = path.with_name(name)
        if shard.name != name or not shard.is_file():
            raise ModelError(f"{str(path)!r} has a part in {name!r}, which is not beside it. Copy all files of the checkpoint.")
        arrays, strings = _opened(shard)
        metadata, checksums = _checked_strings(shard, strings)
        _check_names(shard, arrays, checksums or {})
        starts = json.loads(metadata.get(_STARTS, "{}"))
        for tensor, array in arrays.items():
            rows.setdefault(tensor, []).append(_Row(shard, int(starts[tensor]), array, (checksums or {})[tensor]))
    sharded: dict[str, ShardedTensor] = {}
    for tensor, (shape, dtype) in {**tensors, **sums}.items():
        own = rows.get(tensor, [])
        terms = [[row] for row in own] if tensor in sums else [sorted(own, key=lambda row: row.start)]
        count = len(files) if tensor in sums else 1
        if len(terms) != count or not all(_are_whole(term, prod(shape), dtype) for term in terms):
            raise damaged(path, f"the ranges of the tensor {tensor!r} are not all there")
        sharded[tensor] = ShardedTensor(tensor, shape, dtype, terms)
    return sharded


def _layouts(entry: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    return {name: (tuple(map(int, shape)), np.dtype(dtype_of(dtype).numpy)) for name, (dtype, shape) in entry.items()}


def _are_whole(rows: Sequence[_Row], size: int, dtype: np.dtype[Any]) -> bool:
    """Whether ranges in order are so many elements, each of them once"""
    end = 0
    for row in rows:
        if row.start != end or row.array.dtype != dtype:
            return False
        end += row.array.size
    return end == size


def read_metadata(path: str | Path) -> dict[str, str]:
    """The strings stored in a file.

    Raises:
        ModelError: if it cannot be read, or they are damaged.
    """
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(str(path), framework="numpy") as file:
            strings = dict(file.metadata() or {})
    except Exception as error:
        raise ModelError(f"{str(path)!r} is not a readable checkpoint: {error}") from error
    return _checked_strings(path, strings)[0]


def _checked_strings(path: str | Path, strings: dict[str, str]) -> tuple[dict[str, str], dict[str, str] | None]:
    """The strings without the checksums, and the checksums of the tensors, None in an older file"""
    if CHECKSUMS not in strings:
        return strings, None
    metadata = {name: text for name, text in strings.items() if name != CHECKSUMS}
    try:
        entry = json.loads(strings[CHECKSUMS])
        sums, own = dict(entry["tensors"]), entry["metadata"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(path, f"its entry {CHECKSUMS!r} cannot be read") from error
    if own != _checksum_of_strings(metadata):
        raise damaged(path, f"its metadata ({', '.join(sorted(metadata)) or 'none'}) does not fit its checksum")
    return metadata, sums


def _checksum(name: str, array: Array) -> str:
    digest = hashlib.sha256(f"{name}\0{array.dtype.name}\0{array.shape}\0".encode())
    digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:_LENGTH]


def _checksum_of_strings(strings: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(strings.items())).encode()).hexdigest()[:_LENGTH]


def _array(entry: Mapping[str, Any], content: Array) -> Array:
    """numpy has no names for the 16-bit and 8-bit formats that safetensors' own reader would look up there"""
    start, end = entry["data_offsets"]
    return np.asarray(content[start:end].view(dtype_of(_DTYPES[entry["dtype"]]).numpy).reshape(entry["shape"]))


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise OnnxGradError("checkpoints need the package safetensors. Install onnxgrad[training].") from error
    return safetensors

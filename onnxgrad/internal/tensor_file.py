"""Safetensors files with checksums: what is read is what was written, or a ModelError says what is damaged.

Tests: tests/internal/test_files.py, tests/training/test_damaged_checkpoints.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, FileError, ModelError, OnnxGradError, TrainingError
from onnxgrad.internal.files import writing

__all__ = ["TensorFile", "damaged", "read_metadata", "read_tensors", "write_tensors"]

Array = np.ndarray[Any, Any]

CHECKSUMS = "checksums"
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


@dataclass(frozen=True)
class TensorFile:
    """Arrays and strings of a file; ``checked`` if it held checksums, which older files lack."""

    path: str
    arrays: dict[str, Array]
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
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(str(path), framework="numpy"):
            pass  # the header is sound and fits the size of the file
        with open(path, "rb") as file:
            content = np.frombuffer(mmap(file.fileno(), 0, access=ACCESS_READ), np.uint8)
        start = 8 + int.from_bytes(content[:8].tobytes(), "little")
        header = json.loads(content[8:start].tobytes())
        strings = dict(header.pop("__metadata__", None) or {})
        arrays = {name: _array(entry, content[start:]) for name, entry in header.items()}
    except Exception as error:
        raise ModelError(f"{str(path)!r} is not a readable checkpoint: {error}") from error
    metadata, sums = _checked_strings(path, strings)
    if sums is None:
        return TensorFile(str(path), arrays, metadata, checked=False)
    for name in sorted(arrays.keys() ^ sums.keys()):
        raise damaged(path, f"the tensor {name!r} {'has no checksum' if name in arrays else 'is missing'}")
    for name, array in arrays.items():
        if _checksum(name, array) != sums[name]:
            raise damaged(path, f"the tensor {name!r} does not fit its checksum")
    return TensorFile(str(path), arrays, metadata, checked=True)


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

"""Safetensors files with checksums: what is read is what was written, or a ModelError says what is damaged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ModelError, OnnxGradError
from onnxgrad.training.folder import write_atomically

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

    Raises:
        ArgumentError: if ``metadata`` has an entry ``checksums``.
        TrainingError: if the file cannot be written; an old file of that name is then untouched.
    """
    if CHECKSUMS in (metadata or {}):
        raise ArgumentError(f"metadata cannot have an entry {CHECKSUMS!r}, which the file uses itself. Give it another name.")
    whole = {name: np.array(array, order="C") if array.ndim == 0 else np.ascontiguousarray(array) for name, array in arrays.items()}
    sums = {name: _checksum(name, array) for name, array in whole.items()}
    strings = dict(metadata or {})
    entry = json.dumps({"tensors": sums, "metadata": _checksum_of_strings(strings)})
    write_atomically(Path(path), _safetensors().numpy.save(whole, {**strings, CHECKSUMS: entry}))


def read_tensors(path: str | Path) -> TensorFile:
    """Read a file and compare its checksums, if it has any.

    Raises:
        ModelError: if it cannot be read, or is damaged.
    """
    safetensors = _safetensors()
    try:
        content = Path(path).read_bytes()
        arrays = {name: _array(entry) for name, entry in safetensors.deserialize(content)}
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        strings = dict(header.get("__metadata__") or {})
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


def _array(entry: Mapping[str, Any]) -> Array:
    """numpy has no names for the 16-bit and 8-bit formats that safetensors' own reader would look up there"""
    return np.frombuffer(entry["data"], dtype_of(_DTYPES[entry["dtype"]]).numpy).reshape(entry["shape"])


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise OnnxGradError("checkpoints need the package safetensors. Install onnxgrad[training].") from error
    return safetensors

"""The data of a run, as they were: a run that goes on with other files is another run, and ranks compare what they were given.

Tests: tests/training/test_faults.py, tests/distributed/test_agreement.py.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.errors import DataError, TrainingError
from onnxgrad.training.data.rows import Array, Columns, Rows, RowSubset, Stream

__all__ = ["Fingerprints", "check_unchanged", "content_of", "described", "fingerprints_of"]

Fingerprints: TypeAlias = "dict[str, dict[str, Any]]"
"""By ``data`` and ``validation``: name, size and sha256 of the file."""
_ENDS = 4096
_PIECE = 1 << 20


def fingerprints_of(**data: Any) -> Fingerprints:
    """Compute the fingerprints of the data files; arrays and iterables have none.

    Of a folder the names and sizes of its files count, and what the first and last 4 kB of each hold.

    Raises:
        DataError: if a file cannot be read.
    """
    paths = {what: getattr(value, "path", value) for what, value in data.items()}
    files = {what: _of_file(Path(path)) for what, path in paths.items() if isinstance(path, (str, Path))}
    for what, file in files.items():
        content = getattr(data[what], "content", "")
        if content:  # answers that lie in other files than the one that is named
            file["sha256"] = hashlib.sha256(f"{file['sha256']}, {content}".encode()).hexdigest()
    return files


def _of_file(path: Path) -> dict[str, Any]:
    try:
        if path.is_dir():
            return _of_folder(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"name": path.name, "size": file.tell(), "sha256": digest}
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error


def _of_folder(path: Path) -> dict[str, Any]:
    digest, total = hashlib.sha256(), 0
    for entry in sorted(entry for entry in path.rglob("*") if entry.is_file()):
        with entry.open("rb") as file:
            size = entry.stat().st_size
            first = file.read(_ENDS)
            file.seek(max(len(first), size - _ENDS))
            digest.update(f"{entry.relative_to(path).as_posix()}\0{size}\0".encode() + first + file.read())
        total += size
    return {"name": path.name, "size": total, "sha256": digest.hexdigest()}


def check_unchanged(then: Mapping[str, Mapping[str, Any]], now: Fingerprints) -> None:
    """Compare the files of a run with the files that it is resumed with.

    Raises:
        TrainingError: naming the first that has another content.
    """
    for what, file in now.items():
        was = then.get(what)
        if was is not None and (was["size"], was["sha256"]) != (file["size"], file["sha256"]):
            sizes = f"{was['size']:,} bytes" if was["size"] == file["size"] else f"{was['size']:,} bytes then, {file['size']:,} now"
            message = f"the file {file['name']!r} ({what}) has changed since the run: {sizes}, another content"
            raise TrainingError(f"{message}. Restore it, or continue with accept_changed_data=True (--accept-changed-data).")


def content_of(arrays: Mapping[str, Array]) -> int:
    """Compute a checksum (CRC-32) of the names, dtypes, shapes and elements of arrays, which are read once, by pieces."""
    checksum = 0
    for name, array in arrays.items():
        checksum = zlib.crc32(f"{name} {array.dtype.name} {array.shape}".encode(), checksum)
        flat = array.reshape(1) if array.ndim == 0 else array
        rows = max(1, _PIECE * len(flat) // max(1, array.nbytes))
        for first in range(0, len(flat), rows):
            piece = flat[first : first + rows]
            if piece.dtype.hasobject:
                checksum = zlib.crc32("\0".join(map(str, piece.ravel())).encode("utf-8", "backslashreplace"), checksum)
            else:
                checksum = zlib.crc32(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data, checksum)
    return checksum


def described(data: Rows | Stream | None, file: Mapping[str, Any] | None = None, batches: int | None = None) -> str:
    """Describe data by a text that is the same for the same data, for ranks to compare.

    Args:
        data: of which arrays are read as a whole; None for none.
        file: its fingerprint, if it was read from a file or folder.
        batches: in an epoch, if it is a stream of a known number.
    """
    if data is None:
        return "none"
    parts = [] if file is None else [f"file of {file['size']:,} bytes, sha256 {file['sha256'][:16]}"]
    if isinstance(data, RowSubset):
        parts += [f"{len(data):,} of these examples (CRC {content_of({'rows': data.rows}):08x})", described(data.base)]
    elif isinstance(data, Columns):
        columns = [f"{name} {array.dtype.name}{list(array.shape[1:])}" for name, array in data.arrays.items()]
        parts += [f"{len(data):,} examples", f"CRC {content_of(data.arrays):08x}", *columns]
    elif isinstance(data, Rows):
        parts += [f"{len(data):,} examples", *map(str, data.settings)]
    else:
        parts.append(f"{type(data).__name__} of {'unknown length' if batches is None else f'{batches:,} batches'}")
    classes = {name: list(names) for name, names in data.classes.items()}
    return ", ".join([*parts, f"classes {classes}"] if classes else parts)

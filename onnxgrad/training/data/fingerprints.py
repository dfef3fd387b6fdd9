"""The data files of a run, as they were: a run that goes on with others is another run, and says so.

Tests: tests/training/test_faults.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from onnxgrad.errors import DataError, TrainingError

__all__ = ["Fingerprints", "check_unchanged", "fingerprints_of"]

Fingerprints: TypeAlias = "dict[str, dict[str, Any]]"
"""By ``data`` and ``validation``: name, size and sha256 of the file."""
_ENDS = 4096


def fingerprints_of(**data: Any) -> Fingerprints:
    """Compute the fingerprints of the data files; arrays and iterables have none.

    Of a folder the names and sizes of its files count, and what the first and last 4 kB of each hold.

    Raises:
        DataError: if a file cannot be read.
    """
    paths = {what: getattr(value, "path", value) for what, value in data.items()}
    return {what: _of_file(Path(path)) for what, path in paths.items() if isinstance(path, (str, Path))}


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
            message = f"the file {file['name']!r} ({what}) is not what this run was trained on: {sizes}, another content"
            raise TrainingError(f"{message}. Put it back, or go on with accept_changed_data=True (--accept-changed-data).")

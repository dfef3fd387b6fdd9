"""The data files of a run, as they were: a run that goes on with others is another run, and says so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from onnxgrad.errors import DataError, TrainingError

__all__ = ["Fingerprints", "check_unchanged", "fingerprints_of"]

Fingerprints: TypeAlias = "dict[str, dict[str, Any]]"
"""By ``data`` and ``validation``: name, size and sha256 of the file."""


def fingerprints_of(**data: Any) -> Fingerprints:
    """Of what is given as a path, or was read from one; arrays and iterables have none.

    Raises:
        DataError: if a file cannot be read.
    """
    paths = {what: getattr(given, "path", given) for what, given in data.items()}
    return {what: _of_file(Path(path)) for what, path in paths.items() if isinstance(path, (str, Path))}


def _of_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"name": path.name, "size": file.tell(), "sha256": digest}
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error


def check_unchanged(then: Mapping[str, Mapping[str, Any]], now: Fingerprints) -> None:
    """Compare the files of a run with those that it is to go on with.

    Raises:
        TrainingError: naming the first that has another content.
    """
    for what, file in now.items():
        was = then.get(what)
        if was is not None and (was["size"], was["sha256"]) != (file["size"], file["sha256"]):
            sizes = f"{was['size']:,} bytes" if was["size"] == file["size"] else f"{was['size']:,} bytes then, {file['size']:,} now"
            said = f"the file {file['name']!r} ({what}) is not what this run was trained on: {sizes}, another content"
            raise TrainingError(f"{said}. Put it back, or go on with accept_changed_data=True (--accept-changed-data).")

"""Files written whole: under a temporary name, then renamed. A failure leaves what was there before, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from onnxgrad.errors import FileError, MissingFile, ModelError

__all__ = ["is_file", "make_folder", "read_arrays", "read_whole", "reading", "write_whole", "writing"]


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which becomes ``path`` when the block ends, flushed to the disk; after an exception it is removed.

    Raises:
        FileError: naming the file and the reason.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise _error(path, error) from error
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file of this content.

    Raises:
        FileError: naming the file and the reason; what was there before is untouched.
    """
    with writing(path) as file:
        file.write(content)


def make_folder(path: Path) -> None:
    """Make a folder and its parents, if they are not there.

    Raises:
        FileError: naming it and the reason.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _error(path, error) from error


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A file to read.

    Raises:
        MissingFile: if there is none.
        FileError: if it cannot be read, with the reason.
    """
    try:
        file = path.open("rb")
    except (FileNotFoundError, ValueError) as error:
        raise MissingFile(f"there is no file {str(path)!r}.") from error
    except OSError as error:
        raise _error(path, error) from error
    try:
        with file:
            yield file
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise _error(path, error) from error


def read_whole(path: Path) -> bytes:
    """The content of a file; raises what ``reading`` raises."""
    with reading(path) as file:
        return file.read()


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an .npz file, by name.

    Raises:
        MissingFile: if there is none.
        ModelError: if it is anything else.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in arrays.files}
            if not all(isinstance(array, np.ndarray) for array in held.values()):
                raise ValueError("a member of the archive is not an array")
            return held
    except FileNotFoundError as error:
        raise MissingFile(f"there is no file {str(path)!r}.") from error
    except Exception as error:
        # What numpy says of other files is about pickles; damaged ones raise whatever zipfile, zlib and the header's parser do.
        raise ModelError(f"{str(path)!r} is not an .npz file of plain arrays. Write it with numpy.savez.") from error


def _error(path: Path, error: OSError) -> FileError:
    file_error = FileError(f"cannot use {str(path)!r}: {error.strerror or error}.")
    file_error.errno = error.errno
    return file_error


def _remove(path: Path) -> None:
    with suppress(OSError):  # the first error says more
        path.unlink(missing_ok=True)


def is_file(path: Path) -> bool:
    """Return whether a path is a file; an impossible name is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False

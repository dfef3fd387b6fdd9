"""Reading the pickles that Paddle writes: arrays, numbers and strings in dicts, lists and tuples, and nothing that runs.

Tests: tests/paddle_suite/test_data_and_files.py, tests/static/test_static.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from onnxgrad.errors import ModelError

__all__ = ["is_pickle", "read_pickle", "without_paddles_notes"]

_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_ALLOWED = {
    *((module, name) for module in _MULTIARRAY for name in ("_reconstruct", "scalar")),
    *((module, "_frombuffer") for module in ("numpy.core.numeric", "numpy._core.numeric")),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("collections", "OrderedDict"), ("builtins", "tuple"), ("_codecs", "encode"),
}  # fmt: skip
"""What a pickle may name: what makes arrays, dicts and tuples of what it holds."""

_NAMES, _PARTS = "StructuredToParameterName@@", "UnpackBigParamInfor@@"
"""Paddle's notes in a state: the names of parameters by path, and of which parts large arrays consist."""


class _PlainReader(pickle.Unpickler):
    """Makes arrays, dicts and tuples, and nothing else, so that a file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED or (module == "numpy.dtypes" and name.endswith("DType")):
            return super().find_class(module, name)
        if (module, name) == ("__builtin__", "tuple"):
            return tuple
        raise ModelError(f"the file holds {module}.{name}; only arrays, numbers, strings, dicts, lists and tuples are read.")

    def persistent_load(self, pid: Any) -> Any:
        raise ModelError(f"the file refers to {pid!r} outside of it; only arrays, numbers, strings, dicts and lists are read.")


def is_pickle(start: bytes) -> bool:
    """Whether a file that begins so is a pickle of protocol 2 or later, as Paddle's are."""
    return start[:1] == b"\x80" and 2 <= (start[1:2] or b"\0")[0] <= 5


def read_pickle(file: BinaryIO, what: str) -> Any:
    """Read one object.

    Args:
        file: open for reading.
        what: how messages name it.

    Raises:
        ModelError: if it names anything but arrays, dicts and tuples, or is damaged.
    """
    try:
        return _PlainReader(file).load()
    except ModelError as error:
        raise ModelError(f"{what}: {error}") from error
    except Exception as error:  # whatever damaged bytes make of pickle's commands
        raise ModelError(f"{what} is not a saved state, or it is cut off: {error}") from error


def without_paddles_notes(item: Any, made: Callable[[np.ndarray[Any, Any], str | None], Any]) -> Any:
    """Return what Paddle saved without the notes that it adds: large arrays are put together, and bfloat16 is read as such.

    Args:
        item: what ``read_pickle`` gave.
        made: takes an array and its name, which it has where Paddle saved it by itself, and gives what stands in its place.
    """
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], np.ndarray):
        return without_paddles_notes(item[1], lambda array, _: made(array, item[0]))
    if isinstance(item, np.ndarray):
        return made(item.view(ml_dtypes.bfloat16) if item.dtype == np.uint16 else item, None)
    if isinstance(item, dict):
        entries = {key: value for key, value in item.items() if key not in (_NAMES, _PARTS)}
        parts = item.get(_PARTS)
        for name, note in parts.items() if isinstance(parts, dict) else ():
            slices = [np.asarray(entries.pop(part)).reshape(-1) for part in note["slices"]]
            entries[name] = np.concatenate(slices).reshape(note["OriginShape"])
        return {key: without_paddles_notes(value, made) for key, value in entries.items()}
    if isinstance(item, (list, tuple)):
        return type(item)(without_paddles_notes(entry, made) for entry in item)
    return item

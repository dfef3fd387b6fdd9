"""paddle.save and paddle.load: nested dicts and lists of tensors as a safetensors file, their structure as JSON in its metadata.

A file holds numbers, strings, lists, dicts, tensors and arrays, with checksums, and nothing that runs when it is loaded.

Tests: tests/paddle_suite/test_data_and_files.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, TypeAlias

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.eager.tensor import Tensor, leaf
from onnxgrad.errors import ArgumentError, ArgumentTypeError, MissingFile, ModelError, WrongKind
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import make_folder, reading
from onnxgrad.internal.pickled import is_pickle, read_pickle, without_paddles_notes
from onnxgrad.internal.tensor_file import read_tensors, write_tensors

__all__ = ["load", "save"]

Plain: TypeAlias = "Variable | np.ndarray[Any, Any] | np.generic | float | str | None"
Saved: TypeAlias = "Plain | Mapping[str, Saved] | Mapping[int, Saved] | Sequence[Saved]"
"""Tensors, arrays, numbers and strings, in dicts, lists and tuples of any depth."""


class _NoSuchFile(MissingFile, ValueError):
    """Paddle raises a ValueError for a file that is not there."""


@checked
def save(obj: Saved, path: str | Path | IO[bytes], protocol: int = 4, **configs: object) -> None:
    """Write tensors, arrays, numbers and strings in nested dicts, lists and tuples, such as a ``state_dict``.

    Args:
        obj: what to write; keys of dicts are strings or integers.
        path: a file; folders are created. It is written under a temporary name and renamed. Or an open file, such as io.BytesIO.
        protocol: accepted for compatibility.

    Raises:
        ArgumentTypeError: if something in it is of another kind.
        OnnxGradError: if the package safetensors is not installed (``onnxgrad[training]``).

    Example:
        >>> paddle.save(paddle.nn.Linear(2, 3).state_dict(), "linear.pdparams")
        >>> sorted(paddle.load("linear.pdparams"))
        ['bias', 'weight']
    """
    if not isinstance(path, (str, PathLike)):
        if not hasattr(path, "write"):
            raise WrongKind(f"save: path is a path or an open file, not {type(path).__name__}.")
        with TemporaryDirectory() as folder:
            save(obj, Path(folder) / "saved")
            path.write((Path(folder) / "saved").read_bytes())
        return
    if str(path).endswith("/"):
        raise ArgumentError(f"save: {str(path)!r} names no file. Write folder/name.")
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    described = _described(obj, arrays, "")
    make_folder(Path(path).parent)
    write_tensors(path, arrays, {"object": json.dumps(described)})


def _described(item: Any, arrays: dict[str, np.ndarray[Any, Any]], at: str) -> Any:
    if isinstance(item, (Variable, np.ndarray, np.generic)):
        name = at or "value"
        arrays[name] = np.asarray(item.get_value() if isinstance(item, Variable) else item)
        return {"tensor" if isinstance(item, Variable) else "array": name}
    if item is None or isinstance(item, (bool, int, float, str)):
        return {"value": item}
    if isinstance(item, dict):
        if not all(isinstance(key, (str, int)) for key in item):
            raise ArgumentTypeError(f"save: keys of a dict are strings or integers, in {at or 'the object'}.")
        return {"dict": [[key, _described(value, arrays, f"{at}.{key}" if at else str(key))] for key, value in item.items()]}
    if isinstance(item, (list, tuple)):
        container = "list" if isinstance(item, list) else "tuple"
        return {container: [_described(value, arrays, f"{at}.{i}" if at else str(i)) for i, value in enumerate(item)]}
    raise WrongKind(f"save writes tensors, arrays, numbers and strings, not the {type(item).__name__} {at}.")


@checked
def load(path: str | Path | IO[bytes], return_numpy: bool = False, **configs: object) -> Any:
    """Load the object that ``save`` wrote, or that Paddle did; tensors are eager, or arrays with ``return_numpy``.

    A file of Paddle is a pickle, such as ``.pdparams`` and ``.pdopt``: its arrays, numbers, strings, dicts, lists and tuples are
    read, and nothing of it runs.

    Args:
        path: of the file, or an open file.
        return_numpy: whether tensors become arrays.
        configs: accepted for compatibility.

    Raises:
        ModelError: if it is another file, or a damaged one, or holds something else, which it names.
    """
    if not isinstance(path, (str, PathLike)):
        if not hasattr(path, "read"):
            raise WrongKind(f"load: path is a path or an open file, not {type(path).__name__}.")
        with TemporaryDirectory() as folder:
            (Path(folder) / "saved").write_bytes(path.read())
            return load(Path(folder) / "saved", return_numpy)
    if not Path(path).exists():
        raise _NoSuchFile(f"there is no file {str(path)!r}.")
    with reading(Path(path)) as opened:
        if is_pickle(opened.read(2)):
            opened.seek(0)
            made = (lambda array, _: array) if return_numpy else _tensor
            return without_paddles_notes(read_pickle(opened, repr(str(path))), made)
    file = read_tensors(path)
    try:
        return _read(json.loads(file.metadata["object"]), file.arrays, return_numpy)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{str(path)!r} was not written by paddle.save. Use paddle.static.load, or the package safetensors."
        ) from error


def _tensor(array: np.ndarray[Any, Any], name: str | None) -> Tensor:
    tensor = leaf(array)
    if name is not None:
        tensor.name = name
    return tensor


def _read(described: Any, arrays: dict[str, np.ndarray[Any, Any]], as_numpy: bool) -> Any:
    ((item_type, inner),) = described.items()
    if item_type == "value":
        return inner
    if item_type == "dict":
        return {key: _read(value, arrays, as_numpy) for key, value in inner}
    if item_type in ("list", "tuple"):
        items = [_read(value, arrays, as_numpy) for value in inner]
        return items if item_type == "list" else tuple(items)
    return leaf(arrays[inner]) if item_type == "tensor" and not as_numpy else arrays[inner]

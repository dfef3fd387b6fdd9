"""Opening whatever the user has as data.

Tests: tests/training/data/test_tables.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentTypeError, DataError, FileError, ModelError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import is_file, read_arrays
from onnxgrad.training.data.annotated.formats import format_at
from onnxgrad.training.data.derived_inputs import advice_on_missing
from onnxgrad.training.data.images import Images, is_image_table
from onnxgrad.training.data.kinds.groups import rows_together
from onnxgrad.training.data.loaders import LoaderStream, function_in, is_dataset, is_loader, opened_dataset
from onnxgrad.training.data.picture_files import SUFFIXES, images_in
from onnxgrad.training.data.preferences import Preferences
from onnxgrad.training.data.rows import Columns, Data, Rows, Stream
from onnxgrad.training.data.sound_files import is_sound, sounds_in
from onnxgrad.training.data.sounds import Sounds, is_sound_table
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.splitting import imbalance, split
from onnxgrad.training.data.tables import SEPARATORS, Table, is_text, read_folder, read_npy
from onnxgrad.training.data.text import Text

__all__ = ["for_validation", "open_both", "open_data", "source_at"]

_TEXT = "is text, which needs a tokenizer: give training.Text(path, tokenizer) (--tokenizer)"


@checked
def open_data(data: Data, wanted: DataSpec | Sequence[str]) -> Rows | Stream:
    """Columns, rows or a stream from whatever the user has.

    Args:
        data: a dict of arrays; a tuple of arrays in the order of the columns; the path of an .npz, .npy, .csv, .tsv, .parquet,
            .jsonl or .py file or of a folder (of images, of sounds, or of .npy files); ``Images``, ``Sounds``, ``Table``,
            ``Text``, ``Texts``; an iterable of batches (dicts or tuples), or a function that gives one for an epoch number; a
            DataLoader of torch; a dataset of Hugging Face.
        wanted: the columns that the program wants, and the record of the data that it was trained with.

    Raises:
        DataError: if a file cannot be read or a column is missing.
        ArgumentTypeError: if it is none of these.
    """
    wanted = wanted if isinstance(wanted, DataSpec) else DataSpec(wanted)
    if isinstance(data, Text):
        data.read()
        data.check(wanted)
    if isinstance(data, Preferences):
        return data.opened(wanted)
    if isinstance(data, (Rows, Stream)):
        return data
    path = Path(data) if isinstance(data, (str, Path)) else getattr(data, "path", None)
    if isinstance(data, (str, Path)):
        data = _at(str(data), wanted)
    dataset = _opened(data, wanted)
    if isinstance(dataset, Columns) and dataset.together == 1:
        _keep_together(dataset, wanted)
    if isinstance(path, Path):
        dataset.path = path if path.exists() else Path(str(path).rpartition(":")[0])
    return dataset


def _opened(data: Any, wanted: DataSpec) -> Rows | Stream:
    if isinstance(data, (Images, Sounds, Table)):
        return data.opened(wanted)
    if isinstance(data, (Rows, Stream)):
        return data
    if is_dataset(data):
        return opened_dataset(data, wanted)
    if is_loader(data):
        return LoaderStream(data, wanted.names)
    if isinstance(data, Mapping):
        return _columns(data, wanted)
    if isinstance(data, tuple) and data and all(isinstance(item, np.ndarray) for item in data):
        if len(data) != len(wanted.names):
            raise DataError(f"{len(data)} arrays are given for the columns {list(wanted.names)}. Give one each, in this order.")
        return Columns(dict(zip(wanted.names, data, strict=True)))
    if callable(data) or hasattr(data, "__iter__"):
        return Stream(data, wanted.names)
    raise ArgumentTypeError(f"data is a dict of arrays, a path, an iterable or a function, not {type(data).__name__}.")


def _keep_together(columns: Columns, wanted: DataSpec) -> None:
    """Let rows of one pair or triplet stay together, where the target shows that they are"""
    for name, loss in wanted.losses.items():
        size = rows_together(loss, columns.column(name))
        if size > 1 and len(columns) % size == 0:
            columns.together = size
            columns.remarks = [*columns.remarks, f"rows of {name!r} stay together by {size}, as pairs or triplets do."]


def open_both(
    data: Any, validation: Any, wanted: DataSpec, target: str | None = None, seed: int = 0
) -> tuple[Rows | Stream, Rows | Stream | None, list[str]]:
    """Training and validation data, the latter also as a share of the former, and lines on both.

    Raises:
        DataError, ArgumentError: as ``open_data`` and ``split`` do.
    """
    source = open_data(data, wanted)
    notes = [] if source is data else list(source.remarks)
    uneven = None if target is None or source is data else imbalance(source, target)
    if uneven is not None:
        notes.append(uneven)
    if validation is None:
        return source, None, notes
    if isinstance(validation, float):
        train, held_out, split_notes = split(source, validation, target, seed)
        train.unused = source.unused
        return train, held_out, [*notes, *split_notes]
    known = wanted.record if source.record is None else wanted.record.merged(source.record)
    held_out = open_data(for_validation(validation), replace(wanted, record=known))
    return source, held_out, notes + [note for note in held_out.remarks if held_out is not validation and note not in notes]


def for_validation(data: Any) -> Any:
    """Validation data as it was given, of which images read their part for validation, where they have parts."""
    if isinstance(data, (str, Path)):
        path = Path(data)
        has_parts = path.suffix in (".yaml", ".yml") or path.is_dir()
        return Images(path, part="val") if has_parts and format_at(path, "val") is not None else data
    return data.with_part("val") if isinstance(data, Images) and data.part is None else data


def _columns(data: Mapping[str, Any], wanted: DataSpec) -> Columns:
    missing = [name for name in wanted.names if name not in data]
    if missing:
        raise DataError(f"the data has no column {missing[0]!r}; it has {sorted(map(str, data))}. {advice_on_missing(missing[0])}.")
    taken = [*wanted.names, *(name for name in wanted.optional if name in data)]
    columns = Columns({name: data[name] for name in taken})
    columns.unused = sorted({str(name) for name in data} - set(taken))
    return columns


def _holds_sounds(path: Path) -> bool:
    """Whether a folder holds sounds and no images"""
    if next(iter(sounds_in(path)), None) is None:
        tables = [file for file in path.iterdir() if file.suffix in SEPARATORS]
        return len(tables) == 1 and is_sound_table(tables[0])
    return next(iter(images_in(path)), None) is None


def source_at(text: str) -> Any:
    """Return the data source at a path: ``Images``, ``Sounds``, ``Table``, a function, or the path itself if it holds arrays.

    Raises:
        DataError: if there is nothing there, or it is text.
    """
    if not isinstance(text, (str, Path)):
        raise DataError(f"data is named by the path of a file or a folder, not by {text!r}. Correct it in the settings of the run.")
    path = Path(text)
    if is_file(path) and format_at(path) is not None:
        return Images(path)
    if path.suffix == ".txt" or (path.suffix == ".jsonl" and is_text(path)):
        raise DataError(f"{text!r} {_TEXT}.")
    if path.is_dir():
        return path if any(path.glob("*.npy")) else Sounds(path) if _holds_sounds(path) else Images(path)
    if path.suffix == ".py" or ".py:" in text:
        return function_in(text)
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return Images(path)
    if is_sound(path.name) and path.is_file():
        return Sounds(path)
    if path.suffix in SEPARATORS and path.is_file() and is_sound_table(path):
        return Sounds(path)
    if path.suffix in SEPARATORS and path.is_file() and is_image_table(path):
        return Images(path)
    if path.suffix in SEPARATORS:
        return Table(path)
    return path


def _at(text: str, wanted: DataSpec) -> Any:
    source = source_at(text)
    if not isinstance(source, Path):
        return source
    if source.is_dir():
        return read_folder(source, wanted)
    if not source.is_file():
        raise DataError(f"there is no file {text!r}.")
    if source.suffix == ".npy":
        array = read_npy(source)
        if array.dtype.names:
            return {name: array[name] for name in array.dtype.names}
        if len(wanted.names) != 1:
            raise DataError(
                f"{text!r} holds one array, but the columns are {list(wanted.names)}. Give an .npz, or a folder of .npy files."
            )
        return {wanted.names[0]: array}
    try:
        return read_arrays(source)
    except (FileError, ModelError) as error:
        raise DataError(str(error)) from error

"""Folders and tables of image files, through Pillow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.kinds.column import Column, Reading
from onnxgrad.training.data.kinds.picture import SUFFIXES, LazyPictures, PictureColumn, opened_file, pictures_of
from onnxgrad.training.data.kinds.words import WordsColumn, classes_line
from onnxgrad.training.data.lazy_rows import LazyRows
from onnxgrad.training.data.preparing import image_input
from onnxgrad.training.data.readers import reader_of
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.data.rows import Array, Rows, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import SEPARATORS, Table

__all__ = ["Images", "changes_line", "is_image_table", "opened_pictures"]


class Images:
    """A folder of images with a sub-folder for each class, or a table (see ``Table``) with a column of paths and one of labels.

    Size, axes, channels and values are those that the model was trained with, else those of its file as far as it tells;
    ``remarks`` of what is opened say what was guessed. Images are resized to the model's size; their aspect is not kept.

    Args:
        path: the folder or the table; paths in that are relative to it. A folder may hold the table.
        size: height and width, where the model leaves them open.
        mean, std: of the values from 0 to 1, for all channels or each.
        order: ``"rgb"`` or ``"bgr"``.
        white: the value of a white pixel in images of more than 8 bits; None for 65535 of 16 bits.
        flip: mirror half of the images, in training.
        crop: resize a part of random place, half to all of the area, in training (Szegedy et al. 2015).
        color: change brightness, contrast and saturation by a factor of up to 1 ± this, in training.
        columns, fill, decimal: of a table: see ``Table``.

    Raises:
        ArgumentError: if ``color`` is not between 0 and 1, or ``white`` not above 0.

    Example:
        >>> trainer.fit(Images("photos/", flip=True, crop=True), epochs=3, validation=0.1)  # doctest: +SKIP
    """

    @checked
    def __init__(
        self,
        path: str | Path,
        *,
        size: Sequence[int] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        order: Literal["rgb", "bgr"] | None = None,
        white: float | None = None,
        flip: bool = False,
        crop: bool = False,
        color: float = 0.0,
        columns: Mapping[str, Sequence[str]] | None = None,
        fill: str | float | None = None,
        decimal: str | None = None,
    ) -> None:
        if not 0 <= color < 1:
            raise ArgumentError(f"color is the largest change of a factor, from 0 to less than 1, not {color}.")
        if white is not None and not white > 0:
            raise ArgumentError(f"white is the value of a white pixel, above 0, not {white}.")
        self.path = Path(path)
        self.reading = Reading(columns or {}, fill, decimal, None, None, size, mean, std, order, white, (flip, crop, color))

    def opened(self, wanted: DataSpec) -> Rows | Stream:
        """The data for a program.

        Args:
            wanted: the columns that the program wants.

        Raises:
            DataError: if the folder holds no images, a file is missing, or the model takes no images.
            OnnxGradError: if Pillow is missing.
        """
        path = self.path
        if path.is_dir():
            tables = sorted(file for file in path.iterdir() if file.suffix in SEPARATORS)
            if len(tables) == 1 and not any(entry.is_dir() and _holds_images(entry) for entry in path.iterdir()):
                path = tables[0]
        if path.is_file():
            return self._from_table(path, wanted)
        if not path.is_dir():
            raise DataError(f"there is no folder {str(path)!r}.")
        return self._from_folder(path, wanted)

    def _from_table(self, path: Path, wanted: DataSpec) -> Rows | Stream:
        table = Table(path)
        table.reading = self.reading
        if not is_image_table(path):
            header = reader_of(path).header
            raise DataError(f"{str(path)!r} has no column of image files; it has {header}. Name it path, relative to the table.")
        rows = table.opened(wanted)
        rows.remarks = [*rows.remarks, *changes_line(self.reading)]
        return rows

    def _from_folder(self, path: Path, wanted: DataSpec) -> Rows:
        files_by_class = {entry.name: sorted(_images_in(entry)) for entry in sorted(path.iterdir()) if entry.is_dir()}
        target = next((name for name in wanted.names if name in wanted.targets), None)
        if target is None:
            files = sorted(_images_in(path))
            if not files:
                raise DataError(f"the folder {str(path)!r} holds no images ({', '.join(SUFFIXES)}).")
            return opened_pictures(_files(files), len(files), {}, {}, wanted, self.reading, path.name)
        recorded = wanted.record.classes.get(target)
        classes = list(recorded or [name for name, files in files_by_class.items() if files])
        unknown = sorted(name for name, files in files_by_class.items() if files and name not in classes)
        if unknown:
            known = ", ".join(classes[:10])
            raise DataError(f"the sub-folder {unknown[0]!r} of {str(path)!r} is none of the classes of the training data: {known}.")
        listed = [(file, number) for number, name in enumerate(classes) for file in files_by_class.get(name, ())]
        if not listed:
            raise DataError(
                f"{str(path)!r} holds no sub-folders with images. Make one for each class, or give a .csv of paths and labels."
            )
        if len(classes) == 1:
            only = str(path / classes[0])
            raise DataError(
                f"{str(path)!r} holds one sub-folder with images, {only!r}, so one class. Name the folder of the classes."
            )
        labels = np.array([number for _, number in listed], np.int64)
        words = {target: WordsColumn((), tuple(classes))}
        images = _files([file for file, _ in listed])
        return opened_pictures(images, len(listed), {target: labels}, words, wanted, self.reading, path.name)


def _files(files: Sequence[Path]) -> Callable[[int], Any]:
    return lambda row: opened_file(files[row])


def opened_pictures(
    image: Callable[[int], Any],
    count: int,
    labels: dict[str, Array],
    columns: Mapping[str, Column],
    wanted: DataSpec,
    reading: Reading,
    where: str,
) -> Rows:
    """Pictures, of which ``image`` opens one by its number, prepared as the model wants them, with labels beside them."""
    v, _, _ = image_input([v for name, v in wanted.variables.items() if name not in wanted.targets])
    missing = [name for name in wanted.names if name != v.name and name not in labels]
    if missing:
        raise DataError(
            f"{where!r} gives the images for {v.name!r} and {sorted(labels)}, but the model takes {missing[0]!r} too. Give arrays."
        )
    remarks: list[str] = []
    column = pictures_of(image, count, (), wanted, reading, wanted.record.columns.get(v.name), remarks, where)
    pictures = LazyPictures(image, v.name, column, wanted, reading, where)
    rows = LazyRows({v.name: pictures}, labels, count)
    rows.record = DataRecord({v.name: column, **columns})
    lines = [classes_line(name, words.classes) for name, words in columns.items() if isinstance(words, WordsColumn)]
    rows.remarks = [*remarks, *lines, *changes_line(reading)]
    return rows


def changes_line(reading: Reading) -> list[str]:
    """A line on what is changed at random in training."""
    changes = [what for what, on in zip(("mirrored", "cropped", "changed in colour"), reading.changes, strict=True) if on]
    return [f"images are {' and '.join(changes)} at random in training."] if changes else []


def _holds_images(path: Path) -> bool:
    return next(iter(_images_in(path)), None) is not None


def _images_in(path: Path) -> list[Path]:
    return [
        file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()
    ]


def is_image_table(path: Path) -> bool:
    """Whether a table lists image files."""
    try:
        head = reader_of(path).head()
    except OnnxGradError:
        return False
    return any(PictureColumn.recognises([c for c in cells if c]) for cells in head.values() if any(cells))

"""Folders and tables of image files, through Pillow."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.annotated.answers import Listing
from onnxgrad.training.data.annotated.box_table import box_columns, read_box_table
from onnxgrad.training.data.annotated.formats import PARTS, format_at
from onnxgrad.training.data.annotated.masks import read_colours
from onnxgrad.training.data.broken import broken_among, left_of, skips_broken
from onnxgrad.training.data.changes import Changes
from onnxgrad.training.data.columns import PATHS, reads_labels
from onnxgrad.training.data.kinds.column import Column, LazyColumn, Reading
from onnxgrad.training.data.kinds.numbers import NumberColumn
from onnxgrad.training.data.kinds.picture import LazyPictures, PictureColumn, PictureFiles, opened_file, pictures_of
from onnxgrad.training.data.kinds.placed import BoxesColumn, MaskColumn, placed_columns
from onnxgrad.training.data.kinds.words import WordsColumn, classes_line
from onnxgrad.training.data.lazy_rows import LazyRows
from onnxgrad.training.data.picture_files import SUFFIXES, images_in
from onnxgrad.training.data.preparing import image_input
from onnxgrad.training.data.readers import filled_cells, reader_of
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.data.rows import Array, Rows, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import SEPARATORS, Table

__all__ = ["Images", "changes_line", "is_image_table", "opened_pictures"]


class Images:
    """Images and their answers: a class, numbers, several labels, masks, boxes or regions.

    What lies at the path says which: a folder with a sub-folder for each class; a table (see ``Table``) with a column of paths, and
    one of labels, of masks, or the columns of a box; boxes of COCO (.json), YOLO (data.yaml, or ``images/`` and ``labels/``) or
    Pascal VOC (``Annotations/``); masks (``images/`` and ``masks/``); regions of text of ICDAR (gt_*.txt) or PaddleOCR (Label.txt).
    Size, axes, channels and values are those that the model was trained with, else those of its file as far as it tells;
    ``remarks`` of what is opened say what was guessed.

    Args:
        path: the folder or file; paths in a file are relative to it. A folder may hold the table.
        size: height and width, where the model leaves them open.
        mean, std: of the values from 0 to 1, for all channels or each.
        order: ``"rgb"`` or ``"bgr"``.
        white: the value of a white pixel in images of more than 8 bits; None for 65535 of 16 bits.
        fit: how images of another size get into the model's: ``"stretch"``, ``"letterbox"`` (one factor, bars of the value 114 on
            both sides, as YOLO's exports have it), ``"corner"`` (bars on the right and below). None for what the model was trained
            with, else letterbox with boxes and stretch without.
        part: ``"train"``, ``"val"`` or ``"test"``, of data that holds several; None for ``"train"``, and for validation ``"val"``.
        colours: of masks in colours, red, green and blue by class, or a file of them; None for ``class_dict.csv`` in the folder.
        flip: mirror half of the images, in training. Boxes and masks follow this and the next five.
        crop: show a part of random place, half to all of the area, in training (Szegedy et al. 2015).
        color: change brightness, contrast and saturation by a factor of up to 1 ± this, in training.
        scale: enlarge or shrink by a factor of up to 1 ± this, in training.
        translate: move by up to this share of width and height, in training.
        mosaic: probability that a picture with boxes or masks is shown, in training, as one of four pictures of the data that meet
            at a random point, each half as large to as large as alone and cut at its quarter. Boxes of which less than a tenth
            is left are left out.
        mosaic_epochs: in how many epochs, from the first, this is done; None for all.
        columns, fill, decimal: of a table: see ``Table``.

    Raises:
        ArgumentError: if ``color``, ``scale``, ``translate`` or ``mosaic`` is not between 0 and 1, ``mosaic_epochs`` negative,
            ``white`` not above 0, or there is no such ``fit`` or ``part``.
        DataError: if the file of colours cannot be read.

    Example:
        >>> trainer.fit(Images("photos/", flip=True, crop=True), epochs=3, validation=0.1)  # doctest: +SKIP
        >>> trainer.fit(Images("data.yaml", flip=True, scale=0.5), epochs=3, validation="data.yaml")  # doctest: +SKIP
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
        fit: Literal["stretch", "letterbox", "corner"] | None = None,
        part: Literal["train", "val", "test"] | None = None,
        colours: Mapping[str, Sequence[int]] | str | Path | None = None,
        flip: bool = False,
        crop: bool = False,
        color: float = 0.0,
        scale: float = 0.0,
        translate: float = 0.0,
        mosaic: float = 0.0,
        mosaic_epochs: int | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        fill: str | float | None = None,
        decimal: str | None = None,
    ) -> None:
        if white is not None and not white > 0:
            raise ArgumentError(f"white is the value of a white pixel, above 0, not {white}.")
        self.path, self.part = Path(path), part
        self.reading = Reading(
            columns=columns or {},
            fill=fill,
            decimal=decimal,
            size=size,
            mean=mean,
            std=std,
            order=order,
            white=white,
            fit=fit,
            colours=read_colours(Path(colours)) if isinstance(colours, (str, Path)) else colours,
            changes=Changes(flip, crop, color, scale, translate, mosaic, mosaic_epochs),
        )

    def with_part(self, part: Literal["train", "val", "test"]) -> Images:
        """The same of another part of the data.

        Args:
            part: ``"train"``, ``"val"`` or ``"test"``.
        """
        images = copy.copy(self)
        images.part = part
        return images

    def opened(self, wanted: DataSpec) -> Rows | Stream:
        """The data for a program.

        Args:
            wanted: the columns that the program wants.

        Raises:
            DataError: if the folder holds no images, a file is missing, or the model takes no images.
            OnnxGradError: if Pillow is missing.
        """
        path = self.path
        known = next((c for c in wanted.record.columns.values() if isinstance(c, (BoxesColumn, MaskColumn))), None)
        masks = known.reader if isinstance(known, MaskColumn) else None
        form = format_at(path, self.part or PARTS[0], "mask" if _reads_masks(wanted) else None, self.reading.colours, masks)
        form = form or format_at(path, self.part or PARTS[0], None, self.reading.colours, masks)
        if form is not None:
            return self._annotated(form.read(None if known is None else known.classes or None), wanted)
        if path.is_dir():
            tables = sorted(file for file in path.iterdir() if file.suffix in SEPARATORS)
            if len(tables) == 1 and not any(entry.is_dir() and _holds_images(entry) for entry in path.iterdir()):
                path = tables[0]
        if path.is_file() and path.suffix.lower() in SUFFIXES:
            return self._alone(path, wanted)
        if path.is_file():
            return self._from_table(path, wanted)
        if not path.is_dir():
            raise DataError(f"there is no folder {str(path)!r}.")
        return self._from_folder(path, wanted)

    def _alone(self, path: Path, wanted: DataSpec) -> Rows:
        """One picture, to be predicted"""
        target = next((name for name in wanted.names if name in wanted.targets), None)
        if target is not None:
            raise DataError(f"{str(path)!r} is one image, without {target!r}. Give a folder or a table.")
        return opened_pictures(PictureFiles([path]), 1, {}, {}, wanted, self.reading, path.name)

    def _from_table(self, path: Path, wanted: DataSpec) -> Rows | Stream:
        boxes = self._boxes_of(path, wanted)
        if boxes is not None:
            return self._annotated(boxes, wanted)
        table = Table(path)
        table.reading = self.reading
        if not is_image_table(path):
            header = reader_of(path).header
            raise DataError(f"{str(path)!r} has no column of image files; it has {header}. Name it path, relative to the table.")
        rows = table.opened(wanted)
        rows.remarks = [*rows.remarks, *changes_line(self.reading), *self._numbers_stay(rows, wanted)]
        return rows

    def _numbers_stay(self, rows: Rows | Stream, wanted: DataSpec) -> list[str]:
        """A line on numbers beside images that are moved: they may be places in the image"""
        columns = {} if rows.record is None else rows.record.columns
        numbers = [name for name in wanted.targets if isinstance(columns.get(name), NumberColumn) and self._is_real(name, wanted)]
        if not numbers or not replace(self.reading.changes, color=0.0, mosaic=0.0):
            return []
        return [
            f"the numbers of {numbers[0]!r} stay as they are where images are moved: if they are places, leave these changes out."
        ]

    def _is_real(self, name: str, wanted: DataSpec) -> bool:
        return wanted.losses.get(name, "") in ("mse", "l1", "smooth_l1", "huber", "")

    def _boxes_of(self, path: Path, wanted: DataSpec) -> Listing | None:
        """The boxes of a table that has a row for each; None where it has none, or the loss takes something else"""
        reader = reader_of(path)
        ranks = [v.rank for name, v in wanted.variables.items() if name in wanted.targets]
        if box_columns(reader.header) is None or any(rank not in (None, 3) for rank in ranks):
            return None
        columns = {name: _listed_cells(cells) for name, cells in reader.columns(reader.header).items()}
        paths = [name for name, cells in columns.items() if PictureColumn.recognises(filled_cells(cells)[:100])]
        column = next((name for name in PATHS if name in paths), paths[0] if len(paths) == 1 else None)
        if column is None:
            return None
        rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        known = next((c.classes for c in wanted.record.columns.values() if isinstance(c, BoxesColumn)), None)
        return read_box_table(rows, path, column, known)

    def _annotated(self, listing: Listing, wanted: DataSpec) -> Rows:
        """Pictures with boxes, regions or masks"""
        where, reading = self.path.name, self.reading
        placed, columns = placed_columns(listing, wanted, where)
        has_record = any(isinstance(column, PictureColumn) for column in wanted.record.columns.values())
        if reading.fit is None and not has_record and any(isinstance(column, BoxesColumn) for column in columns.values()):
            reading = replace(reading, fit="letterbox")
        rows = opened_pictures(PictureFiles(listing.paths), len(listing.paths), placed, columns, wanted, reading, where)
        rows.remarks = [*listing.remarks, *rows.remarks]
        return rows

    def _from_folder(self, path: Path, wanted: DataSpec) -> Rows:
        files_by_class = {entry.name: sorted(images_in(entry)) for entry in sorted(path.iterdir()) if entry.is_dir()}
        target = next((name for name in wanted.names if name in wanted.targets), None)
        if target is None:
            files = sorted(images_in(path))
            if not files:
                raise DataError(f"the folder {str(path)!r} holds no images ({', '.join(SUFFIXES)}).")
            return opened_pictures(PictureFiles(files), len(files), {}, {}, wanted, self.reading, path.name)
        recorded = wanted.record.classes.get(target)
        classes = list(recorded or [name for name, files in files_by_class.items() if files])
        unknown = sorted(name for name, files in files_by_class.items() if files and name not in classes)
        if unknown:
            known = ", ".join(classes[:10])
            raise DataError(f"the sub-folder {unknown[0]!r} of {str(path)!r} is not a class of the training data: {known}.")
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
        if reads_labels(wanted, target):
            labels = (labels[:, None] == np.arange(len(classes))).astype(np.float32)
        words = {target: WordsColumn((), tuple(classes))}
        images = PictureFiles([file for file, _ in listed])
        return opened_pictures(images, len(listed), {target: labels}, words, wanted, self.reading, path.name)


def opened_pictures(
    image: Callable[[int], Any],
    count: int,
    answers: Mapping[str, Array | LazyColumn],
    columns: Mapping[str, Column],
    wanted: DataSpec,
    reading: Reading,
    where: str,
) -> Rows:
    """Pictures, of which ``image`` opens one by its number, prepared as the model wants them, with answers beside them."""
    v, _, _ = image_input([v for name, v in wanted.variables.items() if name not in wanted.targets])
    missing = [name for name in wanted.names if name != v.name and name not in answers]
    if missing:
        raise DataError(
            f"{where!r} gives the images for {v.name!r} and {sorted(answers)}, but the model takes {missing[0]!r} too. Give arrays."
        )
    remarks: list[str] = []
    sound = _sound(image, count, where) if skips_broken() else np.arange(count)
    chosen = image if len(sound) == count else lambda row: image(int(sound[row]))
    column = pictures_of(chosen, len(sound), (), wanted, reading, wanted.record.columns.get(v.name), remarks, where)
    pictures = LazyPictures(image, v.name, column, wanted, reading, where)
    lazy = {name: column for name, column in answers.items() if isinstance(column, LazyColumn)}
    labels = {name: column for name, column in answers.items() if not isinstance(column, LazyColumn)}
    rows: Rows = LazyRows({v.name: pictures, **lazy}, labels, count)
    if skips_broken() and lazy:
        sound = sound[_fitting(rows, sound, [lazy[name] for name in lazy], where)]
    if len(sound) < count:
        rows = rows.select(sound)
    rows.record = DataRecord({v.name: column, **columns})
    lines = [classes_line(name, classes) for name, classes in DataRecord(columns).classes.items()]
    rows.remarks = [*remarks, *lines, *changes_line(reading)]
    return rows


def _reads_masks(wanted: DataSpec) -> bool:
    """Return whether the loss reads a class or 0/1 channels for each pixel"""
    variables = [wanted.variables[name] for name in wanted.targets if name in wanted.variables]
    return any(v.rank == 4 or (v.rank == 3 and not v.dtype.is_float) for v in variables)


def _sound(image: Callable[[int], Any], count: int, where: str) -> Array:
    """The numbers of the pictures that can be read, where others are left out"""
    files = image.files if isinstance(image, PictureFiles) else None
    flaws = broken_among(range(count), image) if files is None else broken_among(files, opened_file)
    return left_of([f"{where}, picture {row + 1}" if files is None else str(files[row]) for row in range(count)], flaws, where)


def _fitting(rows: Rows, sound: Array, answers: Sequence[LazyColumn], where: str) -> Array:
    """Which of the sound pictures have answers that can be read, where others are left out"""

    def read(row: int) -> None:
        for column in answers:
            column.example(row, None)

    names = [str(rows.file(int(row)) or f"{where}, picture {row + 1}") for row in sound]
    flaws = broken_among([int(row) for row in sound], read)
    return left_of(names, flaws, where)


def changes_line(reading: Reading) -> list[str]:
    """A line on what is changed at random in training."""
    line = reading.changes.line()
    return [] if line is None else [line]


def _listed_cells(cells: Any) -> list[Any]:
    return list(cells.to_pylist() if hasattr(cells, "to_pylist") else cells)


def _holds_images(path: Path) -> bool:
    return next(iter(images_in(path)), None) is not None


def is_image_table(path: Path) -> bool:
    """Whether a table lists image files."""
    try:
        head = reader_of(path).head()
    except OnnxGradError:
        return False
    filled = [filled_cells(cells) for cells in head.values()]
    return any(cells and PictureColumn.recognises(cells) for cells in filled)

"""Folders and tables of image files, through Pillow."""

from __future__ import annotations

import copy
import csv
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import is_file
from onnxgrad.training.data.columns import TARGETS, Numbering, class_notes
from onnxgrad.training.data.preparing import Preparation, preparation_of
from onnxgrad.training.data.rows import Batch, Rows
from onnxgrad.training.data.spec import DataSpec

__all__ = ["Images", "Pictures", "is_image_table", "open_image"]

Array = np.ndarray[Any, Any]
Classes: TypeAlias = "Mapping[str, Sequence[str]]"
_Listed: TypeAlias = "tuple[list[Path], dict[str, Array], Classes, list[str]]"
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
PATHS = ("path", "file", "filename", "file_name", "filepath", "image", "image_path")
_SAMPLES = 16
_SMALLEST_CROP = 0.5


class Images:
    """A folder of images with a sub-folder for each class, or a .csv file with a column of paths and one of labels.

    Size, axes, channels and values are those of the model as far as its file tells; ``remarks`` of what is opened say what was
    found and what was guessed. Images are resized to the model's size; their aspect is not kept.

    Args:
        path: the folder or the .csv file; paths in that are relative to it. A folder may hold the .csv file.
        size: height and width, where the model leaves them open.
        mean, std: of the values from 0 to 1, for all channels or each.
        order: ``"rgb"`` or ``"bgr"``.
        flip: mirror half of the images, in training.
        crop: resize a part of random place, half to all of the area, in training (Szegedy et al. 2015).
        color: change brightness, contrast and saturation by a factor of up to 1 ± this, in training.

    Raises:
        ArgumentError: if ``color`` is not between 0 and 1.

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
        flip: bool = False,
        crop: bool = False,
        color: float = 0.0,
    ) -> None:
        if not 0 <= color < 1:
            raise ArgumentError(f"color is the largest change of a factor, from 0 to less than 1, not {color}.")
        self.path = Path(path)
        self.size, self.mean, self.std, self.order = size, mean, std, order
        self.changes = (flip, crop, color)

    def opened(self, wanted: DataSpec, classes: Classes | None = None) -> Pictures:
        """The data for a program; ``classes`` by target column have numbers already.

        Args:
            wanted: the columns that the program wants.
            classes: words by number, by target column.

        Raises:
            DataError: if the folder holds no images, a file is missing, or the model takes no images.
            OnnxGradError: if Pillow is missing.
        """
        numbering = Numbering(classes or {}, wanted)
        paths, columns, class_names, unused = self._listed(wanted, numbering)
        pictures = opened_pictures(self, wanted, _Files(paths), columns, class_names, unused, self.path.name)
        pictures.remarks = [*pictures.remarks, *numbering.remarks]
        return pictures

    def _listed(self, wanted: DataSpec, numbering: Numbering) -> _Listed:
        path = self.path
        if path.is_dir():
            tables = sorted(path.glob("*.csv"))
            if len(tables) == 1 and not any(entry.is_dir() and _holds_images(entry) for entry in path.iterdir()):
                path = tables[0]
        if path.is_file():
            return self._from_table(path, wanted, numbering)
        if not path.is_dir():
            raise DataError(f"there is no folder {str(path)!r}.")
        return self._from_folder(path, wanted, numbering)

    def _from_folder(self, path: Path, wanted: DataSpec, numbering: Numbering) -> _Listed:
        files_by_class = {entry.name: sorted(_images_in(entry)) for entry in sorted(path.iterdir()) if entry.is_dir()}
        target = next((name for name in wanted.names if name in wanted.targets), None)
        if target is None:
            files = sorted(_images_in(path))
            if not files:
                raise DataError(f"the folder {str(path)!r} holds no images ({', '.join(SUFFIXES)}).")
            return files, {}, {}, []
        classes = numbering.classes.get(target) or [name for name, files in files_by_class.items() if files]
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
        return [file for file, _ in listed], {target: labels}, {target: classes}, []

    def _from_table(self, path: Path, wanted: DataSpec, numbering: Numbering) -> _Listed:
        rows = _rows_of(path)
        header = list(rows[0])
        path_column = _path_column(rows[0], path.parent)
        if path_column is None:
            raise DataError(f"{str(path)!r} has no column of image files; it has {header}. Name it path, relative to the table.")
        files = [path.parent / row[path_column] for row in rows]
        for number, file in enumerate(files, 1):
            if not is_file(file):
                raise DataError(f"{path.name}, row {number}, column {path_column!r}: there is no file {str(file)!r}.")
        columns: dict[str, Array] = {}
        used = [path_column]
        for name in [name for name in [*wanted.names, *wanted.optional] if name in wanted.targets]:
            others = [other for other in header if other != path_column and other in TARGETS]
            rest = [other for other in header if other != path_column]
            source = name if name in header else others[0] if len(others) == 1 else rest[0] if len(rest) == 1 else None
            if source is None:
                raise DataError(f"{str(path)!r} has no column {name!r} for the labels; it has {header}. Rename or add it.")
            used.append(source)
            columns[name] = _labels([row[source] for row in rows], name, source, numbering, path.name)
        return files, columns, numbering.classes, [name for name in header if name not in used]


def opened_pictures(
    source: Images,
    wanted: DataSpec,
    images: _Files | Callable[[int], Any],
    columns: dict[str, Array],
    classes: Classes,
    unused: Sequence[str],
    where: str,
) -> Pictures:
    """Images by number, prepared as the model wants them."""
    if wanted.program is None:
        raise DataError(f"{where!r} holds images; nothing says here how the model takes them. Give arrays.")
    count = len(next(iter(columns.values()))) if columns else len(images)  # type: ignore[arg-type]
    chosen = sorted({round(i) for i in np.linspace(0, count - 1, min(count, _SAMPLES))})
    samples = [images(int(i)) for i in chosen]
    name, how, note = preparation_of(wanted.program, samples, source.size, source.mean, source.std, source.order)
    missing = [other for other in wanted.names if other != name and other not in columns]
    if missing:
        raise DataError(
            f"{where!r} gives the images for {name!r} and {sorted(columns)}, but the model takes {missing[0]!r} too. Give arrays."
        )
    pictures = Pictures(images, count, name, columns, how, source.changes)
    pictures.classes, pictures.unused = classes, unused
    changes = [what for what, on in zip(("mirrored", "cropped", "changed in colour"), source.changes, strict=True) if on]
    pictures.remarks = [
        note,
        *class_notes(classes),
        *([f"images are {' and '.join(changes)} at random in training."] if changes else []),
    ]
    return pictures


class Pictures(Rows):
    """Images that are read when their batch is built, and columns of labels."""

    def __init__(
        self,
        images: Callable[[int], Any],
        length: int,
        name: str,
        columns: dict[str, Array],
        how: Preparation,
        changes: tuple[bool, bool, float],
    ) -> None:
        self.images, self.length, self.name, self.columns, self.how, self.changes = images, length, name, columns, how, changes
        self.settings = [how, changes]
        self._pool: ThreadPoolExecutor | None = None

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1), "onnxgrad-images")
        arrays = list(self._pool.map(lambda row: self._prepared(int(row), epoch), rows))
        return {self.name: np.stack(arrays), **{name: column[rows] for name, column in self.columns.items()}}

    def _prepared(self, row: int, epoch: tuple[int, int] | None) -> Array:
        image = self.images(row)
        if epoch is not None and any(self.changes):
            image = _changed(image, self.how.size, self.changes, np.random.default_rng([*epoch, row]))
        if image.size != self.how.size[::-1]:
            image = image.resize(self.how.size[::-1], 2)
        return self.how.array(image)

    def column(self, name: str) -> Array | None:
        return self.columns.get(name)

    def plain(self) -> Pictures:
        pictures = copy.copy(self)
        pictures.changes = (False, False, 0.0)
        return pictures


def _changed(image: Any, size: tuple[int, int], changes: tuple[bool, bool, float], rng: np.random.Generator) -> Any:
    """Flipped, cropped and resized, and changed in colour; of Pillow's modes L and RGB"""
    from PIL import ImageEnhance, ImageOps

    flip, crop, color = changes
    if crop:
        scale = np.sqrt(rng.uniform(_SMALLEST_CROP, 1.0))
        width, height = image.size[0] * scale, image.size[1] * scale
        left, top = rng.uniform(0, image.size[0] - width), rng.uniform(0, image.size[1] - height)
        image = image.resize(size[::-1], 2, box=(left, top, left + width, top + height))
    if flip and rng.random() < 0.5:
        image = ImageOps.mirror(image)
    if color:
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            image = enhance(image).enhance(float(rng.uniform(1 - color, 1 + color)))
    return image


def open_image(path: Path) -> Any:
    """Read an image file as grey or RGB, turned as its metadata says.

    Raises:
        DataError: if it cannot be read.
        OnnxGradError: if Pillow is missing.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise OnnxGradError("images need the package Pillow. Install onnxgrad[images].") from error
    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("L" if image.mode in ("1", "L", "I;16") else "RGB")
    except Exception as error:
        # Each format has a decoder of its own, which raises what it does over damaged bytes.
        reason = str(error) or type(error).__name__
        raise DataError(f"cannot read the image {str(path)!r}: {reason}. Remove or replace it.") from error


class _Files:
    """Images of files, by number."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __call__(self, number: int) -> Any:
        return open_image(self.paths[number])


def _holds_images(path: Path) -> bool:
    return next(iter(_images_in(path)), None) is not None


def _images_in(path: Path) -> list[Path]:
    return [
        file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()
    ]


def _rows_of(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {str(path)!r}: {error}.") from error
    if not rows:
        raise DataError(f"{str(path)!r} has no rows below its header.")
    for number, row in enumerate(rows, 1):
        if None in row:
            raise DataError(f"{path.name}, row {number} has more cells than the header has names. Correct it.")
    return rows


def _path_column(row: dict[str, str], folder: Path) -> str | None:
    """The column of the names of image files: one of the usual names, or the only one that looks so"""
    looks = [name for name, cell in row.items() if cell and Path(cell).suffix.lower() in SUFFIXES]
    named = [name for name in PATHS if name in row]
    return next((name for name in named if name in looks), looks[0] if len(looks) == 1 else None)


def is_image_table(path: Path) -> bool:
    """Whether a .csv file lists image files."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            row: dict[Any, Any] | None = next(csv.DictReader(file, restval=""), None)
    except (OSError, UnicodeDecodeError, csv.Error):
        return False
    if row is not None:
        row.pop(None, None)  # cells beyond the header
    return row is not None and _path_column(row, path.parent) is not None


def _labels(cells: list[str], name: str, column: str, numbering: Numbering, where: str) -> Array:
    """Return labels as numbers; class names become class numbers"""
    for row, cell in enumerate(cells, 1):
        if not (cell or "").strip():
            raise DataError(f"{where}, row {row}, column {column!r} is empty. Fill it in, or leave the row out.")
    for number_type in (int, float) if name not in (*numbering.classes, *numbering.wanted.spelled) else ():
        with suppress(ValueError):
            return np.array([number_type(cell) for cell in cells])
    return numbering(name, cells, where)

"""Columns of pictures: a path in each cell, or the image itself; read when their batch is built.

Tests: tests/training/data/test_images.py, tests/training/data/test_kinds.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnxgrad.errors import DataError, OnnxGradError
from onnxgrad.internal.files import is_file
from onnxgrad.training.data.broken import broken_among, flaws_in
from onnxgrad.training.data.changes import Changes
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading, are_numbers, is_whole
from onnxgrad.training.data.picture_files import SUFFIXES, size_of
from onnxgrad.training.data.preparing import AROUND, Preparation, preparation_of
from onnxgrad.training.data.rows import Batch
from onnxgrad.training.data.views import FITS, View, joined_arrays, view_of

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = [
    "LazyPictures",
    "PictureColumn",
    "PictureFiles",
    "as_picture",
    "broken_files",
    "named_files",
    "opened_file",
    "picture_at",
    "pictures_of",
    "white_of",
]

Array = np.ndarray[Any, Any]
BILINEAR = 2
_SAMPLES = 16
_DEEP = ("I", "F")
"""Modes of Pillow that do not say which value is white."""
_WHITES = (1.0, 255.0, 65535.0)


@dataclass(frozen=True)
class PictureColumn(Column):
    """The path of an image in each cell.

    Attributes:
        size: height and width of the model's input.
        layout: ``"CHW"`` or ``"HWC"``.
        order: ``"RGB"``, ``"BGR"`` or ``"L"``.
        mean, std: of values from 0 to 1, of each channel.
        white: the value of a white pixel in images of more than 8 bits; None where there were none.
        fit: how images of another size get into the input: one of ``views.FITS``.
        around: value, from 0 to 255, of what lies around such an image.
    """

    size: tuple[int, int] = (1, 1)
    layout: str = "CHW"
    order: str = "RGB"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    white: float | None = None
    fit: str = FITS[0]
    around: int = AROUND

    kind: ClassVar[str] = "picture"
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {
        "size": lambda v: isinstance(v, (list, tuple)) and len(v) == 2 and all(map(is_whole, v)),
        "layout": lambda v: v in ("CHW", "HWC"),
        "order": lambda v: v in ("RGB", "BGR", "L"),
        "mean": lambda v: are_numbers(v) and len(v) in (1, 3),
        "std": lambda v: are_numbers(v) and len(v) in (1, 3) and min(v) > 0,
        "white": lambda v: are_numbers([v]) and v > 0,
        "fit": lambda v: v in FITS,
        "around": lambda v: is_whole(v + 1 if isinstance(v, int) else v) and v < 256,
    }

    @classmethod
    def recognises(cls, cells: Sequence[Any]) -> bool:
        return all(isinstance(cell, str) and cell.strip().lower().endswith(SUFFIXES) for cell in cells)

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> PictureColumn:
        (part,) = cells.values
        files = named_files(cells, part)
        return pictures_of(PictureFiles(files), len(files), (part,), wanted, reading, known, remarks, cells.where)

    @classmethod
    def flaws(cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None) -> dict[int, str]:
        return broken_files(cells, opened_file)

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        (part,) = self.parts
        return {name: LazyPictures(PictureFiles(named_files(cells, part)), name, self, wanted, reading, cells.where)}

    def preparation(self, dtype: Any) -> Preparation:
        """How an image becomes an array of this dtype."""
        return Preparation(self.size, self.layout, self.order, self.mean, self.std, dtype, self.fit, self.around)


def pictures_of(
    image: Callable[[int], Any],
    count: int,
    parts: tuple[str, ...],
    wanted: DataSpec,
    reading: Reading,
    known: Column | None,
    remarks: list[str],
    where: str,
) -> PictureColumn:
    """Find out how a model takes pictures, of which ``image`` opens one by its number."""
    if wanted.program is None:
        raise DataError(f"{where!r} holds images, and their preprocessing is not known here. Give arrays.")
    recorded = known if isinstance(known, PictureColumn) else None
    chosen = sorted({round(i) for i in np.linspace(0, count - 1, min(count, _SAMPLES))})
    samples = [image(int(i)) for i in chosen]
    white = reading.white if reading.white is not None else None if recorded is None else recorded.white
    if white is None:
        white = white_of(samples)
    see_through = sum(has_alpha(sample) for sample in samples)
    pictures = [
        as_picture(sample, white, sample.info.get("path") or f"{where}, picture {row + 1}")
        for row, sample in zip(chosen, samples, strict=True)
    ]
    given = (reading.size, reading.mean, reading.std, reading.order)
    _, how, note = preparation_of(wanted.program, pictures, *given, recorded, reading.fit)
    remarks.append(note)
    if see_through:
        remarks.append(f"{see_through} of {len(samples)} images that were read are partly transparent; they are drawn over white.")
    if white is not None:
        remarks.append(f"in images of more than 8 bits {white:g} is white{', as given' if reading.white is not None else ''}.")
    return PictureColumn(parts, how.size, how.layout, how.order, how.mean, how.std, white, how.fit, how.around)


class LazyPictures(LazyColumn):
    """Pictures of which ``image`` opens one by its number, prepared as a model takes them; ``where`` is for messages.

    Attributes:
        others: numbers of the pictures that one may be shown with; the rows that read the column say them.
    """

    def __init__(
        self,
        image: Callable[[int], Any],
        name: str,
        column: PictureColumn,
        wanted: DataSpec,
        reading: Reading,
        where: str,
    ) -> None:
        v = wanted.variables.get(name)
        self.image, self.name, self.where, self.changes, self.white = image, name, where, reading.changes, column.white
        self.how = column.preparation(np.float32 if v is None else v.dtype.numpy)
        self.others: Array = np.zeros(0, np.int64)

    def example(self, row: int, epoch: tuple[int, int] | None) -> Batch:
        pictures: dict[int, Any] = {}

        def opened_size(number: int) -> tuple[int, int]:
            pictures[number] = self.picture(number) if number not in pictures else pictures[number]
            width, height = pictures[number].size
            return width, height

        views, rng = self._drawn(row, epoch, opened_size)
        arrays = []
        for number, view in views:
            image = view.image(pictures[number], self.how.ground(pictures[number].mode), BILINEAR)
            arrays.append(self.how.array(image if rng is None else self.changes.colored(image, rng)))
        axis = -2 if self.how.layout == "CHW" else -3
        return {self.name: joined_arrays(arrays, [view for _, view in views], axis) if len(arrays) > 1 else arrays[0]}

    def view(self, row: int) -> View:
        """Where a picture lies in the input without random changes."""
        return view_of(self.picture_size(row), self.how.size, self.how.fit)

    def views(self, row: int, epoch: tuple[int, int] | None) -> list[tuple[int, View]]:
        """The numbers of the pictures that an example shows in an epoch, None for no random changes, and where they lie."""
        return self._drawn(row, epoch, self.picture_size)[0]

    def _drawn(
        self, row: int, epoch: tuple[int, int] | None, picture_size: Callable[[int], tuple[int, int]]
    ) -> tuple[list[tuple[int, View]], np.random.Generator | None]:
        """What an example shows, and the generator that goes on to draw its colours"""
        size, fit = self.how.size, self.how.fit
        if epoch is None or not self.changes:
            return [(row, view_of(picture_size(row), size, fit))], None
        rng = np.random.default_rng([*epoch, row])
        return self.changes.views(row, self.others, picture_size, size, fit, epoch[1], rng), rng

    def picture(self, row: int) -> Any:
        """The picture as its file has it, of mode L, RGB or F."""
        opened = self.image(row)
        return as_picture(opened, self.white, opened.info.get("path") or f"{self.where}, picture {row + 1}")

    def picture_size(self, row: int) -> tuple[int, int]:
        """Width and height of the picture as its file has it."""
        width, height = self.image.size(row) if isinstance(self.image, PictureFiles) else self.image(row).size
        return int(width), int(height)

    def file(self, row: int) -> Path | None:
        """The file of the picture, if it has one."""
        return self.image.files[row] if isinstance(self.image, PictureFiles) else None

    def plain(self) -> LazyPictures:
        pictures = copy.copy(self)
        pictures.changes = Changes()
        return pictures

    @property
    def settings(self) -> Sequence[object]:
        return [self.how, self.changes]


class PictureFiles:
    """Pictures of files, which a number opens."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = list(files)

    def __call__(self, row: int) -> Any:
        return opened_file(self.files[row])

    def size(self, row: int) -> tuple[int, int]:
        """Width and height, without reading the pixels."""
        return size_of(self.files[row])


def named_files(cells: Cells, part: str) -> list[Path]:
    """The files that a column names, relative to the table.

    Raises:
        DataError: naming the cell that is empty, or whose file is missing.
    """
    values = cells.values[part]
    files = []
    for row, cell in enumerate(values.to_pylist() if hasattr(values, "to_pylist") else values):
        if cell is None or not str(cell).strip():
            raise DataError(f"{cells.at(row, part)} is empty. Fill it in, or leave the row out.")
        files.append(cells.folder / str(cell))
        if not is_file(files[-1]):
            raise DataError(f"{cells.at(row, part)}: there is no file {str(files[-1])!r}.")
    return files


def broken_files(cells: Cells, read: Callable[[Path], object]) -> dict[int, str]:
    """The rows of a column of files of which one is missing or cannot be read, and why."""
    (part,) = cells.values
    missing = flaws_in(lambda rows: named_files(cells.of_rows(rows), part), cells.count)
    there = np.array([row for row in range(cells.count) if row not in missing], np.int64)
    unread = broken_among(named_files(cells.of_rows(there), part), read)
    return {**missing, **{int(there[at]): reason for at, reason in unread.items()}}


# Images of Pillow ----------------------------------------------------------------------------------------------------


def opened_file(path: Path) -> Any:
    """Read an image file as it is, turned as its metadata says.

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
            turned: Any = ImageOps.exif_transpose(image)
            turned.info["path"] = str(path)
            return turned
    except Exception as error:
        # Each format has a decoder of its own, which raises what it does over damaged bytes.
        reason = str(error) or type(error).__name__
        raise DataError(f"cannot read the image {str(path)!r}: {reason}. Remove or replace it.") from error


def picture_at(path: Path, white: float | None = None) -> Any:
    """Read an image file as ``as_picture`` gives it.

    Raises:
        DataError: if it cannot be read.
        OnnxGradError: if Pillow is missing.
    """
    return as_picture(opened_file(path), white, str(path))


def as_picture(image: Any, white: float | None, where: str) -> Any:
    """An image of any mode of Pillow as one of L or RGB, or of F with values from 0 to 255 where it has more than 8 bits.

    Args:
        image: is laid over white where it is transparent.
        white: the value of white in images of more than 8 bits; None for 65535 of 16 bits, and what ``white_of`` says of others.
        where: the image, for messages.

    Raises:
        DataError: if a value is negative or above white.
    """
    from PIL import Image

    mode = image.mode
    if mode.startswith("I;16") or mode in _DEEP:
        values = np.asarray(image, np.float32)
        top = white if white is not None else 65535.0 if mode.startswith("I;16") else white_of([image]) or 1.0
        if values.size and not (values.min() >= 0 and values.max() <= top):
            wrong = values.min() if values.min() < 0 else values.max()
            raise DataError(f"{where} holds the value {wrong:g}, and white is {top:g}. Give the value of white (--image-white).")
        return Image.fromarray((values * np.float32(255.0 / top)).astype(np.float32))
    if has_alpha(image):
        grey = mode in ("LA", "La")
        image = image.convert("RGBA")
        over = Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image)
        return over.convert("L" if grey else "RGB")
    return image.convert("L" if mode in ("1", "L") else "RGB")


def has_alpha(image: Any) -> bool:
    """Return whether parts of an image of Pillow may be transparent."""
    return image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info


def white_of(images: Sequence[Any]) -> float | None:
    """Return the value of white of images of more than 8 bits: 65535 of 16, else the first of 1, 255 and 65535 that none exceeds.

    None if there is no such image.

    Raises:
        DataError: if values are beyond these.
    """
    deep = [image for image in images if image.mode.startswith("I;16") or image.mode in _DEEP]
    if not deep:
        return None
    if any(image.mode != "F" for image in deep):
        highest = 65535.0
        top = max(float(np.asarray(image).max()) for image in deep)
    else:
        top = max(float(np.asarray(image).max()) for image in deep)
        highest = next((white for white in _WHITES if top <= white), 0.0)
    if top > highest:
        raise DataError(f"images hold values up to {top:g}, and do not give the value of white. Give it (--image-white).")
    return highest

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
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading, are_numbers, is_whole
from onnxgrad.training.data.preparing import Preparation, preparation_of
from onnxgrad.training.data.rows import Batch

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["SUFFIXES", "LazyPictures", "PictureColumn", "as_picture", "opened_file", "picture_at", "pictures_of", "white_of"]

Array = np.ndarray[Any, Any]
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_SAMPLES = 16
_SMALLEST_CROP = 0.5
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
    """

    size: tuple[int, int] = (1, 1)
    layout: str = "CHW"
    order: str = "RGB"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    white: float | None = None

    kind: ClassVar[str] = "picture"
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {
        "size": lambda v: isinstance(v, (list, tuple)) and len(v) == 2 and all(map(is_whole, v)),
        "layout": lambda v: v in ("CHW", "HWC"),
        "order": lambda v: v in ("RGB", "BGR", "L"),
        "mean": lambda v: are_numbers(v) and len(v) in (1, 3),
        "std": lambda v: are_numbers(v) and len(v) in (1, 3) and min(v) > 0,
        "white": lambda v: are_numbers([v]) and v > 0,
    }

    @classmethod
    def recognises(cls, cells: Sequence[Any]) -> bool:
        return all(isinstance(cell, str) and cell.strip().lower().endswith(SUFFIXES) for cell in cells)

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> PictureColumn:
        (part,) = cells.values
        files = _files(cells, part)
        return pictures_of(lambda row: opened_file(files[row]), len(files), (part,), wanted, reading, known, remarks, cells.where)

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        (part,) = self.parts
        files = _files(cells, part)
        return {name: LazyPictures(lambda row: opened_file(files[row]), name, self, wanted, reading, cells.where)}

    def preparation(self, dtype: Any) -> Preparation:
        """How an image becomes an array of this dtype."""
        return Preparation(self.size, self.layout, self.order, self.mean, self.std, dtype)


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
        raise DataError(f"{where!r} holds images; nothing says here how the model takes them. Give arrays.")
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
    _, how, note = preparation_of(wanted.program, pictures, reading.size, reading.mean, reading.std, reading.order, recorded)
    remarks.append(note)
    if see_through:
        remarks.append(
            f"{see_through} of {len(samples)} images that were looked at are partly transparent; they are laid over white."
        )
    if white is not None:
        remarks.append(f"in images of more than 8 bits {white:g} is white{', as given' if reading.white is not None else ''}.")
    return PictureColumn(parts, how.size, how.layout, how.order, how.mean, how.std, white)


class LazyPictures(LazyColumn):
    """Pictures of which ``image`` opens one by its number, prepared as a model takes them; ``where`` is for messages."""

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

    def example(self, row: int, epoch: tuple[int, int] | None) -> Batch:
        opened = self.image(row)
        image = as_picture(opened, self.white, opened.info.get("path") or f"{self.where}, picture {row + 1}")
        if epoch is not None and any(self.changes):
            image = _changed(image, self.how.size, self.changes, np.random.default_rng([*epoch, row]))
        if image.size != self.how.size[::-1]:
            image = image.resize(self.how.size[::-1], 2)
        return {self.name: self.how.array(image)}

    def plain(self) -> LazyPictures:
        pictures = copy.copy(self)
        pictures.changes = (False, False, 0.0)
        return pictures

    @property
    def settings(self) -> Sequence[object]:
        return [self.how, self.changes]


def _files(cells: Cells, part: str) -> list[Path]:
    """The files that a column names, relative to the table"""
    values = cells.values[part]
    files = []
    for row, cell in enumerate(values.to_pylist() if hasattr(values, "to_pylist") else values):
        if cell is None or not str(cell).strip():
            raise DataError(f"{cells.at(row, part)} is empty. Fill it in, or leave the row out.")
        files.append(cells.folder / str(cell))
        if not is_file(files[-1]):
            raise DataError(f"{cells.at(row, part)}: there is no file {str(files[-1])!r}.")
    return files


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
            raise DataError(f"{where} holds the value {wrong:g}, and white is {top:g}. Say which value is white (--image-white).")
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
        raise DataError(f"images hold values up to {top:g}, and do not say which is white. Say it (--image-white).")
    return highest


def _changed(image: Any, size: tuple[int, int], changes: tuple[bool, bool, float], rng: np.random.Generator) -> Any:
    """Flipped, cropped and resized, and changed in colour; of Pillow's modes L, RGB and F"""
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
            factor = float(rng.uniform(1 - color, 1 + color))
            image = _changed_grey(image, enhance, factor) if image.mode == "F" else enhance(image).enhance(factor)
    return image


def _changed_grey(image: Any, enhance: Any, factor: float) -> Any:
    """Brightness and contrast of an image of floats, which Pillow does not change"""
    from PIL import Image, ImageEnhance

    values = np.asarray(image)
    if enhance is ImageEnhance.Color:
        return image
    level = values.mean() if enhance is ImageEnhance.Contrast else 0.0
    return Image.fromarray(np.clip(level + (values - level) * factor, 0, 255).astype(np.float32))

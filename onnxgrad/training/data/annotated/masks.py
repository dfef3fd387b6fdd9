"""Masks: pictures whose pixels are the classes of the pixels of another.

Tests: tests/training/data/annotated/test_masks.py.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.answers import IGNORED, Listing, Masks
from onnxgrad.training.data.annotated.fields import read_lines, read_text
from onnxgrad.training.data.broken import broken_among, is_left_out, skips_broken
from onnxgrad.training.data.picture_files import images_in

__all__ = [
    "COLOUR_TABLES",
    "MaskFiles",
    "colour_table_in",
    "mask_files",
    "mask_folders",
    "opened_mask",
    "read_colours",
    "read_masks",
]

Array = np.ndarray[Any, Any]
Colours = Mapping[str, Sequence[int]]
COLOUR_TABLES = ("class_dict.csv", "colors.csv", "colours.csv", "labelmap.txt")
"""Files that say which colour is which class: name, red, green and blue on each line, or ``name:red,green,blue``."""
_VOID = 255
_LOOKED_AT = 64


class MaskFiles:
    """The way in which mask files hold classes.

    Args:
        colours: red, green and blue by the name of a class, for masks in colours; the classes are numbered in this order.
        binary: whether files of 0 and 255 alone hold the classes 0 and 1; otherwise 255 does not count.

    Example:
        >>> from PIL import Image
        >>> masks = MaskFiles({"sky": (0, 0, 255), "grass": (0, 255, 0)})
        >>> masks.classes_of(Image.new("RGB", (2, 1), (0, 255, 0)), "a.png").tolist()
        [[1, 1]]
    """

    def __init__(self, colours: Colours | None = None, binary: bool = False) -> None:
        self.colours, self.binary = colours, binary

    def __call__(self, path: Path) -> Array:
        """The classes of a file, int64 [height, width], -1 where they do not count.

        Raises:
            DataError: if it cannot be read, or holds a colour that is no class.
        """
        return self.classes_of(opened_mask(path), str(path))

    def classes_of(self, image: Any, where: str) -> Array:
        """The classes of an image of Pillow."""
        pixels = np.asarray(image)
        if pixels.dtype == bool:
            return pixels.astype(np.int64)
        if image.mode == "P" or pixels.ndim == 2:
            if self.colours is not None and image.mode == "P":
                return self._by_colour(np.asarray(image.convert("RGB")), where)
            return self._numbers(pixels, where)
        pixels = pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., :1]
        if self.colours is not None:
            return self._by_colour(pixels, where)
        if (pixels == pixels[..., :1]).all():
            return self._numbers(pixels[..., 0], where)
        raise DataError(
            f"the mask {where!r} is in colours, and there is no table of classes. Write {COLOUR_TABLES[0]} beside it, with "
            "name,r,g,b on each line."
        )

    def _numbers(self, pixels: Array, where: str) -> Array:
        if pixels.dtype.kind not in "iu":
            raise DataError(f"the mask {where!r} holds {pixels.dtype} values, which number no classes. Write whole numbers.")
        classes = pixels.astype(np.int64)
        if self.binary:
            return (classes == _VOID).astype(np.int64) if classes.max(initial=0) == _VOID else classes
        return np.where((classes == _VOID) | (classes < 0), IGNORED, classes)

    def _by_colour(self, pixels: Array, where: str) -> Array:
        assert self.colours is not None
        keys = pixels.astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
        table = np.array([(r << 16) + (g << 8) + b for r, g, b in self.colours.values()])
        order = np.argsort(table)
        place = np.minimum(np.searchsorted(table[order], keys), len(table) - 1)
        classes = order[place]
        wrong = table[classes] != keys
        if wrong.any():
            row, column = (int(at[0]) for at in np.nonzero(wrong))
            colour = tuple(int(v) for v in pixels[row, column])
            raise DataError(f"the mask {where!r} has the colour {colour} at x {column}, y {row}, which no class has. Add it.")
        return np.asarray(classes, np.int64)


def mask_folders(path: Path) -> tuple[Path, Path] | None:
    """The folders of pictures and of masks in a folder; None if it has none.

    The masks' folder is called ``masks``, ``labels``, ``annotations`` or ``SegmentationClass``, and holds pictures itself.
    """
    for pictures, masks in (
        ("images", "masks"),
        ("imgs", "masks"),
        ("images", "labels"),
        ("images", "annotations"),
        ("JPEGImages", "SegmentationClass"),
    ):
        if (path / pictures).is_dir() and (path / masks).is_dir() and next(iter(images_in(path / masks)), None) is not None:
            return path / pictures, path / masks
    return None


def read_masks(
    path: Path, colours: Colours | None = None, known: Sequence[str] | None = None, recorded: MaskFiles | None = None
) -> Listing:
    """Read a folder of pictures and one of masks, each mask of the name of its picture (or with ``_mask`` behind it).

    A folder of masks with a sub-folder for each class gives 0/1 channels, in the order of the alphabet.

    Args:
        path: of the folder that holds both.
        colours: of the classes, for masks in colours; None for those of a file in the folder (``COLOUR_TABLES``).
        known: names of classes by number, of the training data.
        recorded: how the masks of the training data hold classes; None to find out.

    Raises:
        DataError: naming the picture without a mask, or the file that cannot be read.
    """
    folders = mask_folders(path)
    if folders is None:
        raise DataError(f"{str(path)!r} has no folders 'images' and 'masks' with images in both.")
    pictures, masks = folders
    subfolders = sorted(entry for entry in masks.iterdir() if entry.is_dir() and next(iter(images_in(entry)), None) is not None)
    layers = subfolders or [masks]
    stems = [{_stem(file.stem): file for file in sorted(images_in(layer), reverse=True)} for layer in layers]
    paths = sorted(images_in(pictures))
    if masks.name == "SegmentationClass":  # VOC has masks for some pictures
        paths = [file for file in paths if file.stem in stems[0]]
    if not paths:
        raise DataError(f"{str(pictures)!r} holds no images.")
    files, masked = [], []
    for file in paths:
        missing = next((layer for layer, stem in zip(layers, stems, strict=True) if file.stem not in stem), None)
        if missing is not None:
            reason = f"the image {str(file)!r} has no mask of its name in {str(missing)!r}. Add it, or remove the image."
            if not is_left_out(str(file), reason):
                raise DataError(reason)
            continue
        masked.append(file)
        files.append([stem[file.stem] for stem in stems])
    if not files:
        raise DataError(f"no image in {str(pictures)!r} has a mask of its name in {str(masks)!r}.")
    paths = masked
    table = colours if colours is not None else colour_table_in(path)
    names = [folder.name for folder in subfolders] if subfolders else None if table is None else list(table)
    return mask_files(paths, files, table, names or (None if known is None else list(known)), path.name, recorded)


def mask_files(
    paths: list[Path],
    files: list[list[Path]],
    colours: Colours | None,
    names: list[str] | None,
    where: str,
    recorded: MaskFiles | None = None,
) -> Listing:
    """List pictures and their mask files, after a look at some of these: which classes occur, and what 255 means.

    ``recorded`` says so of the training data, and counts.
    """
    colours = recorded.colours if colours is None and recorded is not None else colours
    chosen = sorted({round(at) for at in np.linspace(0, len(files) - 1, min(len(files), _LOOKED_AT))})
    plain = MaskFiles(colours)
    values: set[int] = set()
    looked_at = [file for number in chosen for file in files[number]]
    unread = broken_among(looked_at, opened_mask) if skips_broken() else {}
    for file in (file for at, file in enumerate(looked_at) if at not in unread):
        image = opened_mask(file)
        if colours is None:
            values |= set(np.unique(np.asarray(image)).astype(np.int64).tolist())
        else:
            values |= set(np.unique(plain.classes_of(image, str(file))).tolist())
    binary = values <= {0, _VOID} and _VOID in values if recorded is None else recorded.binary
    binary = binary and colours is None
    channels = len(files[0]) if len(files[0]) > 1 else 0
    remarks = []
    if binary:
        remarks.append(f"masks of {where} hold 0 and 255 alone: these are the classes 0 and 1.")
    elif colours is None and _VOID in values:
        remarks.append(f"255 in the masks of {where} is ignored.")
    largest = max((value for value in values if value != _VOID or binary), default=0)
    count = 2 if binary else largest + 1
    classes = names or [str(number) for number in range(min(count, 1 << 16))]
    return Listing(paths, Masks(files, MaskFiles(colours, binary), channels), classes, remarks)


def colour_table_in(folder: Path) -> dict[str, tuple[int, int, int]] | None:
    """The colour table in a folder, if there is one."""
    file = next((folder / name for name in COLOUR_TABLES if (folder / name).is_file()), None)
    return None if file is None else read_colours(file)


def read_colours(path: Path) -> dict[str, tuple[int, int, int]]:
    """Read which colour is which class: lines of ``name,r,g,b`` or ``name:r,g,b``; a header and lines with # are passed over.

    Raises:
        DataError: naming the line that is damaged.
    """
    colours: dict[str, tuple[int, int, int]] = {}
    if path.suffix == ".csv":
        try:
            rows = list(csv.reader(read_text(path).splitlines()))
        except csv.Error as error:
            raise DataError(f"cannot read {str(path)!r}: {error}.") from error
        lines = [(number, [cell.strip() for cell in row]) for number, row in enumerate(rows, 1) if any(row)]
        lines = lines[1:] if lines and not any(cell.isdecimal() for cell in lines[0][1]) else lines
    else:
        lines = [
            (n, [*line.split(":")[:1], *":".join(line.split(":")[1:2]).split(",")])
            for n, line in read_lines(path)
            if line[:1] != "#"
        ]
    for number, cells in lines:
        where = f"{path.name}, line {number}"
        values = [int(cell) for cell in map(str.strip, cells[1:4]) if cell.isdecimal() and len(cell) < 4 and int(cell) < 256]
        if len(values) != 3 or not cells[0].strip():
            raise DataError(f"{where} is not a name and red, green and blue from 0 to 255. Correct it.")
        if cells[0].strip() in colours or tuple(values) in colours.values():
            raise DataError(f"{where} has a name or a colour that an earlier line has. Correct it.")
        colours[cells[0].strip()] = (values[0], values[1], values[2])
    if not colours:
        raise DataError(f"{str(path)!r} names no colours.")
    return colours


def _stem(stem: str) -> str:
    return stem.removesuffix("_mask").removesuffix("_gt")


def opened_mask(path: Path) -> Any:
    """A mask as it lies in its file: palette numbers stay numbers.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        from PIL import Image

        with Image.open(path) as image:
            image.load()
            return image.convert("L") if image.mode == "1" else image.copy()
    except Exception as error:
        # Each format has a decoder of its own, which raises what it does over damaged bytes.
        reason = str(error) or type(error).__name__
        raise DataError(f"cannot read the mask {str(path)!r}: {reason}. Remove or replace it.") from error

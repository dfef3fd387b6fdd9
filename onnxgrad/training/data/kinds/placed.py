"""Columns of answers that have a place in a picture: boxes, regions and masks. They follow what is done with its pixels.

Tests: tests/training/data/annotated/test_answers.py, tests/training/data/test_placed.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.answers import Answers, Listing, Masks, Regions
from onnxgrad.training.data.annotated.masks import MaskFiles, mask_files, opened_mask
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading, are_texts
from onnxgrad.training.data.kinds.picture import LazyPictures, broken_files, named_files
from onnxgrad.training.data.rows import Batch

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["BoxesColumn", "LazyPlaced", "MaskColumn", "RegionsColumn", "placed_columns"]

Array = np.ndarray[Any, Any]
_MOST_COLOURS = 1 << 16


@dataclass(frozen=True)
class BoxesColumn(Column):
    """Boxes of classes.

    Attributes:
        classes: the names by number.
    """

    classes: tuple[str, ...] = ()

    kind: ClassVar[str] = "boxes"
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {"classes": are_texts}


@dataclass(frozen=True)
class RegionsColumn(BoxesColumn):
    """Regions with straight edges, such as lines of text."""

    kind: ClassVar[str] = "regions"


@dataclass(frozen=True)
class MaskColumn(Column):
    """The path of a mask in each cell: a picture whose values are the classes of the pixels of another.

    Attributes:
        classes: the names by number, where they have some.
        binary: whether masks hold 0 and 255 alone, for the classes 0 and 1.
        colours: of masks in colours, red, green and blue of each class, one after the other.
    """

    classes: tuple[str, ...] = ()
    binary: bool = False
    colours: tuple[int, ...] = ()

    kind: ClassVar[str] = "mask"
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {
        "classes": are_texts,
        "binary": lambda v: isinstance(v, bool),
        "colours": lambda v: isinstance(v, (list, tuple)) and len(v) % 3 == 0 and all(map(_is_byte, v)),
    }

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> MaskColumn:
        (part,) = cells.values
        files = named_files(cells, part)
        listing = mask_files(files, [[file] for file in files], reading.colours, None, cells.where, _read_of(known))
        remarks.extend(listing.remarks)
        return _mask_column(listing, (part,))

    @classmethod
    def flaws(cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None) -> dict[int, str]:
        return broken_files(cells, opened_mask)

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        (part,) = self.parts
        masks = Masks([[file] for file in named_files(cells, part)], self.reader)
        return {name: LazyPlaced(name, as_wanted(masks, wanted.variables.get(name), cells.where))}

    @property
    def reader(self) -> MaskFiles:
        """What reads the classes of a file."""
        table = zip(self.classes, np.reshape(self.colours, (-1, 3)).tolist(), strict=False)
        return MaskFiles(dict(table) if self.colours else None, self.binary)


class LazyPlaced(LazyColumn):
    """Answers that are moved as the picture beside them is, when their batch is built."""

    def __init__(self, name: str, answers: Answers) -> None:
        self.name, self.answers = name, answers
        self.pictures: LazyPictures | None = None

    def beside(self, columns: Mapping[str, LazyColumn]) -> None:
        self.pictures = next((column for column in columns.values() if isinstance(column, LazyPictures)), None)

    def example(self, row: int, epoch: tuple[int, int] | None) -> Batch:
        if self.pictures is None:
            raise DataError(f"the column {self.name!r} has positions in images, and the data has no images. Add their paths.")
        return {self.name: self.answers.joined(self.pictures.views(row, epoch))}

    def stacked(self, values: Sequence[Array]) -> Array:
        return self.answers.stacked(values)

    def original(self, row: int) -> Any:
        """The answer in pixels of the picture."""
        assert self.pictures is not None
        return self.answers.original(row, self.pictures.picture_size(row))

    @property
    def settings(self) -> Sequence[object]:
        return [f"{self.name}: {self.answers.kind}, CRC {self.answers.checksum():08x}"]


def placed_columns(listing: Listing, wanted: DataSpec, where: str) -> tuple[dict[str, LazyPlaced], dict[str, Column]]:
    """The answers of a listing for the target that takes them, which has their name (boxes, mask, regions) or is the only one.

    Raises:
        DataError: if the loss takes another kind of answers, or there are several targets and none has the name.
    """
    targets = [name for name in wanted.names if name in wanted.targets]
    if not targets:
        return {}, {}
    answers: Any = listing.answers
    kinds = ("regions", "boxes") if isinstance(answers, Regions) else (answers.kind,)
    name = next((kind for kind in kinds if kind in targets), targets[0])
    if len(targets) > 1 and name not in kinds:
        raise DataError(f"{where!r} holds {answers.kind}; which of the targets {targets} is that? Call it {answers.kind!r}.")
    v = wanted.variables.get(name)
    if isinstance(answers, Masks):
        return {name: LazyPlaced(name, as_wanted(answers, v, where))}, {name: _mask_column(listing, ())}
    if isinstance(answers, Regions) and (name == "boxes" or (v is not None and v.dims is not None and v.dims[-1:] == (5,))):
        answers = answers.as_boxes()
    if v is not None and v.rank not in (None, 3):
        raise DataError(f"{where!r} holds {answers.kind}, but the loss takes {v!r}. Choose a loss of boxes (--task detect).")
    kind = RegionsColumn if isinstance(answers, Regions) else BoxesColumn
    return {name: LazyPlaced(name, answers)}, {name: kind((), tuple(listing.classes))}


def as_wanted(masks: Masks, v: Variable | None, where: str) -> Masks:
    """Masks as class numbers, or as 0/1 channels where the loss takes floating-point numbers.

    Raises:
        DataError: if the loss takes no masks, or one class for each pixel where the masks have several channels.
    """
    if v is None or v.dims is None:
        return masks
    if v.rank not in (3, 4):
        raise DataError(f"{where!r} holds masks, but the loss takes {v!r}. Choose a loss of the model's masks (--task segment).")
    height, width = v.dims[-2:]
    size = (height, width) if isinstance(height, int) and isinstance(width, int) else None
    if not v.dtype.is_float:
        if masks.channels:
            raise DataError(
                f"the masks of {where!r} have {masks.channels} 0/1 channels, but the loss takes one class for each pixel. "
                "Use bce_with_logits."
            )
        return Masks(masks.paths, masks.read, 0, size)
    channels = v.dims[1] if v.rank == 4 else None
    return Masks(masks.paths, masks.read, channels if isinstance(channels, int) else masks.channels or 1, size)


def _mask_column(listing: Listing, parts: tuple[str, ...]) -> MaskColumn:
    """What is recorded of masks; names that only count the classes are not"""
    assert isinstance(listing.answers, Masks)
    read, names = listing.answers.read, tuple(listing.classes)
    named = names if names != tuple(map(str, range(len(names)))) else ()
    if not isinstance(read, MaskFiles):
        return MaskColumn(parts, named)  # drawn from outlines
    colours = () if read.colours is None else tuple(int(v) for colour in read.colours.values() for v in colour)
    return MaskColumn(parts, named, read.binary, colours)


def _read_of(known: Column | None) -> MaskFiles | None:
    return known.reader if isinstance(known, MaskColumn) else None


def _is_byte(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256

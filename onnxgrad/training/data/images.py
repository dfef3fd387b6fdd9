"""Folders and tables of image files, through Pillow."""

from __future__ import annotations

import copy
import csv
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.internal.files import is_file
from onnxgrad.training.data.annotated.answers import Answers, Boxes, Listing, Masks, Regions
from onnxgrad.training.data.annotated.formats import PARTS, format_at
from onnxgrad.training.data.changes import Changes
from onnxgrad.training.data.columns import TARGETS, Numbering, class_notes
from onnxgrad.training.data.picture_files import SUFFIXES, images_in, size_of
from onnxgrad.training.data.preparing import Preparation, preparation_of
from onnxgrad.training.data.rows import Batch, Rows
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.views import FITS, View, view_of

__all__ = ["Images", "Pictures", "is_image_table", "open_image"]

Array = np.ndarray[Any, Any]
Classes: TypeAlias = "Mapping[str, Sequence[str]]"
_Listed: TypeAlias = "tuple[list[Path], dict[str, Array], Classes, list[str]]"
PATHS = ("path", "file", "filename", "file_name", "filepath", "image", "image_path")
_SAMPLES, _BILINEAR = 16, 2


class Images:
    """Images and their answers: a class, numbers, several labels, masks, boxes or regions.

    What lies at the path says which: a folder with a sub-folder for each class; a .csv file with a column of paths and one of
    labels; boxes of COCO (.json), YOLO (data.yaml, or ``images/`` and ``labels/``) or Pascal VOC (``Annotations/``); masks
    (``images/`` and ``masks/``); regions of text of ICDAR (gt_*.txt) or PaddleOCR (Label.txt). Size, axes, channels and values are
    those of the model as far as its file tells; ``remarks`` of what is opened say what was found and what was guessed.

    Args:
        path: the folder or file; paths in a file are relative to it. A folder may hold the .csv file.
        size: height and width, where the model leaves them open.
        mean, std: of the values from 0 to 1, for all channels or each.
        order: ``"rgb"`` or ``"bgr"``.
        fit: how images of another size get into the model's: ``"stretch"``, ``"letterbox"`` (one factor, bars of the value 114 on
            both sides, as YOLO's exports have it), ``"corner"`` (bars on the right and below). None for letterbox with boxes, else
            stretch.
        part: ``"train"``, ``"val"`` or ``"test"``, of data that holds several; None for ``"train"``, and for validation ``"val"``.
        colours: of masks in colours, red, green and blue by class, or a file of them; None for ``class_dict.csv`` in the folder.
        flip: mirror half of the images, in training. Boxes and masks follow this and the next four.
        crop: show a part of random place, half to all of the area, in training (Szegedy et al. 2015).
        color: change brightness, contrast and saturation by a factor of up to 1 ± this, in training.
        scale: enlarge or shrink by a factor of up to 1 ± this, in training.
        translate: move by up to this share of width and height, in training.

    Raises:
        ArgumentError: if ``color``, ``scale`` or ``translate`` is not between 0 and 1, or there is no such ``fit`` or ``part``.

    Example:
        >>> trainer.fit(Images("photos/", flip=True, crop=True), epochs=3, validation=0.1)  # doctest: +SKIP
        >>> trainer.fit(Images("data.yaml", flip=True, scale=0.5), epochs=3, validation="data.yaml")  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | Path,
        *,
        size: Sequence[int] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        order: str | None = None,
        fit: str | None = None,
        part: str | None = None,
        colours: Mapping[str, Sequence[int]] | str | Path | None = None,
        flip: bool = False,
        crop: bool = False,
        color: float = 0.0,
        scale: float = 0.0,
        translate: float = 0.0,
    ) -> None:
        if fit is not None and fit not in FITS:
            raise ArgumentError(f"fit is one of {', '.join(FITS)}, not {fit!r}.")
        if part is not None and part not in PARTS:
            raise ArgumentError(f"part is one of {', '.join(PARTS)}, not {part!r}.")
        self.path = Path(path)
        self.size, self.mean, self.std, self.order = size, mean, std, order
        self.fit, self.part, self.colours = fit, part, colours
        self.changes = Changes(flip, crop, color, scale, translate)

    def opened(self, wanted: DataSpec, classes: Classes | None = None) -> Pictures:
        """The data for a program; ``classes`` by target column have numbers already.

        Raises:
            DataError: if the folder holds no images, a file is missing, or the model takes no images.
            OnnxGradError: if Pillow is missing.
        """
        numbering = Numbering(classes or {}, wanted)
        listing = self.annotated(next(iter((classes or {}).values()), None))
        if listing is not None:
            answers = answers_for(listing, wanted, self.path.name)
            names = dict.fromkeys(answers, listing.classes)
            pictures = opened_pictures(self, wanted, _Files(listing.paths), {}, names, [], self.path.name, answers)
            pictures.remarks = [*listing.remarks, *pictures.remarks]
            return pictures
        paths, columns, class_names, unused = self._listed(wanted, numbering)
        pictures = opened_pictures(self, wanted, _Files(paths), columns, class_names, unused, self.path.name)
        pictures.remarks = [*pictures.remarks, *numbering.remarks]
        return pictures

    def with_part(self, part: str) -> Images:
        """The same of another part of the data."""
        images = copy.copy(self)
        images.part = part
        return images

    def annotated(self, classes: Sequence[str] | None = None) -> Listing | None:
        """The images with boxes, masks or regions, if the path holds such; ``classes`` have numbers already.

        Raises:
            DataError: naming the file and the place in it of what cannot be used.
        """
        form = format_at(self.path, self.part or PARTS[0], None, self.colours)
        return None if form is None else form.read(classes)

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
        files_by_class = {entry.name: sorted(images_in(entry)) for entry in sorted(path.iterdir()) if entry.is_dir()}
        target = next((name for name in wanted.names if name in wanted.targets), None)
        if target is None:
            files = sorted(images_in(path))
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


def answers_for(listing: Listing, wanted: DataSpec, where: str) -> dict[str, Answers]:
    """The answers by the target column that they are for: the one of their name (boxes, mask, regions), or the only one.

    Raises:
        DataError: if the loss takes another kind of answers, or there are several targets and none has the name.
    """
    targets = [name for name in wanted.names if name in wanted.targets]
    if not targets:
        return {}
    answers: Boxes | Regions | Masks = listing.answers
    kinds = ("regions", "boxes") if isinstance(answers, Regions) else (answers.kind,)
    name = next((kind for kind in kinds if kind in targets), targets[0])
    v = wanted.variables.get(name)
    if len(targets) > 1 and name not in kinds:
        raise DataError(f"{where!r} holds {answers.kind}; which of the targets {targets} is that? Call it {answers.kind!r}.")
    rank = None if v is None else v.rank
    if isinstance(answers, Regions) and (name == "boxes" or (v is not None and v.dims is not None and v.dims[-1:] == (5,))):
        answers = answers.as_boxes()
    if isinstance(answers, Masks):
        if rank not in (None, 3, 4):
            raise DataError(
                f"{where!r} holds masks, but the loss takes {v!r}. Choose a loss of the model's masks (--task segment)."
            )
        return {name: _as_wanted(answers, v)}
    if rank not in (None, 3):
        raise DataError(f"{where!r} holds {answers.kind}, but the loss takes {v!r}. Choose a loss of boxes (--task detect).")
    return {name: answers}


def _as_wanted(masks: Masks, v: Any) -> Masks:
    """Masks as class numbers, or as 0/1 channels where the loss takes floating-point numbers"""
    if v is None or v.dims is None:
        return masks
    size = tuple(int(d) for d in v.dims[-2:]) if all(isinstance(d, int) for d in v.dims[-2:]) else None
    channels = 0
    if v.dtype.is_float:
        channels = int(v.dims[1]) if v.rank == 4 and isinstance(v.dims[1], int) else masks.channels or 1
    elif masks.channels:
        raise DataError(
            f"the masks have {masks.channels} 0/1 channels, but the loss takes one class for each pixel. Use a loss of several sigmoids."
        )
    return Masks(masks.paths, masks.read, channels, size)  # type: ignore[arg-type]


def opened_pictures(
    source: Images,
    wanted: DataSpec,
    images: _Files | Callable[[int], Any],
    columns: dict[str, Array],
    classes: Classes,
    unused: Sequence[str],
    where: str,
    answers: Mapping[str, Answers] = MappingProxyType({}),
) -> Pictures:
    """Images by number, prepared as the model wants them."""
    if wanted.program is None:
        raise DataError(f"{where!r} holds images; nothing says here how the model takes them. Give arrays.")
    count = len(next(iter(columns.values()))) if columns else len(images)  # type: ignore[arg-type]
    chosen = sorted({round(i) for i in np.linspace(0, count - 1, min(count, _SAMPLES))})
    samples = [images(int(i)) for i in chosen]
    fit = source.fit or ("letterbox" if any(each.kind == "boxes" for each in answers.values()) else FITS[0])
    name, how, note = preparation_of(wanted.program, samples, source.size, source.mean, source.std, source.order, fit)
    given = [*columns, *answers]
    missing = [other for other in wanted.names if other != name and other not in given]
    if missing:
        raise DataError(
            f"{where!r} gives the images for {name!r} and {sorted(given)}, but the model takes {missing[0]!r} too. Give arrays."
        )
    pictures = Pictures(images, count, name, columns, how, source.changes, answers)
    pictures.classes, pictures.unused = classes, unused
    line = source.changes.line()
    pictures.remarks = [note, *class_notes(classes), *([] if line is None else [line])]
    return pictures


class Pictures(Rows):
    """Images that are read when their batch is built, their answers that move with their pixels, and columns of labels."""

    def __init__(
        self,
        images: Callable[[int], Any],
        length: int,
        name: str,
        columns: dict[str, Array],
        how: Preparation,
        changes: Changes,
        answers: Mapping[str, Answers] = MappingProxyType({}),
    ) -> None:
        self.images, self.length, self.name, self.columns, self.how, self.changes = images, length, name, columns, how, changes
        self.answers = dict(answers)
        self.settings = [how, changes, *(f"{target}: {each.kind}" for target, each in answers.items())]
        self._pool: ThreadPoolExecutor | None = None

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1), "onnxgrad-images")
        examples = list(self._pool.map(lambda row: self._prepared(int(row), epoch), rows))
        batch = {self.name: np.stack([array for array, _ in examples])}
        for at, (name, each) in enumerate(self.answers.items()):
            batch[name] = each.stacked([moved[at] for _, moved in examples])
        return {**batch, **{name: column[rows] for name, column in self.columns.items()}}

    def _prepared(self, row: int, epoch: tuple[int, int] | None) -> tuple[Array, list[Array]]:
        image, how = self.images(row), self.how
        rng = None if epoch is None or not self.changes else np.random.default_rng([*epoch, row])
        view = view_of(image.size, how.size, how.fit) if rng is None else self.changes.view(image.size, how.size, how.fit, rng)
        image = view.image(image, how.ground(image.mode), _BILINEAR)
        if rng is not None:
            image = self.changes.colored(image, rng)
        return how.array(image), [each.moved(row, view) for each in self.answers.values()]

    def column(self, name: str) -> Array | None:
        return self.columns.get(name)

    def view(self, row: int) -> View:
        return view_of(self.picture_size(row), self.how.size, self.how.fit)

    def picture(self, row: int) -> Any:
        return self.images(row)

    def picture_size(self, row: int) -> tuple[int, int]:
        """Width and height of an image as its file has it."""
        return self.images.size(row) if isinstance(self.images, _Files) else self.images(row).size

    def file(self, row: int) -> Path | None:
        return self.images.paths[row] if isinstance(self.images, _Files) else None

    def original(self, name: str, row: int) -> Any:
        each = self.answers.get(name)
        return None if each is None else each.original(row, self.picture_size(row))

    def plain(self) -> Pictures:
        pictures = copy.copy(self)
        pictures.changes = Changes()
        return pictures


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

    def size(self, number: int) -> tuple[int, int]:
        return size_of(self.paths[number])


def _holds_images(path: Path) -> bool:
    return next(iter(images_in(path)), None) is not None


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

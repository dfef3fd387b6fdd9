"""Which format of answers lies at a path, and its reader.

Tests: tests/training/data/annotated/test_formats.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

from onnxgrad.errors import DataError, FileError
from onnxgrad.internal.files import read_whole
from onnxgrad.internal.words import DataPart
from onnxgrad.training.data.annotated.answers import Listing
from onnxgrad.training.data.annotated.coco import read_coco, read_coco_masks
from onnxgrad.training.data.annotated.masks import MaskFiles, mask_folders, read_colours, read_masks
from onnxgrad.training.data.annotated.text_regions import is_label_file, read_icdar, read_label_file
from onnxgrad.training.data.annotated.voc import read_voc
from onnxgrad.training.data.annotated.yolo import read_yolo, read_yolo_folder
from onnxgrad.training.data.picture_files import images_in

__all__ = ["PARTS", "Format", "format_at"]

PARTS = get_args(DataPart)


class Format(NamedTuple):
    """A format that a path has: its name for messages, the file or folder, and what reads it with the classes that are known."""

    name: str
    kind: str
    path: Path
    read: Callable[[Sequence[str] | None], Listing]


def format_at(
    path: Path,
    part: str = "train",
    kind: str | None = None,
    colours: Mapping[str, Sequence[int]] | str | Path | None = None,
    recorded: MaskFiles | None = None,
) -> Format | None:
    """Find out the format of the answers of pictures at a path; None for class folders, tables and plain pictures.

    Args:
        path: a .json file (COCO), a .yaml file (YOLO), a Label.txt, or a folder: with ``Annotations`` (VOC), ``images`` and
            ``labels`` (YOLO), ``images`` and ``masks``, gt_*.txt files (ICDAR), or one of these files.
        part: ``"train"``, ``"val"`` or ``"test"``, of formats that hold several.
        kind: ``"boxes"``, ``"mask"`` or ``"regions"``, to choose among those of a folder; None for the first.
        colours: red, green and blue by class, or a file of them, for masks in colours.
        recorded: how the masks of the training data hold classes, for masks.

    Raises:
        DataError: if ``colours`` cannot be read.
    """
    if isinstance(colours, (str, Path)):
        colours = read_colours(Path(colours))
    if path.is_file():
        candidates = [_of_file(path, part), _outlines_in(path)]
    elif path.is_dir():
        candidates = _of_folder(path, part, colours, recorded)
    else:
        return None
    fitting = [each for each in candidates if each is not None and kind in (None, each.kind)]
    return fitting[0] if fitting else None


def _of_file(path: Path, part: str) -> Format | None:
    if path.suffix == ".json":
        return Format("COCO", "boxes", path, partial(read_coco, path))
    if path.suffix in (".yaml", ".yml"):
        return Format("YOLO", "boxes", path, partial(read_yolo, path, part))
    if path.suffix == ".txt" and is_label_file(path):
        return Format("Label.txt", "regions", path, lambda known: read_label_file(path))
    return None


def _outlines_in(path: Path) -> Format | None:
    """The masks that a COCO file has outlines of"""
    has_some = path.suffix == ".json" and _lists(path, b'"segmentation"')
    return Format("COCO", "mask", path, partial(read_coco_masks, path)) if has_some else None


def _of_folder(
    path: Path, part: str, colours: Mapping[str, Sequence[int]] | None, recorded: MaskFiles | None
) -> list[Format | None]:
    """The formats of a folder, the plainest signs first"""
    formats: list[Format | None] = []
    described = sorted(file for suffix in ("yaml", "yml") for file in path.glob(f"*.{suffix}") if _lists(file, b"names:"))
    if described:
        file = next((each for each in described if each.stem == "data"), described[0])
        formats.append(_of_file(file, part))
    listed = _coco_in(path, part)
    if listed is not None:
        formats += [_of_file(listed, part), _outlines_in(listed)]
    if any(path.glob("*.xml")) or any((path / "Annotations").glob("*.xml")):
        formats.append(Format("VOC", "boxes", path, partial(read_voc, path, part)))
    if (path / "Label.txt").is_file():
        formats.append(_of_file(path / "Label.txt", part))
    if any(path.glob("gt_*.txt")) or any(path.glob("*/gt_*.txt")):
        formats.append(Format("ICDAR", "regions", path, lambda known: read_icdar(path)))
    if mask_folders(path) is not None:
        formats.append(Format("masks", "mask", path, partial(read_masks, path, colours, recorded=recorded)))
    elif (path / "images").is_dir() and any((path / "labels").rglob("*.txt")):
        formats.append(Format("YOLO", "boxes", path, partial(read_yolo_folder, path)))
    return formats


def _coco_in(path: Path, part: str) -> Path | None:
    """The COCO file in a folder: the only one, or that whose name has the part in it"""
    files = [path / "_annotations.coco.json"] if (path / "_annotations.coco.json").is_file() else []
    files = files or sorted(
        file for folder in (path / "annotations", path) for file in folder.glob("*.json") if _lists(file, b'"annotations"')
    )
    named = [file for file in files if file.stem.startswith("instances")] or files
    fitting = [file for file in named if part in file.stem] or named
    if len(fitting) > 1:
        raise DataError(f"{str(path)!r} holds several .json files: {[file.name for file in fitting[:5]]}. Name one of them.")
    if not fitting or next(iter(images_in(path)), None) is None:
        return None
    return fitting[0]


def _lists(file: Path, word: bytes) -> bool:
    """Return whether a file has a word that those of a format have"""
    try:
        return file.is_file() and word in read_whole(file)
    except FileError:
        return False

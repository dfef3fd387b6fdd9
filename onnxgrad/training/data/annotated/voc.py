"""Boxes of Pascal VOC: an .xml file for each picture (Everingham et al. 2010).

Tests: tests/training/data/annotated/test_voc.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from onnxgrad.errors import DataError, FileError
from onnxgrad.internal.files import read_whole
from onnxgrad.training.data.annotated.answers import Boxes, Listing, numbered
from onnxgrad.training.data.annotated.fields import as_box, as_number, picture_at, read_lines
from onnxgrad.training.data.picture_files import SUFFIXES

__all__ = ["parse_xml", "read_voc"]

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_DEEPEST = 50


def read_voc(path: Path, part: str = "train", known: Sequence[str] | None = None) -> Listing:
    """Read the boxes of a folder of .xml files.

    The files lie in ``Annotations/``, the pictures in ``JPEGImages/`` or ``images/``, or all of them in the folder itself. Where
    ``ImageSets/Main/`` lists the files of a part (``train.txt``, ``val.txt``), those are read, else all. Classes are numbered by
    the alphabet. Corners count pixels from 1 and lie inside the box, so a box of one pixel is as large. Boxes marked as difficult
    do not count.

    Args:
        path: of the folder.
        part: ``"train"``, ``"val"`` or ``"test"``.
        known: names of classes by number, of the training data.

    Raises:
        DataError: naming the file and the element of what is missing or damaged.
    """
    folder = path / "Annotations" if (path / "Annotations").is_dir() else path
    chosen, remarks = _chosen(path, folder, part)
    paths = []
    objects: list[list[tuple[str, list[float], bool]]] = []
    sizes: list[tuple[int, int] | None] = []
    for file in chosen:
        root = parse_xml(file)
        paths.append(_picture_of(root, file, path))
        sizes.append(_size(root))
        objects.append([_object(element, f"{file.name}, object {at}") for at, element in enumerate(root.iter("object"), 1)])
    names = sorted({name for each in objects for name, _, _ in each})
    if not names and known is None:
        raise DataError(f"no .xml file of {str(folder)!r} has an object. Give files with boxes.")
    numbers = dict(zip(names, numbered(names, known, str(path)), strict=True))
    boxes = [np.array([[numbers[name], *box] for name, box, _ in each], np.float64) for each in objects]
    difficult = [np.array([hard for _, _, hard in each], bool) for each in objects]
    left = sum(int(each.sum()) for each in difficult)
    if left:
        remarks.append(f"{left} boxes of {path.name} are marked as difficult and are ignored.")
    return Listing(paths, Boxes(boxes, difficult, sizes=sizes), list(known) if known is not None else names, remarks)


def parse_xml(path: Path) -> Element:
    """The elements of an .xml file; one with declarations of its own (DOCTYPE, entities) is refused.

    Raises:
        DataError: naming the line.
    """
    builder, depth = TreeBuilder(), 0

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise DataError(f"{path.name}, line {parser.CurrentLineNumber}: elements lie more than {_DEEPEST} deep. Correct it.")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    def refuse(*_: object) -> None:
        raise DataError(f"{path.name}, line {parser.CurrentLineNumber}: declarations (DOCTYPE) are not read. Take them out.")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begin, end, builder.data
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(read_whole(path), True)
    except FileError as error:
        raise DataError(str(error)) from error
    except expat.ExpatError as error:
        raise DataError(
            f"{path.name}, line {error.lineno} is not valid XML: {expat.ErrorString(error.code)}. Correct it."
        ) from error
    except (ValueError, LookupError) as error:  # an encoding that Python does not know
        raise DataError(f"{path.name} is not valid XML: {error}. Write it in UTF-8.") from error
    root: Element = builder.close()
    return root


def _chosen(path: Path, folder: Path, part: str) -> tuple[list[Path], list[str]]:
    """The .xml files of a part, and lines on what was chosen"""
    sets = path / "ImageSets" / "Main"
    listed = sets / f"{part}.txt"
    if listed.is_file():
        files = []
        for number, line in read_lines(listed):
            file = folder / f"{line.split()[0]}.xml"
            files.append(picture_at((folder,), file.name, f"{listed.name}, line {number}"))
        remarks = [f"{listed.name} lists {len(files)} files of {path.name}."]
        if part == "train" and (sets / "val.txt").is_file():
            remarks.append("val.txt lists images for validation: also give the folder as validation (--val) to use them.")
    elif part != "train" and (sets / "train.txt").is_file():
        raise DataError(f"{str(sets)!r} has no {part}.txt. Write the names of the files into it, one on each line.")
    else:
        files, remarks = sorted(file for file in folder.rglob("*.xml") if file.is_file()), []
    if not files:
        raise DataError(f"{str(folder)!r} holds no .xml files.")
    return files, remarks


def _picture_of(root: Element, file: Path, path: Path) -> Path:
    """The picture that the file is about: by the name in it, else by its own"""
    folders = (file.parent, path / "JPEGImages", path / "images", path)
    name = Path((root.findtext("filename") or "").strip().replace("\\", "/")).name
    names = [name] if Path(name).suffix.lower() in SUFFIXES else []
    for each in [*names, *(f"{file.stem}{suffix}" for suffix in SUFFIXES)]:
        for folder in folders:
            try:
                if (folder / each).is_file():
                    return folder / each
            except (OSError, ValueError):
                continue
    return picture_at(folders, name or f"{file.stem}.jpg", f"{file.name}, filename")


def _size(root: Element) -> tuple[int, int] | None:
    """Width and height of the picture, where the file says them"""
    texts = [(root.findtext(f"size/{name}") or "").strip() for name in ("width", "height")]
    width, height = (int(text) if text.isdecimal() and len(text) < 8 else 0 for text in texts)
    return (width, height) if min(width, height) > 0 else None


def _object(element: Element, where: str) -> tuple[str, list[float], bool]:
    """Name, corners and whether it is difficult, of one object"""
    name = (element.findtext("name") or "").strip()
    if not name:
        raise DataError(f"{where} has no <name>. Add the class.")
    place = element.find("bndbox")
    if place is None:
        raise DataError(f"{where} has no <bndbox>. Add the corners, or leave the object out.")
    corners = [as_number((place.findtext(tag) or "").strip(), f"{where}, {tag}") for tag in _CORNERS]
    box = as_box((corners[0] - 1, corners[1] - 1, corners[2], corners[3]), f"{where}, bndbox")
    return name, box, (element.findtext("difficult") or "").strip() == "1"

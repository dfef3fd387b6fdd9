"""Files of pictures in folders, and their sizes without their pixels.

Tests: tests/training/data/test_images.py.
"""

from __future__ import annotations

from pathlib import Path

from onnxgrad.errors import DataError, OnnxGradError

__all__ = ["SUFFIXES", "images_in", "size_of"]

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_ORIENTATION = 0x0112
_TURNED = (5, 6, 7, 8)


def images_in(path: Path) -> list[Path]:
    """The files of pictures in a folder and those below it, in no order."""
    return [
        file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()
    ]


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of a picture, turned as its metadata says; its pixels are not read.

    Raises:
        DataError: if it cannot be read.
        OnnxGradError: if Pillow is missing.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise OnnxGradError("images need the package Pillow. Install onnxgrad[images].") from error
    try:
        with Image.open(path) as image:
            turned = image.getexif().get(_ORIENTATION) in _TURNED
            width, height = image.size
            return (height, width) if turned else (width, height)
    except Exception as error:
        # Each format has a decoder of its own, which raises what it does over damaged bytes.
        reason = str(error) or type(error).__name__
        raise DataError(f"cannot read the image {str(path)!r}: {reason}. Remove or replace it.") from error

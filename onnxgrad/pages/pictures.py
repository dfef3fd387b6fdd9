"""Arrays as pictures in a page, and sounds as waveforms: PNG (RFC 2083) of one image, as a data address.

Tests: tests/training/report/test_report.py.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

__all__ = ["as_picture", "as_pixels", "as_waveform", "png"]

Array = np.ndarray[Any, Any]


def png(pixels: Array) -> bytes:
    """A PNG file of uint8 pixels, [height, width] or [height, width, 3 or 4]."""
    height, width = pixels.shape[:2]
    colour = {2: 0, 3: {3: 2, 4: 6}.get(pixels.shape[-1], 2)}[pixels.ndim]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)

    def chunk(chunk_type: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + chunk_type + content + struct.pack(">I", zlib.crc32(chunk_type + content))

    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes())) + chunk(b"IEND", b"")


def as_pixels(array: Array, largest: int) -> Array | None:
    """Convert an example, [1 or 3, h, w], [h, w, 1 or 3] or [h, w], to uint8 pixels; None where it does not look like a picture.

    Its smallest number is black and its largest white, since what normalised it is not known. Every so many pixels are left out of
    what is larger than ``largest``.

    Example:
        >>> as_pixels(np.zeros((3, 8, 9), np.float32), 112).shape
        (8, 9, 3)
    """
    if array.ndim == 3 and array.shape[0] in (1, 3) and min(array.shape[1:]) >= 6:
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim not in (2, 3) or min(array.shape[:2]) < 6 or (array.ndim == 3 and array.shape[-1] != 3):
        return None
    step = max(1, -(-max(array.shape[:2]) // largest))
    small = np.asarray(array[::step, ::step], np.float64)
    low, high = float(np.nanmin(small)), float(np.nanmax(small))
    scaled = np.nan_to_num((small - low) * (255.0 / (high - low) if high > low else 0.0))
    pixels: Array = scaled.round().astype(np.uint8)
    return pixels


def as_picture(array: Array, largest: int = 112) -> str | None:
    """The address of a picture of one example, as ``as_pixels`` takes it; None where it does not look like one."""
    pixels = as_pixels(array, largest)
    return None if pixels is None else "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def as_waveform(samples: Array, width: int = 224, height: int = 64) -> str:
    """The address of a picture of a sound: in each column the samples from the lowest to the highest, over all the loudest one.

    Args:
        samples: of the sound, [samples].
        width, height: of the picture, in pixels.

    Example:
        >>> as_waveform(np.zeros(1000))[:22]
        'data:image/png;base64,'
    """
    values = np.nan_to_num(np.asarray(samples, np.float64).reshape(-1))
    edges = np.linspace(0, len(values), width + 1).astype(int)
    loudest = float(np.abs(values).max()) if values.size else 0.0
    pixels = np.full((height, width), 255, np.uint8)
    for x, (first, last) in enumerate(zip(edges[:-1], np.maximum(edges[1:], edges[:-1] + 1), strict=True)):
        column = values[first:last] / loudest if loudest else np.zeros(1)
        if column.size:
            top, bottom = (round((1 - v) / 2 * (height - 1)) for v in (float(column.max()), float(column.min())))
            pixels[top : bottom + 1, x] = 40
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()

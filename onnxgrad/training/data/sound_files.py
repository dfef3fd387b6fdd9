"""Files of sounds: their length without their samples, and their samples at a rate, all channels mixed to one.

Tests: tests/training/data/test_sounds.py.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError, OnnxGradError

__all__ = ["SUFFIXES", "clear_sounds", "is_sound", "length_of", "rate_of", "samples_of", "sounds_in"]

Array = np.ndarray[Any, Any]
SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aif", ".aiff", ".au")
_KEPT = 16
"""Sounds that are kept as they were read, since the windows of a long one follow each other."""


def is_sound(cell: Any) -> bool:
    """Return whether a cell of a table is the path of a sound."""
    return isinstance(cell, str) and cell.strip().lower().endswith(SUFFIXES)


def sounds_in(path: Path) -> list[Path]:
    """The files of sounds in a folder and those below it, in no order."""
    return [file for file in path.rglob("*") if is_sound(file.name) and not file.name.startswith(".") and file.is_file()]


def rate_of(path: Path) -> int:
    """Samples in a second, as the file has them.

    Raises:
        DataError: if it cannot be read.
        OnnxGradError: if soundfile is missing.
    """
    return int(_header(path).samplerate)


def length_of(path: Path, rate: int) -> int:
    """The number of samples that ``samples_of`` gives; none are read.

    Raises:
        DataError: if the file cannot be read.
        OnnxGradError: if soundfile is missing.
    """
    header = _header(path)
    return round(int(header.frames) * rate / int(header.samplerate))


def samples_of(path: Path, rate: int) -> Array:
    """The samples of a sound at a rate: float32 [samples], from -1 to 1, the mean over its channels.

    Args:
        path: of the file.
        rate: samples in a second; those of another rate are resampled, band-limited (soxr).

    Raises:
        DataError: if it cannot be read, holds no samples, or one that is no number.
        OnnxGradError: if soundfile is missing, or soxr for a file of another rate.
    """
    return _samples(path, path.stat().st_mtime_ns if path.is_file() else 0, rate)


def clear_sounds() -> None:
    """Forget the sounds that are kept."""
    _samples.cache_clear()


@lru_cache(_KEPT)
def _samples(path: Path, changed: int, rate: int) -> Array:
    soundfile = _soundfile()
    try:
        channels, own_rate = soundfile.read(path, dtype="float32", always_2d=True)
    except Exception as error:
        # libsndfile's errors, and those of the system, have no type in common.
        raise _unreadable(path, error) from error
    samples: Array = channels.mean(axis=1, dtype=np.float32)
    if not samples.size:
        raise DataError(f"the sound {str(path)!r} holds no samples. Remove or replace it.")
    if not np.isfinite(samples).all():
        raise DataError(f"the sound {str(path)!r} holds a sample that is not a number. Remove or replace it.")
    if own_rate != rate:
        samples = np.asarray(_soxr(path, own_rate, rate).resample(samples, own_rate, rate), np.float32)
    samples.flags.writeable = False
    return samples


def _header(path: Path) -> Any:
    soundfile = _soundfile()
    try:
        return soundfile.info(str(path))
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot read the sound {str(path)!r}: {error or type(error).__name__}. Remove or replace it.")


def _soundfile() -> Any:
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: a wheel without libsndfile
        raise OnnxGradError("sounds need the package soundfile. Install onnxgrad[audio].") from error
    return soundfile


def _soxr(path: Path, own_rate: int, rate: int) -> Any:
    try:
        import soxr
    except ImportError as error:
        raise OnnxGradError(
            f"{str(path)!r} has {own_rate:,} samples in a second, the model takes {rate:,}, and resampling needs the package soxr. "
            "Install onnxgrad[audio]."
        ) from error
    return soxr

"""Random changes of pictures in training, which boxes and masks follow, and of sounds.

Tests: tests/training/data/test_changes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.sound_files import samples_of
from onnxgrad.training.data.views import View, view_of

__all__ = ["Changes", "SoundChanges"]

Array = np.ndarray[Any, Any]
_SMALLEST_CROP = 0.5


@dataclass(frozen=True)
class Changes:
    """What is changed at random: by the seed, the epoch and the number of the picture alone.

    Attributes:
        flip: mirror half of the pictures.
        crop: show a part of random place, half to all of the area (Szegedy et al. 2015).
        color: change brightness, contrast and saturation by a factor of up to 1 ± this.
        scale: enlarge or shrink by a factor of up to 1 ± this, about the middle.
        translate: move by up to this share of width and height; what comes in at an edge has the colour of the bars.

    Raises:
        ArgumentError: if ``color``, ``scale`` or ``translate`` is not between 0 and 1.

    Example:
        >>> view = Changes(translate=0.5).view((10, 10), (10, 10), "stretch", np.random.default_rng(0))
        >>> [round(v, 2) for v in view.window]
        [-1.37, 2.3, 10.0, 10.0]
    """

    flip: bool = False
    crop: bool = False
    color: float = 0.0
    scale: float = 0.0
    translate: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("color", self.color), ("scale", self.scale), ("translate", self.translate)):
            if not 0 <= value < 1:
                raise ArgumentError(f"{name} is the largest change of a factor or share, from 0 to less than 1, not {value}.")

    def __bool__(self) -> bool:
        return any((self.flip, self.crop, self.color, self.scale, self.translate))

    def view(self, picture: tuple[int, int], size: tuple[int, int], fit: str, rng: np.random.Generator) -> View:
        """Draw the part of a picture to show, and whether it is mirrored.

        Args:
            picture: its width and height.
            size: height and width of the model's input.
            fit: how the part gets there: see ``view_of``.
            rng: that draws; the same one draws the same for the answers of the picture.
        """
        left, top, width, height = 0.0, 0.0, float(picture[0]), float(picture[1])
        if self.crop:
            side = np.sqrt(rng.uniform(_SMALLEST_CROP, 1.0))
            width, height = width * side, height * side
            left, top = rng.uniform(0, picture[0] - width), rng.uniform(0, picture[1] - height)
        if self.scale:
            factor = rng.uniform(1 - self.scale, 1 + self.scale)
            left, top = left + (width - width / factor) / 2, top + (height - height / factor) / 2
            width, height = width / factor, height / factor
        if self.translate:
            across, down = rng.uniform(-self.translate, self.translate, 2)
            left, top = left - across * width, top - down * height
        mirrored = self.flip and bool(rng.random() < 0.5)
        return view_of(picture, size, fit, (float(left), float(top), float(width), float(height)), mirrored)

    def colored(self, image: Any, rng: np.random.Generator) -> Any:
        """Change brightness, contrast and saturation of an image of Pillow, of mode L, RGB or F with values from 0 to 255."""
        from PIL import ImageEnhance

        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color) if self.color else ():
            factor = float(rng.uniform(1 - self.color, 1 + self.color))
            image = _changed_grey(image, enhance, factor) if image.mode == "F" else enhance(image).enhance(factor)
        return image

    def line(self) -> str | None:
        """A line that says what is changed, if anything is."""
        names = ("mirrored", "cropped", "changed in colour", "scaled", "moved")
        values = (self.flip, self.crop, self.color, self.scale, self.translate)
        changes = [name for name, on in zip(names, values, strict=True) if on]
        return f"images are {' and '.join(changes)} at random in training." if changes else None


def _changed_grey(image: Any, enhance: Any, factor: float) -> Any:
    """Brightness and contrast of an image of floats, which Pillow does not change"""
    from PIL import Image, ImageEnhance

    values = np.asarray(image)
    if enhance is ImageEnhance.Color:
        return image
    level = values.mean() if enhance is ImageEnhance.Contrast else 0.0
    return Image.fromarray(np.clip(level + (values - level) * factor, 0, 255).astype(np.float32))


@dataclass(frozen=True)
class SoundChanges:
    """What is changed at random in sounds: by the seed, the epoch and the number of the sound alone.

    Attributes:
        noise: files of noise, of which a part of one is added to each sound.
        snr: the least and the largest ratio of the power of the sound to that of the noise, in dB.
        shift: how far a sound is moved to either side, in seconds at most; one that is shorter than the window, which it begins, to
            the right and not beyond the end. What comes in is silence.

    Raises:
        ArgumentError: if ``shift`` is negative, or ``snr`` is not two numbers in their order.

    Example:
        >>> [SoundChanges(shift=0.1).moved(16000, room, np.random.default_rng(0)) for room in (0, 1000)]
        [438, 637]
    """

    noise: tuple[Path, ...] = ()
    snr: tuple[float, float] = (0.0, 20.0)
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.shift < np.inf:
            raise ArgumentError(f"a shift is a number of seconds, at least 0, not {self.shift}.")
        if len(self.snr) != 2 or not np.isfinite(self.snr).all() or self.snr[0] > self.snr[1]:
            raise ArgumentError(f"the ratio of sound to noise is a range in dB, such as 0 20, not {list(self.snr)}.")

    def __bool__(self) -> bool:
        return bool(self.noise) or self.shift > 0

    def moved(self, rate: int, room: int, rng: np.random.Generator) -> int:
        """Draw by how many samples a sound is moved to the right; to the left where it is negative.

        Args:
            rate: samples in a second.
            room: samples by which it is shorter than the window.
            rng: that draws.
        """
        if not self.shift:
            return 0
        low, high = (0.0, min(self.shift, room / rate)) if room > 0 else (-self.shift, self.shift)
        return round(rate * float(rng.uniform(low, high)))

    def with_noise(self, samples: Array, rate: int, rng: np.random.Generator) -> Array:
        """Add a random part of a file of noise, from its start again where it is shorter; silence gets it as it is in the file.

        Args:
            samples: of the sound, from -1 to 1; the result is not clipped.
            rate: samples in a second.
            rng: that draws.
        """
        if not self.noise:
            return samples
        noise = samples_of(self.noise[int(rng.integers(len(self.noise)))], rate)
        part = np.take(noise, int(rng.integers(len(noise))) + np.arange(len(samples)), mode="wrap")
        ratio = 10 ** (float(rng.uniform(*self.snr)) / 10)
        power, of_noise = (float(np.mean(np.square(x, dtype=np.float64))) for x in (samples, part))
        factor = np.sqrt(power / (of_noise * ratio)) if power > 0 and of_noise > 0 else 1.0
        return np.asarray(samples + np.float32(factor) * part, np.float32)

    def line(self) -> str | None:
        """A line that says what is changed, if anything is."""
        noise = f"get noise of {len(self.noise)} files at {self.snr[0]:g} to {self.snr[1]:g} dB" if self.noise else ""
        moved = f"are moved by up to {1000 * self.shift:g} ms" if self.shift else ""
        changes = " and ".join(change for change in (noise, moved) if change)
        return f"sounds {changes} at random in training." if changes else None

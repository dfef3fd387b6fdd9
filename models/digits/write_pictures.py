"""Write scikit-learn's handwritten digits as folders of pictures: FOLDER/train/0/*.png ... FOLDER/test/9/*.png.

Usage: python models/digits/write_pictures.py FOLDER

Needs Pillow and scikit-learn (the extras images and demo). The last 397 digits, of other writers, are the test.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits


def write_pictures(folder: Path) -> int:
    """Write them; returns how many there are."""
    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        place = folder / ("train" if number < 1400 else "test") / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15.9).astype(np.uint8)).save(place / f"{number:04}.png")
    return len(digits.target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python models/digits/write_pictures.py FOLDER")
    print(f"wrote {write_pictures(Path(sys.argv[1]))} pictures to {sys.argv[1]}")

"""Write pictures of shapes and of lines as people's tools leave them: boxes of YOLO, masks, and text regions of PaddleOCR.

python models/detectors/data.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import shapes
from PIL import Image

TRAINING, HELD_OUT = 400, 100


def picture_of(image: np.ndarray) -> Image.Image:
    return Image.fromarray((image.transpose(1, 2, 0) * 255).round().astype(np.uint8))


def write_boxes(folder: Path, kinds: tuple[int, ...] = (0, 1, 2, 3), size: int = 96) -> None:
    """``data.yaml``, and a picture and a text file for each example; boxes are shares of the picture."""
    for part, seed, count in (("train", 100, TRAINING), ("val", 200, HELD_OUT)):
        images, boxes, _ = shapes.pictures(seed, count, size, kinds)
        for name in ("images", "labels"):
            (folder / name / part).mkdir(parents=True, exist_ok=True)
        for number, (image, rows) in enumerate(zip(images, boxes, strict=True)):
            picture_of(image).save(folder / "images" / part / f"{number:04}.png")
            lines = []
            for kind, x1, y1, x2, y2 in rows[rows[:, 0] >= 0] / [1, size, size, size, size]:
                lines.append(f"{kinds.index(int(kind))} {(x1 + x2) / 2:.6f} {(y1 + y2) / 2:.6f} {x2 - x1:.6f} {y2 - y1:.6f}\n")
            (folder / "labels" / part / f"{number:04}.txt").write_text("".join(lines))
    names = ", ".join(shapes.NAMES[kind] for kind in kinds)
    (folder / "data.yaml").write_text(f"path: .\ntrain: images/train\nval: images/val\nnames: [{names}]\n")


def write_masks(folder: Path, size: int = 96) -> None:
    """``images/`` and ``masks/``, whose grey values are class numbers, 0 for the background."""
    for part, seed, count in (("train", 300, TRAINING), ("val", 400, HELD_OUT)):
        images, _, masks = shapes.pictures(seed, count, size)
        for name in ("images", "masks"):
            (folder / part / name).mkdir(parents=True, exist_ok=True)
        for number, (image, mask) in enumerate(zip(images, masks, strict=True)):
            picture_of(image).save(folder / part / "images" / f"{number:04}.png")
            Image.fromarray(mask.astype(np.uint8)).save(folder / part / "masks" / f"{number:04}.png")


def write_lines(folder: Path, size: int = 96, count: tuple[int, int] = (TRAINING, HELD_OUT), most: int = 3) -> None:
    """``Label.txt`` with the corners of each line."""
    for part, seed, number in (("train", 500, count[0]), ("val", 600, count[1])):
        images, boxes = shapes.lines(seed, number, size, most)
        (folder / part).mkdir(parents=True, exist_ok=True)
        rows = []
        for i, (image, own) in enumerate(zip(images, boxes, strict=True)):
            picture_of(image).save(folder / part / f"{i:04}.png")
            regions = [
                {"transcription": "line", "points": [[x1, y1], [x2, y1], [x2, y2], [x1, y2]]}
                for _, x1, y1, x2, y2 in own[own[:, 0] >= 0].tolist()
            ]
            rows.append(f"{part}/{i:04}.png\t{json.dumps(regions)}\n")
        (folder / part / "Label.txt").write_text("".join(rows))


if __name__ == "__main__":
    home = Path(sys.argv[1])
    write_boxes(home / "shapes")
    write_masks(home / "masks")
    write_lines(home / "lines")
    write_lines(home / "text", 160, (96, 40))

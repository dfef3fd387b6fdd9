"""Folders of small pictures with bright shapes of three kinds, whose answers are known."""

import csv

import numpy as np
from PIL import Image

KINDS = ("bus", "car", "tree")
_COLOURS = ((220, 60, 40), (40, 80, 220), (50, 180, 60))


def drawn(seed, count, size=32):
    """Pictures [size, size, 3], masks (0 for the ground, 1 and on for kinds), and (kind, x1, y1, x2, y2) of each shape."""
    rng = np.random.default_rng(seed)
    scenes = []
    for _ in range(count):
        picture = rng.integers(120, 160, (size, size, 3)).astype(np.uint8)
        mask, boxes = np.zeros((size, size), np.uint8), []
        for kind in np.flatnonzero(rng.random(3) < 0.5):
            w, h = (int(v) for v in rng.integers(9, 15, 2))
            x, y = int(rng.integers(0, size - w)), int(rng.integers(0, size - h))
            picture[y : y + h, x : x + w] = _COLOURS[kind] + rng.integers(-20, 20, 3)
            mask[y : y + h, x : x + w] = 1 + kind
            boxes.append((int(kind), x, y, x + w, y + h))
        scenes.append((picture, mask, boxes))
    return scenes


def write_masks(folder, scenes):
    """``images/`` and ``masks/``; the upper row of each mask does not count."""
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for number, (picture, mask, _) in enumerate(scenes):
        Image.fromarray(picture).save(folder / "images" / f"{number:03}.png")
        void = mask.copy()
        void[0] = 255
        Image.fromarray(void).save(folder / "masks" / f"{number:03}.png")
    return folder


def write_table(folder, scenes, header, cells):
    """Pictures and a table with their paths and what ``cells`` gives for the kinds and boxes of each."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, (picture, _, boxes) in enumerate(scenes):
        Image.fromarray(picture).save(folder / f"{number:03}.png")
        kinds = {kind for kind, *_ in boxes}
        rows.append([f"{number:03}.png", *cells(kinds, boxes)])
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", *header], *rows])
    return folder / "table.csv"

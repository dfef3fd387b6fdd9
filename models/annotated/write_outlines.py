"""Write tests/data/annotated/outlines.json: polygons and run lengths, and the masks that pycocotools makes of them.

Run with pycocotools installed: python models/annotated/write_outlines.py
"""

import json
from pathlib import Path

import numpy as np
from pycocotools import mask as coco

TARGET = Path(__file__).parents[2] / "tests" / "data" / "annotated" / "outlines.json"


def polygons(rng):
    """Stars of random radii around a point, some of which reach beyond the picture"""
    for number in range(12):
        height, width = (int(v) for v in rng.integers(20, 60, 2))
        angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(3, 14))))
        radii = rng.uniform(6, 24, len(angles))
        x = np.clip(width * rng.uniform(0.2, 0.8) + radii * np.cos(angles), 0, width)
        y = np.clip(height * rng.uniform(0.2, 0.8) + radii * np.sin(angles), 0, height)
        corners = np.round(np.stack([x, y], axis=1).ravel(), 2 if number % 2 else 0).tolist()
        encoded = coco.frPyObjects([corners], height, width)
        mask = coco.decode(coco.merge(encoded))
        yield {"size": [height, width], "polygon": corners, "mask": coco.encode(np.asfortranarray(mask))["counts"].decode()}


def runs(rng):
    for number in range(12):
        height, width = (int(v) for v in rng.integers(3, 90, 2))
        mask = rng.uniform(size=(height, width)) < (0.5, 0.01, 0.99)[number % 3]
        if number == 11:
            mask[:] = True
        flat = mask.T.ravel().astype(int)
        changes = np.flatnonzero(np.diff(np.concatenate([[0], flat])) != 0)
        counts = np.diff(np.concatenate([[0], changes, [flat.size]])).tolist()
        text = coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()
        yield {
            "size": [height, width],
            "counts": counts,
            "text": text,
            "rows": ["".join("01"[int(v)] for v in row) for row in mask],
        }


def main():
    rng = np.random.default_rng(4)
    content = {"polygons": list(polygons(rng)), "runs": list(runs(rng))}
    TARGET.write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()

"""Pictures of coloured shapes on backgrounds, with their boxes, masks and regions; all follow from a seed."""

from __future__ import annotations

import numpy as np

NAMES = ("circle", "square", "triangle", "cross")
"""The first three are what the files of this folder were taught; the last one is new to them."""


def shape_mask(kind: int, size: int, box: tuple[int, int, int]) -> np.ndarray:
    """The pixels [size, size] of a shape of this kind in a square box (left, top, side)."""
    left, top, side = box
    y, x = np.mgrid[:size, :size] + 0.5
    u, v = (x - left) / side, (y - top) / side
    inside = (u > 0) & (u < 1) & (v > 0) & (v < 1)
    if kind == 0:
        return (u - 0.5) ** 2 + (v - 0.5) ** 2 < 0.25
    if kind == 1:
        return inside
    if kind == 2:
        return inside & (np.abs(u - 0.5) < v / 2)
    return inside & ((np.abs(u - 0.5) < 0.17) | (np.abs(v - 0.5) < 0.17))


def picture(
    draw: np.random.Generator, size: int = 96, kinds: tuple[int, ...] = (0, 1, 2), most: int = 4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A picture with up to ``most`` shapes that hardly overlap.

    Returns:
        Values float32 [3, size, size] from 0 to 1; boxes float32 [n, 5] as (class, x1, y1, x2, y2) in pixels; a mask int64
        [size, size] of 0 for the background and 1 + class elsewhere.
    """
    corners = draw.uniform(0.0, 1.0, (3, 2, 2))
    ramp = np.linspace(0, 1, size)
    weights = np.stack([1 - ramp, ramp])
    image = np.einsum("cij,iy,jx->cyx", corners, weights, weights) * 0.6 + draw.normal(0, 0.04, (3, size, size))
    mask, boxes = np.zeros((size, size), np.int64), []
    for _ in range(int(draw.integers(1, most + 1))):
        side = int(draw.integers(size // 6, size // 2))
        left, top = (int(draw.integers(0, size - side + 1)) for _ in range(2))
        kind = int(draw.choice(kinds))
        box = np.array([left, top, left + side, top + side], np.float32)
        if any(_overlap(box, other[1:]) > 0.15 for other in boxes):
            continue
        pixels = shape_mask(kind, size, (left, top, side))
        color = draw.uniform(0, 1, 3)
        while np.abs(color - image[:, pixels].mean(1)).max() < 0.35:
            color = draw.uniform(0, 1, 3)
        image[:, pixels] = color[:, None] + draw.normal(0, 0.03, (3, int(pixels.sum())))
        mask[pixels] = 1 + kind
        boxes.append(np.array([kind, *box], np.float32))
    return image.clip(0, 1).astype(np.float32), np.array(boxes, np.float32).reshape(-1, 5), mask


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Share of the smaller box that both have"""
    shared = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    smaller = min(np.prod(a[2:] - a[:2]), np.prod(b[2:] - b[:2]))
    return float(np.prod(np.maximum(shared, 0)) / smaller)


def pictures(
    seed: int, count: int, size: int = 96, kinds: tuple[int, ...] = (0, 1, 2), most: int = 4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images [count, 3, size, size], boxes [count, most, 5] padded by rows of class -1, and masks [count, size, size]."""
    draw = np.random.default_rng(seed)
    drawn = [picture(draw, size, kinds, most) for _ in range(count)]
    boxes = np.zeros((count, most, 5), np.float32)
    boxes[:, :, 0] = -1
    for row, (_, each, _) in zip(boxes, drawn, strict=True):
        row[: len(each)] = each
    return np.stack([image for image, _, _ in drawn]), boxes, np.stack([mask for _, _, mask in drawn])


def lines(seed: int, count: int, size: int = 96, most: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of rows of strokes that look like print, and their boxes (class 0) as ``pictures`` gives them."""
    draw = np.random.default_rng(seed)
    images = np.empty((count, 3, size, size), np.float32)
    boxes = np.zeros((count, most, 5), np.float32)
    boxes[:, :, 0] = -1
    for image, rows in zip(images, boxes, strict=True):
        paper, ink = draw.uniform(0.5, 1.0, 3), draw.uniform(0.0, 0.3, 3)
        image[:] = paper[:, None, None] + draw.normal(0, 0.03, (3, size, size))
        bands = draw.permutation(most)[: int(draw.integers(1, most + 1))]
        for row, band in zip(rows, bands, strict=False):
            height = int(draw.integers(size // 9, size // 5))
            width = int(draw.integers(size // 3, int(size * 0.9)))
            top = band * size // most + int(draw.integers(0, size // most - height))
            left = int(draw.integers(0, size - width))
            x = left
            while x < left + width:
                stroke = min(int(draw.integers(1, 4)), left + width - x)
                low, high = sorted(draw.uniform(0, 1, 2))
                spans = [(0.0, 1.0)] if draw.random() < 0.6 or x == left else [(low, high)]
                for start, end in spans:
                    image[:, top + int(start * height) : top + max(int(end * height), 1), x : x + stroke] = ink[:, None, None]
                x += stroke + int(draw.integers(1, 4))
            row[:] = 0, left, top, left + width, top + height
    return images.clip(0, 1), boxes

"""PaddleOCR's text-direction classifier (in the wheel rapidocr) learns lines of handwritten digits.

Chosen: BatchNormalization keeps the statistics of the file (the program stays in inference mode), because batches are small; all
weights train. The file returns probabilities, so the loss is the logarithm of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from common import Feeds, Task
from sklearn.datasets import load_digits

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad import static

DIGITS_PER_LINE, ZOOM = 6, 4
STEPS, BATCH, HELD_OUT = 60, 16, 200


def lines(draw: np.random.Generator, images: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lines [count, 3, 48, 192] as PaddleOCR normalises them, half of them upside down, and 1 for those."""
    chosen = images[draw.integers(0, len(images), (count, DIGITS_PER_LINE))]
    row = np.concatenate(list(chosen.transpose(1, 0, 2, 3)), axis=2).repeat(ZOOM, 1).repeat(ZOOM, 2)
    page = np.zeros((count, 48, 192), np.float32)
    page[:, 8 : 8 + row.shape[1], : row.shape[2]] = row
    flipped = draw.integers(0, 2, count)
    page[flipped == 1] = page[flipped == 1][:, ::-1, ::-1]
    ink = 1 - 2 * page  # black on white, in -1..1
    return np.repeat(ink[:, None], 3, axis=1).astype(np.float32), flipped


def split() -> tuple[np.ndarray, np.ndarray]:
    """Digits to make training lines of, and others for held-out lines."""
    images = load_digits().images / 16
    return images[:1200], images[1200:]


def batches() -> Iterator[Feeds]:
    draw = np.random.default_rng(0)
    for _ in range(STEPS):
        image, label = lines(draw, split()[0], BATCH)
        yield {"x": image, "label": label}


def attach_loss(program: og.Program) -> og.Variable:
    with static.program_guard(program):
        label = static.data("label", ["N"], "int64")
        return F.nll_loss(og.log(program.outputs[0] + 1e-7), label)


def measure(session) -> dict[str, float]:
    image, label = lines(np.random.default_rng(1), split()[1], HELD_OUT)
    (probabilities,) = session.run(None, {session.get_inputs()[0].name: image})
    return {"handwritten lines right": float((probabilities.argmax(1) == label).mean())}


TASK = Task("text_direction", "rapidocr", "ch_ppocr_mobile_v2.0_cls*.onnx", attach_loss, batches, measure, learning_rate=3e-4)

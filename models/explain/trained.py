"""A digit classifier to explain: the model file trained for a few epochs, and images that it has not seen."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

import onnxgrad
from onnxgrad.training import Trainer

matplotlib.use("Agg")

DIGITS = Path(__file__).parents[1] / "digits" / "digits.onnx"


def trained_classifier(epochs: int = 6) -> tuple[onnxgrad.Program, np.ndarray, np.ndarray]:
    """(inference model, images [n, 1, 8, 8] in 0..1, labels [n])."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    trainer = Trainer(DIGITS, loss="cross_entropy", target="label", learning_rate=3e-3)
    trainer.fit({"image": images[:1400], "label": labels[:1400]}, epochs, batch_size=64)
    with tempfile.TemporaryDirectory() as folder:
        trainer.export(Path(folder) / "tuned.onnx")
        return onnxgrad.from_onnx((Path(folder) / "tuned.onnx").read_bytes()), images[1400:], labels[1400:]


def draw(path: Path, rows: list[tuple[Any, str]], titles: list[str]) -> None:
    """Rows of pictures [n, h, w], each with its colours, under one line of titles."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(rows), len(titles), figsize=(1.3 * len(titles), 1.5 * len(rows)), layout="constrained")
    for line, (pictures, colours) in zip(axes, rows, strict=True):
        for axis, picture in zip(line, pictures, strict=True):
            axis.imshow(picture, cmap=colours)
            axis.axis("off")
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"wrote {path}")

"""Curves of a history as a picture, by matplotlib.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnxgrad.errors import FileError, OnnxGradError, TrainingError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import writing
from onnxgrad.training.run.plan import Row

__all__ = ["plot_history"]

_NOT_DRAWN = ("epoch", "step", "learning_rate")


@checked
def plot_history(history: Sequence[Row], path: str | Path) -> None:
    """Draw loss and metrics over the epochs, training and validation together, into a picture file.

    Args:
        history: the rows of ``Trainer.fit``.
        path: of the image.

    Raises:
        OnnxGradError: if matplotlib is not installed.
        TrainingError: if the picture cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OnnxGradError("curves need the package matplotlib. Install onnxgrad[plots].") from error
    names = list(dict.fromkeys(name.removeprefix("val_") for row in history for name in row if name not in _NOT_DRAWN))
    figure = Figure(figsize=(4.5 * max(1, len(names)), 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, max(1, len(names)), squeeze=False)[0], names, strict=False):
        for key, label in ((name, "training"), (f"val_{name}", "validation")):
            rows = [row for row in history if key in row]
            if rows:
                axes.plot([row["epoch"] for row in rows], [row[key] for row in rows], label=label, marker=".")
        axes.set(title=name, xlabel="epoch")
        axes.legend()
    try:
        with writing(Path(path)) as file:
            figure.savefig(file, format="png")
    except FileError as error:
        raise TrainingError(str(error)) from error

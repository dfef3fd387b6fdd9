"""Runs of --qat: the file is quantised before, and the table of what that and the training did to validation data."""

# Tests: tests/cli/test_data.py.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onnxgrad.cli.settings import data_of, make_trainer, model_of, target_columns
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import make_folder, read_whole
from onnxgrad.training.data.record import set_record
from onnxgrad.training.quantized.calibration import agreement, quantize
from onnxgrad.training.run.folder import BEST, LAST, write_atomically
from onnxgrad.training.trainer import Trainer

__all__ = ["as_rows", "begin", "finish"]

TABLE, MODEL = "quantization.json", "quantized.onnx"
BEFORE, PLAIN, AFTER = "float", "plain int8", "after training"


def begin(settings: dict[str, Any], folder: str) -> None:
    """Quantise the model of a new run into its folder; the run then trains that file.

    Raises:
        ArgumentError: if the run has no validation data, or changes the model otherwise.
        TrainingError: if the folder holds a run.
    """
    if settings["val"] is None:
        raise ArgumentError("--qat compares on validation data. Give --val, such as 0.1.")
    for name in ("lora", "head", "head_at", "dropout", "quantized", "untie", "tie", "detector_classes"):
        if settings.get(name):
            option = {"detector_classes": "classes"}.get(name, name.replace("_", "-"))
            raise ArgumentError(f"--qat and --{option} do not go together. Leave one out.")
    if (Path(folder) / LAST).exists():
        raise ArgumentError(f"{folder!r} holds a run already. Resume it, or choose another folder.")
    trainer = make_trainer({**settings, "qat": None}, None)
    _, held_out = trainer.open(data_of(settings, "data"), data_of(settings, "val"))
    assert held_out is not None
    before = trainer.evaluate(held_out, batch_size=settings["batch_size"])
    make_folder(Path(folder))
    path = Path(folder) / MODEL
    targets = target_columns(settings)
    model = model_of(settings, None)
    set_record(model, trainer.record)  # of a file without BatchNormalization values and colours would be guessed otherwise
    quantize(model, path, data_of({**settings, "flip": False, "crop": False, "color": 0.0}, "data"), beside=targets)
    settings["model"] = str(path.resolve())
    _write(folder, {BEFORE: before})


def measured(trainer: Trainer, held_out: Any, settings: dict[str, Any], folder: str) -> None:
    """Enter what plain quantisation left into the table of a run that begins."""
    rows = _read(folder)
    if PLAIN not in rows:
        rows[PLAIN] = trainer.evaluate(held_out, batch_size=settings["batch_size"])
        _write(folder, rows)


def finish(trainer: Trainer, held_out: Any, settings: dict[str, Any], folder: str) -> str:
    """Enter what the best checkpoint gives, and return the table."""
    rows = _read(folder)
    best = Path(folder) / BEST
    if best.is_file():
        trainer.load(best)
    rows[AFTER] = trainer.evaluate(held_out, batch_size=settings["batch_size"])
    _write(folder, rows)
    return agreement(rows)


def as_rows(folder: str) -> tuple[list[str], list[list[str | float]]]:
    """The table of a folder as a head and rows."""
    rows = _read(folder)
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    return ["", *names], [[label, *(row.get(name, "") for name in names)] for label, row in rows.items()]


def _read(folder: str) -> dict[str, dict[str, float]]:
    path = Path(folder) / TABLE
    if not path.is_file():
        return {}
    try:
        table = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{str(path)!r} is damaged: {error}. Remove it; the run then writes a new table.") from error
    rows = table.values() if isinstance(table, dict) else [None]
    if not all(isinstance(row, dict) and all(type(value) in (int, float) for value in row.values()) for row in rows):
        raise ArgumentError(f"{str(path)!r} is damaged: it holds no rows of numbers. Remove it; the run then writes a new table.")
    return dict(table)


def _write(folder: str, rows: dict[str, dict[str, float]]) -> None:
    write_atomically(Path(folder) / TABLE, json.dumps(rows, indent=1).encode())

"""A new run that goes on from an earlier one: the best model of that run is exported into the new folder, and trained there.

Tests: tests/cli/test_earlier_run.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from onnxgrad.cli.common import SETTINGS
from onnxgrad.cli.evaluate import run_of
from onnxgrad.cli.settings import MODEL
from onnxgrad.core.interop.onnx_export import save_onnx
from onnxgrad.distributed.environment import barrier, rank
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.internal.files import make_folder
from onnxgrad.training.inference import as_inference
from onnxgrad.training.run.folder import RunFolder

__all__ = ["check_folder", "take_run"]


def check_folder(folder: str) -> None:
    """Check, before anything is read, that a folder may hold a new run.

    Raises:
        TrainingError: if it holds one, somebody trains in it, or it cannot be written.
    """
    path = Path(folder)
    if path.exists():
        with RunFolder(path) as run:
            run.check_new()
        return
    above = next((parent for parent in path.absolute().parents if parent.exists()), None)
    if above is not None and not (above.is_dir() and os.access(above, os.W_OK)):
        raise TrainingError(f"the folder {folder!r} cannot be made in {str(above)!r}. Choose a folder that you may write to.")


def take_run(settings: dict[str, Any], folder: str, shared: bool = True) -> str | None:
    """Let a new run begin with the best model of the run that the settings name in place of a model.

    What was found of that run's data is in the exported file, so the new run takes it.

    Args:
        settings: of the new run; their model becomes the exported file.
        folder: for that file.
        shared: whether all ranks see the folder, so that one of them writes the file.

    Returns:
        A line that says so; None where the settings name a file.

    Raises:
        ArgumentError: if they name a folder without a run, or change operators that the earlier run has changed or not.
    """
    earlier = Path(settings["model"])
    if not earlier.is_dir():
        return None
    if not (earlier / SETTINGS).is_file():
        raise ArgumentError(
            f"{str(earlier)!r} is a folder without {SETTINGS}, so it is not the folder of a run. Name an .onnx file or "
            "the folder of a run."
        )
    if settings.get("expand"):
        raise ArgumentError("a run was started with or without --expand. Leave it out.")
    trainer, _ = run_of(str(earlier), "best")
    path = Path(folder) / MODEL
    program, notes = as_inference(trainer.inference, scope=trainer.averaged())
    if rank() == 0 or not shared:
        make_folder(path.parent)
        save_onnx(program, path)
    barrier()
    settings["model"] = str(path.resolve())
    return " ".join([f"the model is the best one of the run {earlier}, of step {trainer.step_number}.", *notes])

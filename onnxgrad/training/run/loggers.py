"""Callbacks that write what a run does for TensorBoard and MLflow.

Tests: tests/training/run/test_callbacks.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgrad.errors import OnnxGradError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.run.callbacks import Callback
from onnxgrad.training.run.plan import Row

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["MLflow", "TensorBoard", "loggers"]

_NOT_CURVES = ("step", "epoch", "examples")


class TensorBoard(Callback):
    """Writes loss, metrics and learning rate of every step, and the rows of epochs and evaluations, as TensorBoard reads them.

    Args:
        folder: where to write; None for ``tensorboard`` in the folder of the run.

    Raises:
        OnnxGradError: if the package tensorboard is not installed, or there is no folder.

    Example:
        >>> trainer.fit(data, 5, callbacks=[TensorBoard("logs")])  # doctest: +SKIP
    """

    @checked
    def __init__(self, folder: str | Path | None = None) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise OnnxGradError("logs for TensorBoard need the package tensorboard. Install onnxgrad[tensorboard].") from error
        self._folder, self._writer = folder, None
        self._classes: Any = (EventFileWriter, event_pb2.Event, summary_pb2.Summary)

    def on_begin(self, trainer: Trainer, plan: dict[str, Any]) -> None:
        if self._folder is None and plan["out"] is None:
            raise OnnxGradError("TensorBoard() has no folder to write to. Give it one, or give fit out=.")
        self._writer = self._classes[0](str(self._folder or Path(plan["out"]) / "tensorboard"))

    def on_step(self, trainer: Trainer, row: Row) -> None:
        self._write("step", row)

    def on_evaluate(self, trainer: Trainer, row: Row) -> None:
        self._write("validation", {name.removeprefix("val_"): value for name, value in row.items()})

    def on_epoch(self, trainer: Trainer, row: Row) -> None:
        self._write("epoch", {name: value for name, value in row.items() if not name.startswith("val_")})
        self._writer.flush()  # type: ignore[attr-defined]

    def on_end(self, trainer: Trainer, row: Row) -> None:
        if self._writer is not None:
            self._writer.close()

    def _write(self, prefix: str, row: Row) -> None:
        _, event, summary = self._classes
        values = [summary.Value(tag=f"{prefix}/{name}", simple_value=value) for name, value in _curves(row).items()]
        self._writer.add_event(event(step=row["step"], wall_time=time.time(), summary=summary(value=values)))  # type: ignore[attr-defined]


class MLflow(Callback):
    """Logs a run to MLflow: to the present run, or to a new one that ends with the call of ``fit``.

    Args:
        every: steps between two logged steps; epochs and evaluations are always logged.
        checkpoints: also log the best and the last checkpoint as artifacts at the end, if the run has a folder.

    Raises:
        OnnxGradError: if the package mlflow (or mlflow-skinny) is not installed.

    Example:
        >>> trainer.fit(data, 5, callbacks=[MLflow()])  # doctest: +SKIP
    """

    @checked
    def __init__(self, every: int = 10, checkpoints: bool = False) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise OnnxGradError("logs for MLflow need the package mlflow. Install onnxgrad[mlflow].") from error
        self._mlflow: Any = mlflow
        self.every, self.checkpoints = every, checkpoints
        self._own, self._out = False, None

    def on_begin(self, trainer: Trainer, plan: dict[str, Any]) -> None:
        self._own, self._out = self._mlflow.active_run() is None, plan["out"]
        if self._own:
            self._mlflow.start_run()
        optimizer = type(trainer.optimizer).__name__
        described = {"optimizer": optimizer, "batch_size": plan["batch_size"], "epochs": plan["epochs"], "seed": trainer.seed}
        self._mlflow.log_params({**described, "trained_weights": len(trainer.trained)})

    def on_step(self, trainer: Trainer, row: Row) -> None:
        if row["step"] % self.every == 0:
            self._write({f"step_{name}": value for name, value in _curves(row).items()}, row["step"])

    def on_evaluate(self, trainer: Trainer, row: Row) -> None:
        self._write(_curves(row), row["step"])

    def on_epoch(self, trainer: Trainer, row: Row) -> None:
        self._write({name: value for name, value in _curves(row).items() if not name.startswith("val_")}, row["step"])

    def on_end(self, trainer: Trainer, row: Row) -> None:
        if self.checkpoints and self._out is not None:
            for name in ("best.safetensors", "last.safetensors"):
                if (Path(self._out) / name).exists():
                    self._mlflow.log_artifact(str(Path(self._out) / name))
        if self._own:
            self._mlflow.end_run()

    def _write(self, values: Row, step: int) -> None:
        # Names are of letters, numbers and - . / : there.
        self._mlflow.log_metrics({name.replace("@", "_at_"): value for name, value in values.items()}, step=step)


def _curves(row: Row) -> Row:
    return {name: float(value) for name, value in row.items() if name not in _NOT_CURVES}


def loggers(names: Sequence[str], folder: str | Path) -> list[Callback]:
    """Return the loggers of these names, for the run in a folder."""
    return [TensorBoard(Path(folder) / "tensorboard") if name == "tensorboard" else MLflow() for name in names]

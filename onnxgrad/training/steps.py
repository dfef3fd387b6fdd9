"""The step of a Trainer as models that any onnxruntime runs: one, or for several machines gradients and their application.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from onnxgrad.core.graph.contract import Lowering
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.step.accumulated import accumulated_step
from onnxgrad.core.step.export import Manifest, save_training_step, to_training_step
from onnxgrad.core.step.split import Split, Statistics, save_split, split_step
from onnxgrad.internal.arguments import checked
from onnxgrad.training.ranks.ranks import Ranks
from onnxgrad.training.run.state import RunState

__all__ = ["TrainingSteps"]


class TrainingSteps:
    """Export of the training step of a Trainer."""

    program: Program
    loss: Variable
    _whole_outputs: list[Variable]
    accumulate: int
    ranks: Ranks

    @property
    def state(self) -> RunState:
        """The progress of the run."""
        raise NotImplementedError

    def _check_attached(self) -> None:
        """Raise TrainingError while the loss waits for data"""
        raise NotImplementedError

    @checked
    def to_training_step(self, lowering: Lowering | None = None) -> tuple[ModelProto, Manifest]:
        """One step of this training as a model with its present state, and a manifest: see ``onnxgrad.to_training_step``.

        Its fetches are the loss and those outputs that the loss reads all of, or a metric: of logits over a vocabulary it computes
        the rows whose label counts, and of a sequence the positions that are read. With gradient accumulation the step counts the
        micro-batches and updates the weights at every last one.

        Args:
            lowering: "cpu" or "cuda" for the forms that run faster there; None for the plain ones.

        Raises:
            TrainingError: if the loss waits for data (see ``Trainer``: ``sample``).
        """
        self._check_attached()
        with self.ranks.gathered():
            return to_training_step(self._step(), self._fetch(), lowering=lowering)

    @checked
    def save_training_step(
        self, path: str | Path, lowering: Lowering | None = None, *, split: bool = False, batch_norm: Statistics | None = None
    ) -> Manifest:
        """The same as three files and the manifest that describes them: see ``onnxgrad.save_training_step``.

        Args:
            path: of the files; a suffix ``.onnx`` is dropped.
            split: write gradients and their application as models of their own: see ``onnxgrad.save_split_training_step``. With
                accumulation the first adds gradients up. It is run as often as ``manifest["accumulate"]`` says, less
                ``manifest["begun"]`` at first, then the sums are exchanged and applied, and the state that
                ``manifest["accumulated"]`` names is set to 0.
            batch_norm: with ``split``: what BatchNormalization by batch statistics is to do.

        Raises:
            ArgumentError: if the step cannot be split so.
            TrainingError: if the loss waits for data (see ``Trainer``: ``sample``).
            OSError: if a file cannot be written.
        """
        self._check_attached()
        with self.ranks.gathered():
            if split:
                return save_split(self._split(lowering, batch_norm), path)
            return save_training_step(self._step(), path, self._fetch(), lowering=lowering)

    def _fetch(self) -> list[str]:
        return list(dict.fromkeys(v.name for v in (self.loss, *self._whole_outputs)))

    def _step(self) -> Program:
        return accumulated_step(self.program, self.state.step % self.accumulate)

    def _split(self, lowering: Lowering | None, batch_norm: Statistics | None) -> Split:
        split = split_step(self.program, self._fetch(), None, lowering, self.loss.name, None, batch_norm)
        split.manifest["begun"] = self.state.step % self.accumulate
        return split

"""Fine-tuning of model files: the Trainer, its losses, data, checkpoints and history."""

from onnxgrad.training.checkpoint import load_checkpoint, save_checkpoint
from onnxgrad.training.curves import plot_history
from onnxgrad.training.losses import Term
from onnxgrad.training.schedules import Planned
from onnxgrad.training.trainer import Trainer

__all__ = ["Planned", "Term", "Trainer", "load_checkpoint", "plot_history", "save_checkpoint"]

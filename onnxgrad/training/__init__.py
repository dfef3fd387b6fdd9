"""Helpers around a training loop."""

from onnxgrad.training.checkpoint import load_checkpoint, save_checkpoint
from onnxgrad.training.losses import Term
from onnxgrad.training.trainer import Trainer

__all__ = ["Term", "Trainer", "load_checkpoint", "save_checkpoint"]

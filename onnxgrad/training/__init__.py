"""Helpers around a training loop."""

from onnxgrad.training.checkpoint import load_checkpoint, save_checkpoint

__all__ = ["load_checkpoint", "save_checkpoint"]

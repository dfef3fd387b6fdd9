"""Optimizers, written into the program as standard operators."""

from onnxgrad.optimizer import lr
from onnxgrad.optimizer.adam import Adam, AdamW
from onnxgrad.optimizer.momentum import SGD, Momentum
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Momentum", "Optimizer", "lr"]

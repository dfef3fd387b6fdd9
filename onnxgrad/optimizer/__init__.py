"""Optimizers, written into the program as standard operators."""

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.optimizer import lr
from onnxgrad.optimizer.adam import Adam, Adamax, AdamW, Lamb, NAdam, RAdam
from onnxgrad.optimizer.adaptive import Adadelta, Adagrad, RMSProp
from onnxgrad.optimizer.lbfgs import LBFGS
from onnxgrad.optimizer.momentum import ASGD, SGD, Momentum, Rprop
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum", "NAdam", "Optimizer", "RAdam",
    "RMSProp", "Rprop", "lr",
]  # fmt: skip


globals().update(absence_hooks(__name__))

"""Gradients of eager tensors."""

from onnxgrad.autograd.backward_mode import backward, grad
from onnxgrad.autograd.functional import Hessian, Jacobian, hessian, jacobian, jvp, vjp
from onnxgrad.autograd.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from onnxgrad.autograd.py_layer import PyLayer, PyLayerContext, saved_tensors_hooks
from onnxgrad.internal.refusals import absence_hooks

Function = PyLayer

__all__ = [
    "Function", "Hessian", "Jacobian", "PyLayer", "PyLayerContext", "backward", "enable_grad", "grad", "hessian",
    "is_grad_enabled", "jacobian", "jvp", "no_grad", "saved_tensors_hooks", "set_grad_enabled", "vjp",
]  # fmt: skip


globals().update(absence_hooks(__name__))

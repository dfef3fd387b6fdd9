"""fluid.backward: append_backward and gradients."""

from onnxgrad.autodiff.api import append_backward, gradients

__all__ = ["append_backward", "gradients"]

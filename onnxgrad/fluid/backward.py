"""fluid.backward: append_backward and gradients."""

# Tests: tests/fluid/test_fluid.py.

from onnxgrad.core.autodiff.api import append_backward, gradients

__all__ = ["append_backward", "gradients"]


def __dir__() -> list[str]:
    return __all__

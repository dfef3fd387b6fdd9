"""Names that Paddle keeps under incubate."""

from onnxgrad.incubate import autograd

__all__ = ["autograd"]

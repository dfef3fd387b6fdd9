"""paddle.nn.initializer: the initial values of parameters."""

from onnxgrad.tensor.initializer import *  # noqa: F403
from onnxgrad.tensor.initializer import __all__  # noqa: F401

"""paddle.nn.functional, one module per family."""

from importlib import import_module
from typing import Any

from onnxgrad.internal.refusals import REFUSED, absent, refusals
from onnxgrad.nn.functional.activation import *  # noqa: F403
from onnxgrad.nn.functional.attention import *  # noqa: F403
from onnxgrad.nn.functional.common import *  # noqa: F403
from onnxgrad.nn.functional.conv import *  # noqa: F403
from onnxgrad.nn.functional.cross_entropy import *  # noqa: F403
from onnxgrad.nn.functional.loss import *  # noqa: F403
from onnxgrad.nn.functional.norm import *  # noqa: F403
from onnxgrad.nn.functional.pooling import *  # noqa: F403
from onnxgrad.nn.functional.vision import *  # noqa: F403
from onnxgrad.tensor.creation import diag_embed
from onnxgrad.tensor.inplace import in_place

__all__ = ["diag_embed"]
for _family in ["activation", "attention", "common", "conv", "cross_entropy", "loss", "norm", "pooling", "vision"]:
    __all__ += import_module(f"{__name__}.{_family}").__all__

for _name in ("elu", "hardtanh", "leaky_relu", "relu", "sigmoid", "softmax", "tanh", "thresholded_relu"):
    globals()[f"{_name}_"] = in_place(globals()[_name])
globals().update(refusals("paddle.nn.functional", REFUSED["paddle.nn.functional"]))


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)

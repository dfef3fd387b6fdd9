"""paddle.nn.functional, one module per family."""

from typing import Any

from onnxgrad.nn.functional.activation import *  # noqa: F403
from onnxgrad.nn.functional.activation import __all__ as _activation
from onnxgrad.nn.functional.attention import *  # noqa: F403
from onnxgrad.nn.functional.attention import __all__ as _attention
from onnxgrad.nn.functional.common import *  # noqa: F403
from onnxgrad.nn.functional.common import __all__ as _common
from onnxgrad.nn.functional.conv import *  # noqa: F403
from onnxgrad.nn.functional.conv import __all__ as _conv
from onnxgrad.nn.functional.cross_entropy import *  # noqa: F403
from onnxgrad.nn.functional.cross_entropy import __all__ as _cross_entropy
from onnxgrad.nn.functional.loss import *  # noqa: F403
from onnxgrad.nn.functional.loss import __all__ as _loss
from onnxgrad.nn.functional.norm import *  # noqa: F403
from onnxgrad.nn.functional.norm import __all__ as _norm
from onnxgrad.nn.functional.pooling import *  # noqa: F403
from onnxgrad.nn.functional.pooling import __all__ as _pooling
from onnxgrad.nn.functional.vision import *  # noqa: F403
from onnxgrad.nn.functional.vision import __all__ as _vision
from onnxgrad.reasons import REFUSED, absent
from onnxgrad.refusals import refusals
from onnxgrad.tensor.creation import diag_embed
from onnxgrad.tensor.inplace import in_place

__all__ = ["diag_embed"]
__all__ += [*_activation, *_attention, *_common, *_conv, *_cross_entropy, *_loss, *_norm, *_pooling, *_vision]

for _name in ("elu", "hardtanh", "leaky_relu", "relu", "sigmoid", "softmax", "tanh", "thresholded_relu"):
    globals()[f"{_name}_"] = in_place(globals()[_name])
globals().update(refusals("paddle.nn.functional", REFUSED["paddle.nn.functional"]))


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)

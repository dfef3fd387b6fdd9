"""Initializers, gradient clipping, functions of neural networks, and layers as objects."""

from typing import Any

from onnxgrad.internal.refusals import absent
from onnxgrad.nn import functional, initializer, utils
from onnxgrad.nn.container import LayerDict, LayerList, ParameterDict, ParameterList, Sequential
from onnxgrad.nn.layer import Layer
from onnxgrad.nn.layers import *  # noqa: F403
from onnxgrad.nn.layers import __all__ as _plain
from onnxgrad.nn.recurrent import *  # noqa: F403
from onnxgrad.nn.recurrent import __all__ as _recurrent
from onnxgrad.nn.transformer import *  # noqa: F403
from onnxgrad.nn.transformer import __all__ as _transformer
from onnxgrad.nn.weighted import *  # noqa: F403
from onnxgrad.nn.weighted import __all__ as _weighted
from onnxgrad.optimizer.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from onnxgrad.tensor.param_attr import ParamAttr, WeightNormParamAttr

__all__ = [
    "ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue", "Layer", "LayerDict", "LayerList", "ParamAttr",
    "ParameterDict", "ParameterList", "Sequential", "WeightNormParamAttr", "functional", "initializer", "utils",
]  # fmt: skip
__all__ += [*_plain, *_recurrent, *_transformer, *_weighted]


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)

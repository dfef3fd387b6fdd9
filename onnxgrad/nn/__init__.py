"""Initializers, gradient clipping, functions of neural networks, and layers as objects."""

from onnxgrad.nn import functional, initializer
from onnxgrad.nn.layer import Layer, LayerList, Sequential
from onnxgrad.nn.layers import *  # noqa: F403
from onnxgrad.nn.layers import __all__ as _layers
from onnxgrad.optimizer.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from onnxgrad.tensor.param_attr import ParamAttr, WeightNormParamAttr

__all__ = [
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "Layer",
    "LayerList",
    "ParamAttr",
    "Sequential",
    "WeightNormParamAttr",
    "functional",
    "initializer",
]
__all__ += _layers

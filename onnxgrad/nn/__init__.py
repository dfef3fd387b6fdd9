"""Initializers, gradient clipping and functions of neural networks."""

from onnxgrad.nn import functional, initializer
from onnxgrad.nn.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from onnxgrad.nn.param_attr import ParamAttr, WeightNormParamAttr

__all__ = [
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "ParamAttr",
    "WeightNormParamAttr",
    "functional",
    "initializer",
]

"""The types of arguments that functions and layers share: words, sizes of windows, layouts, attributes of parameters.

Tests: tests/nn/test_checked.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

from onnxgrad.core.ir.variable import Variable
from onnxgrad.tensor.initializer import Initializer
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = [
    "Activation", "AnyTensor", "BiasAttr", "Direction", "DropoutMode", "FloatName", "Layout", "Layout1D", "Layout2D", "Layout3D",
    "Numbers", "PadMode", "Padding", "PaddingMode", "Reduction", "ResizeMode", "Sizes", "SumOrMean", "WeightAttr",
]  # fmt: skip

AnyTensor = TypeVar("AnyTensor", bound=Variable)
"""An eager Tensor or a Variable of a program: a layer gives what it takes."""

Numbers = int | Sequence[int]
"""One number for all spatial axes, or one for each."""

Padding = Literal["SAME", "VALID", "same", "valid"] | int | Sequence[int] | Sequence[Sequence[int]]
"""One number, one for each spatial axis, a start and an end for each, pairs for all axes, or a word."""

Sizes = int | Variable | Sequence[int | Variable]
"""Sizes that are known when a program is built or, as integer Variables, when it runs."""

Reduction = Literal["mean", "sum", "none"]
SumOrMean = Literal["mean", "batchmean", "sum", "none"]
DropoutMode = Literal["upscale_in_train", "downscale_in_infer"]
PadMode = Literal["constant", "reflect", "replicate", "circular"]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
ResizeMode = Literal[
    "nearest", "linear", "bilinear", "trilinear", "bicubic", "area",
    "NEAREST", "LINEAR", "BILINEAR", "TRILINEAR", "BICUBIC", "AREA",
]  # fmt: skip
Direction = Literal["forward", "bidirect", "bidirectional"]

Layout1D = Literal["NCL", "NLC", "NCW", "NWC"]
Layout2D = Literal["NCHW", "NHWC"]
Layout3D = Literal["NCDHW", "NDHWC"]
Layout = Literal["NC", "NCL", "NLC", "NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC"]
"""That of any number of axes."""

Activation = Literal[
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid", "log_softmax", "mish",
    "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softshrink", "softsign", "swish", "tanh", "tanhshrink",
    "thresholded_relu",
]  # fmt: skip
"""Functions of ``nn.functional`` that take one tensor."""

FloatName = Literal["float16", "bfloat16", "float32", "float64"]
WeightAttr = ParamAttr | Initializer | str | Literal[True] | None
"""How a parameter is made: its attributes, its initial values, its name, or None or True for the usual."""

BiasAttr = ParamAttr | Initializer | str | bool | None
"""The same; False for none."""

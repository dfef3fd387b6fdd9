"""Second spellings that Paddle 3.3 has for its layers: those of torch.

Tests: tests/nn/test_spellings.py.
"""

from onnxgrad.nn.container import LayerDict as ModuleDict, LayerList as ModuleList
from onnxgrad.nn.functional_layers import (
    AdaptiveMaxPool1D as AdaptiveMaxPool1d,
    AdaptiveMaxPool2D as AdaptiveMaxPool2d,
    AdaptiveMaxPool3D as AdaptiveMaxPool3d,
    CircularPad1D as CircularPad1d,
    CircularPad2D as CircularPad2d,
    CircularPad3D as CircularPad3d,
    ConstantPad1D as ConstantPad1d,
    ConstantPad2D as ConstantPad2d,
    ConstantPad3D as ConstantPad3d,
    LPPool1D as LPPool1d,
    LPPool2D as LPPool2d,
    ReflectionPad1D as ReflectionPad1d,
    ReflectionPad2D as ReflectionPad2d,
    ReflectionPad3D as ReflectionPad3d,
    ReplicationPad1D as ReplicationPad1d,
    ReplicationPad2D as ReplicationPad2d,
    ReplicationPad3D as ReplicationPad3d,
    Silu as SiLU,
)
from onnxgrad.nn.layer import Layer as Module
from onnxgrad.nn.weighted import Conv1D as Conv1d, Conv2D as Conv2d, Conv3D as Conv3d

__all__ = [
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "CircularPad1d", "CircularPad2d", "CircularPad3d",
    "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Conv1d", "Conv2d", "Conv3d", "LPPool1d", "LPPool2d", "Module",
    "ModuleDict", "ModuleList", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "SiLU",
]  # fmt: skip

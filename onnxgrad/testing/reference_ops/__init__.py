"""Corrected operators for onnx.reference, used as an oracle in tests. Each says what it corrects in onnx 1.23."""

from __future__ import annotations

from onnxgrad.testing.reference_ops import control, network, recurrent, spatial, tensor
from onnxgrad.testing.reference_ops.registry import CORRECTED, corrected

__all__ = ["CORRECTED", "control", "corrected", "network", "recurrent", "spatial", "tensor"]

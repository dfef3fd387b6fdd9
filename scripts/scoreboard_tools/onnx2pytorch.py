"""onnx2pytorch: converts to a torch module, which torch differentiates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx2pytorch

from scoreboard_tools.shared import convert_with, loading
from scoreboard_tools.torch_autograd import gradients_of

REQUIREMENTS = ["onnx2pytorch", "torch", "torchvision", "onnx", "numpy", "setuptools"]
PACKAGE = "onnx2pytorch"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        model = onnx.load(model_path)
        module, model = convert_with(onnx2pytorch.ConvertModel, model)
    return gradients_of(module, model, inputs, cotangents, weights)

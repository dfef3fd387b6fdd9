"""onnx2torch: converts to a torch.fx module, which torch differentiates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx2torch

from scoreboard_tools.shared import convert_with, loading
from scoreboard_tools.torch_autograd import gradients_of

REQUIREMENTS = ["onnx2torch", "torch", "torchvision", "onnx", "numpy", "setuptools"]
PACKAGE = "onnx2torch"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        model = onnx.load(model_path)
        module, model = convert_with(onnx2torch.convert, model)
    return gradients_of(module, model, inputs, cotangents, weights)

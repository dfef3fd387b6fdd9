"""onnx2fx: converts to a torch.fx module, which torch differentiates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx2fx

from scoreboard_tools.shared import convert_with, loading
from scoreboard_tools.torch_autograd import gradients_of

REQUIREMENTS = ["onnx2fx", "torch", "onnx", "numpy"]
PACKAGE = "onnx2fx"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        model = onnx.load(model_path)
        module, model = convert_with(lambda model: onnx2fx.make_trainable(onnx2fx.convert(model)), model)
    return gradients_of(module, model, inputs, cotangents, weights)

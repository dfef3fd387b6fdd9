"""tinygrad: its OnnxRunner computes with tensors that tinygrad differentiates; weights keep their names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from scoreboard_tools.shared import floats_of, loading

os.environ.setdefault("DEV", "PYTHON")  # its interpreter needs no compiler; what it computes is the same

from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

REQUIREMENTS = ["tinygrad", "onnx", "numpy"]
PACKAGE = "tinygrad"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        runner = OnnxRunner(str(model_path))
    leaves = {name: Tensor(inputs[name]) for name in floats_of(inputs)}
    outputs = runner({**inputs, **leaves})
    for name in weights:
        leaves[name] = runner.graph_values[name]
    total = sum(((outputs[name] * Tensor(seed)).sum() for name, seed in cotangents.items()), Tensor(0.0))
    names = list(leaves)
    grads = total.gradient(*[leaves[name] for name in names])
    return {name: g.numpy().astype(np.float64) for name, g in zip(names, grads, strict=True) if g is not None}

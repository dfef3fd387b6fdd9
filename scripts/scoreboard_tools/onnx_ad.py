"""onnx-ad: writes the adjoint model, which onnxruntime runs. Initializers are constants to it, so weights are made inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ad
from scoreboard_tools.shared import floats_of, loading, run, weights_as_inputs

REQUIREMENTS = ["onnx-ad", "onnx", "onnxruntime", "numpy"]
PACKAGE = "onnx-ad"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        model, values = weights_as_inputs(onnx.load(model_path), weights)
    names = [*floats_of(inputs), *weights]
    adjoint = onnx_ad.reverse(model, inputs=names, outputs=list(cotangents), prefix="adj_", dim="nadj", layout="onnx")
    seeds = {f"adj_{name}": seed[..., None] for name, seed in cotangents.items()}
    outputs = run(adjoint, {**inputs, **values, **seeds})
    return {name: outputs[f"adj_{name}"][..., 0] for name in names}

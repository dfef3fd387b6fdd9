"""onnx-ad: writes the adjoint model, which onnxruntime runs. Initializers are constants to it, so weights are made inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ad

from scoreboard_tools.shared import convert_with, floats_of, loading, run, weights_as_inputs

REQUIREMENTS = ["onnx-ad", "onnx", "onnxruntime", "numpy"]
PACKAGE = "onnx-ad"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        model, values = weights_as_inputs(onnx.load(model_path), weights)
        model = onnx.shape_inference.infer_shapes(model)  # as its messages ask for
    names = [*floats_of(inputs), *weights]
    # Its messages ask for a newer opset where an older one has no operator for an adjoint.
    adjoint, _ = convert_with(
        lambda model: onnx_ad.reverse(model, inputs=names, outputs=list(cotangents), prefix="adj_", dim="nadj", layout="onnx"),
        model,
        opsets=(18, 21),
    )
    seeds = {f"adj_{name}": seed[..., None] for name, seed in cotangents.items()}
    outputs = run(adjoint, {**inputs, **values, **seeds})
    return {name: outputs[f"adj_{name}"][..., 0] for name in names}

"""jaxonnxruntime: makes a function of jax, which jax differentiates; weights keep their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from jaxonnxruntime import call_onnx, config

from scoreboard_tools.shared import convert_with, floats_of, loading

jax.config.update("jax_enable_x64", True)
config.update("jaxort_only_allow_initializers_as_static_args", False)  # which its messages name; shapes may then be computed

REQUIREMENTS = ["jaxonnxruntime", "jax", "absl-py", "chex", "onnx", "numpy"]
PACKAGE = "jaxonnxruntime"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        (function, params), model = convert_with(lambda model: call_onnx.call_onnx_model(model, inputs), onnx.load(model_path))
    floats = floats_of(inputs)
    outputs = [info.name for info in model.graph.output]

    def call(moved_inputs: Any, moved_weights: Any) -> Any:
        values = function({**params, **moved_weights}, {**inputs, **moved_inputs})
        return [values[outputs.index(name)] for name in cotangents]

    found, pull = jax.vjp(call, {name: inputs[name] for name in floats}, {name: params[name] for name in weights})
    by_input, by_weight = pull([seed.astype(y.dtype) for seed, y in zip(cotangents.values(), found, strict=True)])
    return {name: np.asarray(g).astype(np.float64) for name, g in {**by_input, **by_weight}.items()}

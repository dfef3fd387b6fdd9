"""onnxgrad: this library, by its public functions alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxgrad
from scoreboard_tools.shared import floats_of, loading, run

REQUIREMENTS: list[str] = []  # it runs in the environment of this repository
PACKAGE = "onnxgrad"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        program = onnxgrad.from_onnx(model_path, expand="ai.onnx.preview.training")
    by_name = {v.name: v for v in [*program.inputs, *program.outputs, *program.parameters]}
    sources = [by_name[name] for name in [*floats_of(inputs), *weights] if name in by_name]
    seeds = {}
    with onnxgrad.static.program_guard(program):
        for i, seed in enumerate(cotangents.values()):
            seeds[f"cotangent_{i}"] = seed
        variables = [onnxgrad.static.data(name, seed.shape, seed.dtype.name) for name, seed in seeds.items()]
        grads = onnxgrad.vjp([by_name[name] for name in cotangents], sources, variables)
    model = onnxgrad.to_onnx(program, grads)
    values = run(model, {**inputs, **seeds})
    return {v.name: values[g.name] for v, g in zip(sources, grads, strict=True)}

"""onnxruntime-training: its GradientGraphBuilder appends the backward pass to a model with a scalar loss, as torch-ort used it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnxruntime.capi._pybind_state import GradientGraphBuilder

from scoreboard_tools.shared import convert_with, floats_of, loading, weights_as_inputs

REQUIREMENTS = ["onnxruntime-training-cpu", "onnx", "numpy"]
PACKAGE = "onnxruntime-training-cpu"


def gradients(model_path: Path, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]) -> dict[str, Any]:
    with loading():
        model = onnx.load(model_path)
        model.ir_version = min(model.ir_version, 10)  # a stamp that onnxruntime 1.19 asks for; what is computed is the same
        _, loaded = convert_with(_open, model)
    model, values = weights_as_inputs(loaded, weights)
    types = {info.name: info.type.tensor_type.elem_type for info in model.graph.output}
    totals, seeds = [], {}
    for i, (name, seed) in enumerate(cotangents.items()):
        # The loss is float32 and a scalar: sum(output * cotangent), cast where the output has another type.
        wide = f"wide_{i}"
        model.graph.node.append(helper.make_node("Cast", [name], [wide], to=onnx.TensorProto.FLOAT))
        model.graph.node.append(helper.make_node("Mul", [wide, f"seed_{i}"], [f"product_{i}"]))
        model.graph.node.append(helper.make_node("ReduceSum", [f"product_{i}"], [f"total_{i}"], keepdims=0))
        model.graph.input.append(helper.make_tensor_value_info(f"seed_{i}", onnx.TensorProto.FLOAT, seed.shape))
        if types[name] == onnx.TensorProto.FLOAT:
            model.graph.node[-3].op_type = "Identity"
            del model.graph.node[-3].attribute[:]
        totals.append(f"total_{i}")
        seeds[f"seed_{i}"] = seed.astype(np.float32)
    total = totals[0]
    for i, other in enumerate(totals[1:]):
        model.graph.node.append(helper.make_node("Add", [total, other], [f"sum_{i}"]))
        total = f"sum_{i}"
    model.graph.node.append(helper.make_node("Identity", [total], ["the_loss"]))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("the_loss", onnx.TensorProto.FLOAT, []))
    names = [*floats_of(inputs), *weights]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    builder = GradientGraphBuilder(model.SerializeToString(), {"the_loss"}, set(names), "the_loss", options)
    builder.build()
    backward = onnx.load_model_from_string(builder.get_model())
    given = {info.name for info in backward.graph.output}
    kinds = {info.name: info.type for info in backward.graph.input}
    for name in names:
        if f"{name}_grad" not in given and any(f"{name}_grad" in node.output for node in backward.graph.node):
            backward.graph.output.append(onnx.ValueInfoProto(name=f"{name}_grad", type=kinds[name]))
    session = onnxruntime.InferenceSession(backward.SerializeToString(), options, providers=["CPUExecutionProvider"])
    read = {v.name for v in session.get_inputs()}
    wanted = [v.name for v in session.get_outputs() if v.name.removesuffix("_grad") in names]
    feeds = {name: value for name, value in {**inputs, **values, **seeds}.items() if name in read}
    feeds |= {v.name: np.ones((), np.float32) for v in session.get_inputs() if v.name == "the_loss_grad"}
    return {name.removesuffix("_grad"): g for name, g in zip(wanted, session.run(wanted, feeds), strict=True)}


def _open(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

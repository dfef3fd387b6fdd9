"""Files that quantize computed tensors, by channel or as a whole, run and train as their operators say.

onnxruntime fuses what lies between DequantizeLinear and QuantizeLinear into operators on integers, which take one scale.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as og
from onnxgrad.testing import evaluate

DRAW = np.random.default_rng(0)
FEED = {"x": DRAW.normal(size=(2, 3, 4, 4)).astype(np.float32)}
WEIGHT = DRAW.normal(size=(3, 3, 1, 1)).astype(np.float32)
NODES = {
    "MaxPool": {"kernel_shape": [2, 2]},
    "AveragePool": {"kernel_shape": [2, 2]},
    "GlobalAveragePool": {},
    "Clip": {},
    "LeakyRelu": {},
    "Resize": {"mode": "nearest"},
}
OPERANDS = {"Clip": ["low", "high"], "Resize": ["", "scales"]}
CONSTANTS = {"low": np.float32(-0.5), "high": np.float32(1), "scales": np.array([1, 1, 2, 2], np.float32)}


def model_of(kind, by_channel, zero, quantizes):
    """Conv, then an operator, each between quantised tensors; without these, to compare with"""
    scale = np.array([0.02, 0.03, 0.05], np.float32) * 2 if by_channel else np.float32(0.06)
    constants = {"w": WEIGHT, "scale": scale, "zero": np.full(np.shape(scale), zero), **CONSTANTS}
    nodes = []

    def quantized(name):
        if not quantizes:
            return name
        axis = {"axis": 1} if by_channel else {}
        nodes.append(helper.make_node("QuantizeLinear", [name, "scale", "zero"], [f"{name}/q"], **axis))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}/q", "scale", "zero"], [f"{name}/d"], **axis))
        return f"{name}/d"

    nodes.append(helper.make_node("Conv", [quantized("x"), "w"], ["h"]))
    nodes.append(helper.make_node(kind, [quantized("h"), *OPERANDS.get(kind, [])], ["z"], **NODES[kind]))
    nodes.append(helper.make_node("Identity", [quantized("z")], ["y"]))
    read = {name for node in nodes for name in node.input}
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in read]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c", "d"])
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("zero", [np.int8(0), np.uint8(128)], ids=["int8", "uint8"])
@pytest.mark.parametrize("by_channel", [True, False])
@pytest.mark.parametrize("kind", NODES)
def test_quantised_tensors_around_an_operator(kind, by_channel, zero):
    model = model_of(kind, by_channel, zero, True)
    program, plain = og.from_onnx(model), og.from_onnx(model_of(kind, by_channel, zero, False))
    found = []
    for each in (program, plain):
        each.inputs[0].stop_gradient = False
        alone = og.Executor().run(each, FEED, each.outputs)[0]
        (g,) = og.gradients(each.outputs, each.inputs)
        onnx.checker.check_model(og.to_onnx(each, [g]), full_check=True)
        y, value = og.Executor().run(each, FEED, [*each.outputs, g])
        np.testing.assert_allclose(alone, y, atol=0.1 + 1e-5 if each is program else 1e-5)
        found.append((y, value))
    (y, value), (_, unquantised) = found
    expected = evaluate(model, FEED)[0]
    step = np.array([0.04, 0.06, 0.1]).reshape(1, 3, 1, 1) if by_channel else 0.06
    # Sums of the convolution that lie halfway between two integers may round to either.
    off = np.abs(y - expected) > 1e-5
    assert off.mean() < 0.05 and (np.abs(y - expected) <= step + 1e-5).all()
    if kind in ("AveragePool", "GlobalAveragePool", "Resize"):  # linear: rounding moves no kink, and nothing saturates
        np.testing.assert_allclose(value, unquantised, rtol=1e-5, atol=1e-6)
    assert np.isfinite(value).all() and value.any()

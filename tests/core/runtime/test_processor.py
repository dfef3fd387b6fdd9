"""On a processor that sums products of bytes in 16 bits, constants of bytes are given to one reader each."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxgrad
from onnxgrad.core.runtime import processor, session
from onnxgrad.core.runtime.processor import separate_bytes

X = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)


def two_products():
    """Two products on one weight and one zero point, with sums beyond 16 bits."""
    weight = np.random.default_rng(0).integers(-128, 127, (4, 5)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        helper.make_node("MatMulInteger", ["q", "w", "qz", "z"], ["first"]),
        helper.make_node("MatMulInteger", ["q", "w", "qz", "z"], ["second"]),
    ]
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.INT32, [3, 5]) for name in ("first", "second")]
    held = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.int8(3), "z")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [3, 4])], outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_each_reader_has_constants_of_its_own():
    model = two_products()
    separate_bytes(model)
    onnx.checker.check_model(model, full_check=True)
    first, second = (set(node.input[1::2]) for node in model.graph.node[1:])
    assert not first & second
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for found, expected in zip(session.run(None, {"x": X}), ReferenceEvaluator(two_products()).run(None, {"x": X}), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_initializer_that_is_an_input_stays_one():
    model = two_products()
    model.graph.input.append(helper.make_tensor_value_info("w", onnx.TensorProto.INT8, [4, 5]))
    separate_bytes(model)
    assert [node.input[1] for node in model.graph.node[1:]] == ["w", "w"]


@pytest.mark.parametrize("has", [True, False])
def test_a_program_with_shared_bytes_runs_on_either_kind_of_processor(has, monkeypatch):
    if has and not processor.has_integer_products():
        pytest.skip("sums of bytes saturate on this processor")
    monkeypatch.setattr(session, "has_integer_products", lambda: has)
    program = onnxgrad.from_onnx(two_products())
    expected = ReferenceEvaluator(two_products()).run(None, {"x": X})
    for found, value in zip(onnxgrad.Executor().run(program, {"x": X}, program.outputs), expected, strict=True):
        np.testing.assert_array_equal(found, value)

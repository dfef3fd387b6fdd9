"""A user adds an operator of their own."""

import numpy as np
import onnx
import pytest

import onnxgrad
from onnxgrad.autodiff.registry import TABLE

TEXT = """<ir_version: 9, opset_import: ["": 18, "com.acme": 1]>
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { h = Mul (x, w) y = com.acme.Cube (h) }
    <domain: "com.acme", opset_import: ["": 18]> Cube (a) => (b) { s = Mul (a, a) b = Mul (s, a) }"""
X, W = np.array([0.5, -1.0], np.float32), np.array([1.0, 2.0], np.float32)


@pytest.fixture
def cube_rule():
    @onnxgrad.gradient("Cube", domain="com.acme")
    def cube(op, node, gy):
        """gx = 3 x^2 gy"""
        (x,) = node.inputs
        return op.Mul(gy, op.Mul(op.Mul(x, x), 3.0))

    yield
    del TABLE[("com.acme", "Cube")]


def weight_gradient(program):
    program.outputs[0].type = program.inputs[0].type
    ((_, g),) = onnxgrad.append_backward(program.outputs[0])
    return onnxgrad.Executor().run(program, {"x": X}, [g])[0]


def test_registered_rule_is_used(cube_rule):
    program = onnxgrad.from_onnx(onnx.parser.parse_model(TEXT))
    np.testing.assert_allclose(weight_gradient(program), 3 * (X * W) ** 2 * X)


def test_model_local_function_is_differentiated_through_its_body():
    program = onnxgrad.from_onnx(onnx.parser.parse_model(TEXT))
    np.testing.assert_allclose(weight_gradient(program), 3 * (X * W) ** 2 * X)
    assert [op.type for op in program.global_block().ops][:2] == ["Mul", "Cube"]


def test_rule_that_breaks_its_contract_is_named():
    @onnxgrad.gradient("Cube", domain="com.acme")
    def cube(op, node, gy):
        """gx = a scalar, which is wrong"""
        return op.ReduceSum(gy, keepdims=0)

    try:
        program = onnxgrad.from_onnx(onnx.parser.parse_model(TEXT))
        with pytest.raises(onnxgrad.errors.RuleError, match=r"com\.acme:Cube.*shape \[\]"):
            weight_gradient(program)
    finally:
        del TABLE[("com.acme", "Cube")]

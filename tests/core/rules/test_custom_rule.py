"""A user adds an operator of their own."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference.op_run import OpRun

import onnxgrad
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.testing import GradientMismatch, Sample, check_gradient

TEXT = """<ir_version: 9, opset_import: ["": 18, "com.acme": 1]>
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { h = Mul (x, w) y = com.acme.Cube (h) }
    <domain: "com.acme", opset_import: ["": 18]> Cube (a) => (b) { s = Mul (a, a) b = Mul (s, a) }"""
X, W = np.array([0.5, -1.0], np.float32), np.array([1.0, 2.0], np.float32)


@pytest.fixture(autouse=True)
def same_table():
    """What a test declares is gone after it."""
    declared = set(TABLE)
    yield
    for key in set(TABLE) - declared:
        del TABLE[key]


@pytest.fixture
def cube_rule():
    @onnxgrad.core.rules.gradient("Cube", domain="com.acme")
    def cube(op, node, gy):
        """gx = 3 x^2 gy"""
        (x,) = node.inputs
        return op.Mul(gy, op.Mul(op.Mul(x, x), 3.0))


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

    program = onnxgrad.from_onnx(onnx.parser.parse_model(TEXT))
    with pytest.raises(onnxgrad.errors.RuleError, match=r"com\.acme:Cube.*shape \[\]"):
        weight_gradient(program)


class Wave(OpRun):
    """Without a schema: onnx knows nothing of it."""

    op_domain = "my.domain"

    def _run(self, x, bias=None, rate=None):
        return np.sin(rate * x) + (0 if bias is None else bias), x.round().astype(np.int64)


def wave_sample(*inputs):
    return Sample(*inputs, outputs=2, domain="my.domain", reference=Wave, rate=3.0)


@pytest.mark.parametrize("symbolic", [False, True])
def test_rule_of_an_operator_without_schema_is_proven(symbolic):
    @onnxgrad.core.rules.gradient("Wave", domain="my.domain", broadcasts=True)
    def wave(op, node, gy, _):
        """gx = gy * cos(rate * x) * rate;  gbias = gy"""
        rate = node.operator.attrs["rate"]
        gx = op.Mul(gy, op.Mul(op.Cos(op.Mul(node.inputs[0], rate)), rate))
        return (gx, gy)[: len(node.inputs)]

    for inputs in ((np.array([0.5, 2.0]),), (np.ones((2, 3)), np.array([1.0, 2.0, 3.0]))):
        check_gradient(wave_sample(*inputs), op_type="Wave", symbolic=symbolic, order=2)


def test_wrong_rule_of_an_operator_without_schema_is_found():
    @onnxgrad.core.rules.gradient("Wave", domain="my.domain")
    def wave(op, node, gy, _):
        """gx = gy * cos(rate * x), which lacks a factor"""
        return op.Mul(gy, op.Cos(op.Mul(node.inputs[0], node.operator.attrs["rate"])))

    with pytest.raises(GradientMismatch, match="Wave-0: the first gradient of x0"):
        check_gradient(wave_sample(np.array([0.5, 2.0])), op_type="Wave")


def test_operator_is_declared_to_stop_gradients():
    onnxgrad.core.rules.stops_gradient("Wave", domain="my.domain", because="it is a lookup")
    with pytest.raises(GradientMismatch, match="is 0, finite differences"):
        check_gradient(wave_sample(np.array([0.5, 2.0])), op_type="Wave")


def test_examples_in_the_guide_run():
    text = (Path(__file__).parents[3] / "docs" / "develop" / "add_operator.md").read_text().split("## An operator of your own")[1]
    names = {"onnxgrad": onnxgrad, "onnx": onnx, "np": np, "Sample": Sample}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert ("my.domain", "Bucket") in TABLE

"""Expansions compute what onnxruntime's kernels of the operators that they stand for compute."""

import numpy as np
import pytest
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad import static
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.errors import UnsupportedGradient
from tests.core.rules.samples import all_samples

EXPANDED = ("RoiAlign", "MaxRoiPool", "DeformConv")
SAMPLES = [sample for sample in all_samples() if sample.op_type in EXPANDED and sample.opset <= 21]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_expansion_computes_what_the_kernel_does(sample):
    feed, operands = {}, []
    for i, item in enumerate(sample.inputs):
        array = getattr(item, "array", item)
        if array is None:
            operands.append(None)
            continue
        feed[f"x{i}"] = array.astype(np.float32) if array.dtype.kind == "f" else array
        operands.append(static.data(f"x{i}", [None] * array.ndim, feed[f"x{i}"].dtype.name))
        operands[-1].stop_gradient = array.dtype.kind != "f"
    y = operands[0].block.build.emit(sample.op_type, operands, dict(sample.attrs))
    executor = static.Executor()
    (kernel,) = executor.run(feed=feed, fetch_list=[y])
    (g,) = static.gradients([y], operands[0])
    expanded, _ = executor.run(feed=feed, fetch_list=[y, g])
    assert expanded.shape == kernel.shape
    np.testing.assert_allclose(expanded, kernel, rtol=1e-4, atol=1e-5)


# Operators of other domains whose schema has a body ------------------------------------------------------------------

_ATTENTION = """<ir_version: 10, opset_import: ["": 24, "ai.onnx.preview": 1]>
    f (float[2, 4, 3, 8] q, float[2, 4, 5, 8] k, float[2, 4, 5, 8] v) => (float[2, 4, 3, 8] y) {{ {body} }}"""
_PLAIN = """t = Transpose <perm = [0, 1, 3, 2]> (k)  s = MatMul(q, t)  c = Constant <value_float = 0.35355339> ()  m = Mul(s, c)
    p = Softmax <axis = -1> (m)  y = MatMul(p, v)"""


def attention(body):
    """The program, each input asking for a gradient"""
    program = og.from_onnx(parse_model(_ATTENTION.format(body=body)))
    for v in program.inputs:
        v.stop_gradient = False
    return program


@pytest.mark.parametrize("known", [False, True], ids=["without a rule", "in the table"])
def test_an_operator_of_another_domain_is_differentiated_by_the_body_of_its_schema(known, monkeypatch):
    if not known:
        monkeypatch.delitem(TABLE, ("ai.onnx.preview", "FlexAttention"))
    rng = np.random.default_rng(0)
    shapes = {"q": (2, 4, 3, 8), "k": (2, 4, 5, 8), "v": (2, 4, 5, 8)}
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    found = []
    for body in ("y = ai.onnx.preview.FlexAttention (q, k, v)", _PLAIN):
        program = attention(body)
        grads = og.gradients(program.outputs, program.inputs)
        found.append(og.Executor().run(program, feed, [*program.outputs, *grads]))
    for ours, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_a_body_made_of_subgraphs_is_refused_by_name():
    program = attention(
        "y = ai.onnx.preview.FlexAttention <score_mod = m (float[2, 4, 3, 5] a) => (float[2, 4, 3, 5] b) { b = Tanh(a) }> (q, k, v)"
    )
    with pytest.raises(UnsupportedGradient, match=r"FlexAttention .*subgraphs"):
        og.gradients(program.outputs, program.inputs)

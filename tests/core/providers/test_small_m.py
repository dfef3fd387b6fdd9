"""put_weights_first: products of few rows with a large weight that is stored so that it comes first untransposed."""

import numpy as np
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model

WIDE = 512


def _layer(rows, form, dtype="float32"):
    """A product of [rows, 512] with a weight [512, 512] and what the graph is compiled from"""
    program = static.default_main_program()
    x = static.data("x", [rows, WIDE], dtype)
    w = program.global_block().create_parameter("w", (WIDE, WIDE), dtype)
    return form(x.block.build, x, w)


def _types(y, state_as_inputs=True):
    graph = compile(y.block.program, [y], "cpu", state_as_inputs=state_as_inputs)
    return [op.type for op in graph.operators]


def _transposed(op, x, w):
    return op.Gemm(x, w, transB=1)


FIRST = ["Transpose", "MatMul", "Transpose"]


@pytest.mark.parametrize("rows", [16, 32, 64])
def test_weight_comes_first(rows):
    assert _types(_layer(rows, _transposed)) == FIRST


@pytest.mark.parametrize("added", [(WIDE,), (32, 1), ()], ids=str)
def test_product_with_a_bias_equals_the_plain_one(added):
    rng = np.random.default_rng(0)
    bias = rng.normal(size=added).astype(np.float32)
    y = _layer(32, lambda op, x, w: op.Gemm(x, w, bias, transB=1))
    graph = compile(y.block.program, [y], "cpu", state_as_inputs=True)
    assert [op.type for op in graph.operators] == [*FIRST, "Add"]
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in (("x", (32, WIDE)), ("w", (WIDE, WIDE)))}
    (found,) = session.run(None, feed)
    wide = {name: array.astype(np.float64) for name, array in feed.items()}
    np.testing.assert_allclose(found, wide["x"] @ wide["w"].T + bias, rtol=1e-4, atol=1e-4)


def test_it_is_what_a_gradient_of_a_layer_takes():
    program = static.default_main_program()
    x = static.data("x", [32, WIDE])
    first, second = (program.global_block().create_parameter(name, (WIDE, WIDE), "float32") for name in "ab")
    op = x.block.build
    loss = op.ReduceSum(op.MatMul(op.Tanh(op.MatMul(x, first)), second), keepdims=0)
    (g,) = static.gradients(loss, [first])
    types = _types(g)
    assert types.count("MatMul") == 2 and types.count("Transpose") == 2


@pytest.mark.parametrize(
    ("rows", "form", "dtype", "state_as_inputs"),
    [
        (15, _transposed, "float32", True),
        (48, _transposed, "float32", True),
        (65, _transposed, "float32", True),
        (None, _transposed, "float32", True),
        (32, _transposed, "float64", True),
        (32, _transposed, "float32", False),
        (32, lambda op, x, w: op.Gemm(x, w), "float32", True),
        (32, lambda op, x, w: op.Gemm(x, w, transB=1, alpha=0.5), "float32", True),
        (32, lambda op, x, w: op.Gemm(x, op.Tanh(w), transB=1), "float32", True),
        (32, lambda op, x, w: op.Gemm(x, op.Slice(w, [0], [256], [0]), transB=1), "float32", True),
    ],
    ids=["15 rows", "48 rows", "65 rows", "unknown rows", "float64", "constant", "not transposed", "scaled", "computed", "small"],
)
def test_other_products_are_left_alone(rows, form, dtype, state_as_inputs):
    assert "Gemm" in _types(_layer(rows, form, dtype), state_as_inputs)

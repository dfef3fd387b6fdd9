"""embedding_gradients: rows of a lookup are added to the gradient that is there, and zeros are not held as constants."""

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.losses import embedding_gradients
from onnxgrad.testing import evaluate

ROWS, WIDE, LOOKUPS = 300, 8, 12


@pytest.fixture(autouse=True)
def all_tables_are_large(monkeypatch):
    monkeypatch.setattr(embedding_gradients, "_LARGE", 1)
    monkeypatch.setattr(embedding_gradients, "_LARGE_PRODUCT", 1)


def build(form, dtype="float32", lookups=LOOKUPS):
    """The gradient of a table that is looked up, and read in another way as well"""
    ids = static.data("ids", [lookups], "int64")
    table = static.default_main_program().global_block().create_parameter("table", (ROWS, WIDE), dtype)
    op = ids.block.build
    rows = op.Mul(op.Gather(table, ids), op.Gather(table, ids))
    loss = op.ReduceSum(op.Mul(form(op, rows, table), 0.5), keepdims=0)
    return static.gradients(loss, [table])[0]


def tied(op, rows, table):
    scores = op.MatMul(rows, op.Transpose(table, perm=[1, 0]))
    return op.Mul(scores, scores)


def alone(op, rows, table):
    return op.Mul(rows, rows)


def types(graph):
    return [op.type for op in graph.operators]


def compiled(g, provider="cpu"):
    return compile(g.block.program, [g], provider, state_as_inputs=True, ordered=True)


def feed(dtype="float32"):
    draw = np.random.default_rng(0)
    return {"ids": np.array([3, 1, 3, -2, 0, 299, 7, 7, 7, 9, 11, -300]), "table": draw.normal(size=(ROWS, WIDE)).astype(dtype)}


@pytest.mark.parametrize("form", [tied, alone], ids=["tied", "alone"])
def test_gradients_are_those_of_the_plain_form(form):
    g = build(form)
    lean = compiled(g)
    session = onnxruntime.InferenceSession(write_model(lean).SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, feed())
    with static.program_guard(static.Program()):
        plain = compiled(build(form, "float64"), None)
    (expected,) = evaluate(write_model(plain), feed("float64"))
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * np.abs(expected).max())


def test_a_table_that_is_a_product_s_weight_too_has_one_tensor_of_its_size():
    graph = compiled(build(tied))
    whole = [v for op in graph.operators for v in op.outputs if v.static_shape in ((ROWS, WIDE), (WIDE, ROWS))]
    # The weight as the product reads it, which onnxruntime fuses, the product, and both lookups' rows added to it.
    assert [v.op.type for v in whole] == ["Transpose", "Gemm", "ScatterElements", "ScatterElements"]
    assert "Expand" not in [v.op.type for v in whole]


def test_rows_are_added_to_zeros_that_onnxruntime_does_not_keep(tmp_path):
    path = tmp_path / "optimised.onnx"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    graph = compiled(build(alone))
    onnxruntime.InferenceSession(write_model(graph).SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert all(np.prod(held.dims) < ROWS * WIDE for held in onnx.load(path).graph.initializer)


def test_no_lookups_give_zeros():
    graph = compiled(build(alone, lookups=None))
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {**feed(), "ids": np.zeros(0, np.int64)})
    assert found.shape == (ROWS, WIDE) and not found.any()


def test_a_sum_that_others_read_stays():
    g = build(tied)
    twice = g.op.inputs[0] * 2.0
    graph = compile(g.block.program, [g, twice], "cpu", state_as_inputs=True, ordered=True)
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    plain = compile(g.block.program, [g, twice], None, state_as_inputs=True, ordered=True)
    same = onnxruntime.InferenceSession(write_model(plain).SerializeToString(), providers=["CPUExecutionProvider"])
    for found, expected in zip(session.run(None, feed()), same.run(None, feed()), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [[], [LOOKUPS], [3, 4]], ids=str)
def test_rows_of_a_transposed_table_are_read_without_writing_it(shape):
    """As onnxruntime-genai's builder ties a table to a head"""
    ids = static.data("ids", shape, "int64")
    weight = static.default_main_program().global_block().create_parameter("weight", (WIDE, ROWS))
    op = ids.block.build
    rows = op.Gather(op.Transpose(weight, perm=[1, 0]), ids)
    plain, lean = (compiled(rows, provider) for provider in (None, "cpu"))
    values = {"ids": feed()["ids"][: max(1, np.prod(shape, dtype=int))].reshape(shape), "weight": feed()["table"].T.copy()}
    results = [
        onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"]).run(None, values)
        for graph in (plain, lean)
    ]
    np.testing.assert_array_equal(*results)
    assert (ROWS, WIDE) not in [v.shape for op in lean.operators if op.type == "Transpose" for v in op.outputs]
    assert (ROWS, WIDE) in [v.shape for op in plain.operators if op.type == "Transpose" for v in op.outputs]

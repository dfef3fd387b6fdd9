"""Products whose Transpose is gone, and products of an odd number of terms in two parts: the numbers of the plain forms."""

import numpy as np
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.products.turned_products import EVEN_PRODUCTS, PARTED_PRODUCTS, TURNED_PRODUCTS
from onnxgrad.testing import evaluate


def both(outputs, each):
    program = outputs[0].block.program
    plain, graph = compile(program, outputs), compile(program, outputs)
    run_passes(graph, [each], Target())
    draw = np.random.default_rng(0)
    feed = {v.name: draw.normal(size=[3 if d in (None, -1) else d for d in v.shape]).astype(np.float32) for v in program.inputs}
    for expected, found in zip(evaluate(write_model(plain), feed), evaluate(write_model(graph), feed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    return [op.type for op in graph.operators]


@pytest.mark.parametrize("ta", [0, 1])
@pytest.mark.parametrize("tb", [0, 1])
def test_a_transposed_gemm_is_one_of_exchanged_operands(ta, tb):
    a, b = static.data("a", [5, 3] if ta else [3, 5]), static.data("b", [4, 5] if tb else [5, 4])
    build = a.block.build
    y = build.Transpose(build.Gemm(a, b, transA=ta, transB=tb, alpha=0.5), perm=[1, 0])
    assert both([y], TURNED_PRODUCTS) == ["Gemm"]


def test_a_transposed_matmul_of_unknown_rows_is_a_gemm():
    a, b = static.data("a", [None, 5]), static.data("b", [5, 4])
    assert both([a.block.build.Transpose(a.block.build.MatMul(a, b))], TURNED_PRODUCTS) == ["Gemm"]


def test_products_that_others_read_or_that_have_more_axes_stay():
    a, b, c = static.data("a", [3, 5]), static.data("b", [5, 4]), static.data("c", [2, 3, 5])
    build = a.block.build
    read = build.MatMul(a, b)
    twice = [build.Transpose(read), build.Neg(read)]
    returned = build.Gemm(a, b)
    added = build.Transpose(build.Gemm(a, b, static.data("d", [4])))
    deep = build.Transpose(build.MatMul(c, b), perm=[0, 2, 1])
    types = both([*twice, returned, build.Transpose(returned), added, deep], TURNED_PRODUCTS)
    assert types.count("Transpose") == 4


@pytest.mark.parametrize("lead", [(3,), (None,), (2, 3)], ids=["matrix", "unknown", "three axes"])
def test_an_odd_number_of_terms_is_cut_in_two(lead):
    y, w = static.data("y", [*lead, 1025]), static.data("w", [1025, 4])
    types = both([y.block.build.MatMul(y, w)], EVEN_PRODUCTS)
    assert types.count("MatMul") == 1 and types.count("Slice") == 4 and types.count("Add") == 1


def test_a_gemm_of_an_odd_number_of_terms_is_cut_unless_it_is_scaled_or_reads_rows():
    y, w = static.data("y", [3, 1025]), static.data("w", [1025, 4])
    build = y.block.build
    turned, scaled = build.Gemm(y, static.data("t", [4, 1025]), transB=1), build.Gemm(y, w, alpha=0.5)
    rows = build.Gemm(w, w, transA=1)
    types = both([build.Gemm(y, w), turned, scaled, rows], EVEN_PRODUCTS)
    assert types.count("Gemm") == 3 and types.count("MatMul") == 1 and types.count("Slice") == 8


@pytest.mark.parametrize("terms", [1026, 1023])
def test_an_even_or_a_small_number_of_terms_stays(terms):
    y, w = static.data("y", [3, terms]), static.data("w", [terms, 4])
    assert both([y.block.build.MatMul(y, w)], EVEN_PRODUCTS) == ["MatMul"]


def test_gradients_of_a_product_with_a_vocabulary_are_taken_by_parts():
    g, x, w, t = (static.data(n, s) for n, s in {"g": [3, 40_001], "x": [3, 2], "w": [40_001, 2], "t": [2, 40_001]}.items())
    build = g.block.build
    assert both([build.Gemm(g, x, transA=1, alpha=0.5)], PARTED_PRODUCTS) == ["Split", *["Gemm"] * 10, "Concat"]
    assert both([build.Gemm(g, w)], PARTED_PRODUCTS) == ["Split", "Split", *["Gemm"] * 10]
    # A weight that is transposed is read as it lies.
    assert both([build.Gemm(g, build.Transpose(w, perm=[1, 0]), transB=1)], PARTED_PRODUCTS) == ["Split", "Split", *["Gemm"] * 10]
    assert both([build.Gemm(g, t, transB=1)], PARTED_PRODUCTS) == ["Gemm"]


@pytest.mark.parametrize("words", [40_000, 39_999])
def test_fewer_words_or_a_multiple_of_eight_stay(words):
    g, x, w = static.data("g", [2, words]), static.data("x", [2, 2]), static.data("w", [words, 2])
    build = g.block.build
    assert both([build.Gemm(g, x, transA=1)], PARTED_PRODUCTS) == ["Gemm"]
    assert ("Split" in both([build.Gemm(g, w)], PARTED_PRODUCTS)) == (words == 40_000)

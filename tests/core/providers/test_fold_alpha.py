"""fold_alpha: products with numbers become factors of matrix products, where nobody else needs them."""

import numpy as np
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.products.fold_alpha import fold_alpha


def _result(op, a, b, c):
    return op.Mul(op.Gemm(a, b, transA=1, alpha=3.0), 0.25)


def _operand(op, a, b, c):
    scaled = op.Mul(0.5, a)
    return op.Gemm(scaled, b, transA=1), op.Gemm(b, scaled, c, transA=1)


def _both_operands(op, a, b, c):
    return op.Gemm(op.Mul(a, 0.5), op.Mul(b, 4.0), transA=1, alpha=0.1)


def _squared(op, a, b, c):
    part = op.Mul(op.Gemm(a, b, transA=1), 0.1)
    return op.Add(part, op.Mul(part, part))


def _of_numbers(op, a, b, c):
    number = op.Mul(op.constant(np.float32(0.5)), op.constant(np.float32(3.0)))
    return op.Gemm(op.Mul(a, number), b, transA=1)


FOLDED = {"result": _result, "operand": _operand, "both operands": _both_operands, "squared": _squared, "of numbers": _of_numbers}


def _bias(op, a, b, c):
    return op.Mul(op.Gemm(a, b, c, transA=1), 0.25)


def _read_by_others(op, a, b, c):
    y = op.Gemm(a, b, transA=1)
    return op.Mul(y, 0.25), op.Relu(y)


def _fetched(op, a, b, c):
    y = op.Gemm(a, b, transA=1)
    return y, op.Mul(y, 0.25)


def _operand_of_others(op, a, b, c):
    scaled = op.Mul(a, 0.5)
    return op.Gemm(scaled, b, transA=1), op.Tanh(scaled)


def _as_bias(op, a, b, c):
    return op.Gemm(a, b, op.Mul(c, 2.0), transA=1)


def _unknown_number(op, a, b, c):
    return op.Mul(op.Gemm(a, b, transA=1), op.ReduceMax(c, keepdims=0))


LEFT = {
    "bias": _bias,
    "read by others": _read_by_others,
    "fetched": _fetched,
    "operand of others": _operand_of_others,
    "as bias": _as_bias,
    "unknown number": _unknown_number,
}


def results(build):
    main = static.Program()
    with static.program_guard(main):
        a, b, c = static.data("a", [5, 4]), static.data("b", [5, 4]), static.data("c", [4, 4])
        # A last operator, since a fetched product is computed as it is.
        found = build(a.block.build, a, b, c)
        wanted = [a.block.build.Neg(y) for y in found] if isinstance(found, tuple) else [a.block.build.Neg(found)]
        wanted += [found[0]] if build is _fetched else []
    draw = np.random.default_rng(0)
    feed = {v.name: draw.normal(size=v.static_shape).astype(np.float32) for v in (a, b, c)}
    values, counts = [], []
    for folds in (False, True):
        graph = compile(main, wanted)
        if folds:
            fold_alpha(graph, Target())
            graph.settle()
        read = {v.name for v in graph.inputs}
        names = {v.name for op in graph.operators for v in op.operands() if v is not None}
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        values.append(session.run(None, {name: x for name, x in feed.items() if name in read & names}))
        counts.append([op.type for op in graph.operators].count("Mul"))
    for x, y in zip(*values, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-6)
    return counts


@pytest.mark.parametrize("name", FOLDED)
def test_folded(name):
    before, after = results(FOLDED[name])
    assert after == (1 if name == "squared" else 0)
    assert before > after


@pytest.mark.parametrize("name", LEFT)
def test_left_as_it_is(name):
    before, after = results(LEFT[name])
    assert before == after == 1


def test_a_float64_product_keeps_a_factor_that_float32_does_not_hold():
    """alpha is an attribute, a float32: 0.1 there is wrong by 1.5e-8"""
    a, b = (static.data(name, [3, 3], "float64") for name in "ab")
    y = a.block.build.Mul(a.block.build.Gemm(a, b), 0.1)
    graph = compile(a.block.program, [a.block.build.Neg(y)])
    fold_alpha(graph, Target())
    graph.settle()
    given = {name: np.random.default_rng(0).normal(size=(3, 3)) for name in "ab"}
    (found,) = onnxruntime.InferenceSession(write_model(graph).SerializeToString()).run(None, given)
    np.testing.assert_allclose(found, given["a"] @ given["b"] * -0.1, rtol=1e-13)


def test_long_chains_of_numbers_are_followed_once():
    """490 products in a row ended in RecursionError, and each squaring doubled the time"""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [4, 3])
        w = static.create_parameter([3, 5], "float32")
        number = main.constant(np.array([1.0], np.float32))
        build = main.global_block().build
        for _ in range(2000):
            number = build.emit("Mul", [number, main.constant(np.array([1.0], np.float32))], {})
        for _ in range(60):
            number = build.emit("Mul", [number, number], {})
        y = build.Abs(build.emit("Mul", [build.Gemm(x, w), number], {}))
    graph = compile(main, [y])
    assert fold_alpha(graph, Target()) == 1
    graph.settle()
    assert [op.type for op in graph.operators] == ["Gemm", "Abs"]

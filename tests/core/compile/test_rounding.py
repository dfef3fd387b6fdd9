"""Sizes are sums of absolute values of terms, and what a form gets wrong is larger than its contract allows."""

import numpy as np
import onnx.parser
import pytest

from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.testing import evaluate
from tests.core.compile import corpus
from tests.core.compile.rounding import UNDECIDED, evaluated

EPS = float(np.finfo(np.float32).eps)


def sizes(body, *, marks=False, result="float[N, M] y", **feed):
    """Value and size of the result of a graph whose operands are named in ``feed``"""
    kinds = {"f": "float", "i": "int64", "b": "bool"}
    declared = ", ".join(f"{kinds[x.dtype.kind]}[{', '.join(map(str, x.shape))}] {name}" for name, x in feed.items())
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g ({declared}) => ({result}) {{ {body} }}')
    return evaluated(model, feed, marks).outputs["y"]


@pytest.fixture
def numbers():
    draw = np.random.default_rng(0)
    return {name: draw.normal(size=shape).astype(np.float32) for name, shape in {"a": (3, 4), "b": (4, 5), "c": (3, 5)}.items()}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = MatMul (a, b)", lambda a, b, c: a @ b),
        ("y = Gemm <alpha = -2.0, beta = -0.5> (a, b, c)", lambda a, b, c: 2 * a @ b + 0.5 * c),
        ('y = Einsum <equation = "ij,jk->ik"> (a, b)', lambda a, b, c: a @ b),
        ("y = Sub (c, c)", lambda a, b, c: 2 * c),
        ("y = Mul (c, c)", lambda a, b, c: c * c),
        ("y = ReduceSum <keepdims = 1> (c)", lambda a, b, c: c.sum(keepdims=True)),
    ],
)
def test_the_size_of_a_linear_operator_is_the_sum_of_the_absolute_values_of_its_terms(numbers, body, expected):
    _, size = sizes(body, **{name: x for name, x in numbers.items() if f"({name}" in body or f" {name}" in body})
    np.testing.assert_allclose(size, expected(*(np.abs(x.astype(np.float64)) for x in numbers.values())), rtol=1e-12)


def test_what_is_moved_is_exact(numbers):
    value, size = sizes("t = Transpose (a)  u = Reshape <allowzero = 0> (t, s)  y = Neg (u)", a=numbers["a"], s=np.array([2, 6]))
    assert not size.any()
    np.testing.assert_array_equal(value, -numbers["a"].T.reshape(2, 6))


def test_sizes_of_operands_count_as_the_root_of_the_sum_of_their_squares(numbers):
    """(a b) c: the terms of the second product, and those of the first times the second factor"""
    a, b, d = (np.abs(x.astype(np.float64)) for x in (numbers["a"], numbers["b"], numbers["c"].T))
    value = numbers["a"].astype(np.float64) @ numbers["b"]
    _, size = sizes("t = MatMul (a, b)  y = MatMul (t, d)", a=numbers["a"], b=numbers["b"], d=np.ascontiguousarray(numbers["c"].T))
    np.testing.assert_allclose(size, np.sqrt((np.abs(value) @ d) ** 2 + (a @ b) ** 2 @ d**2), rtol=1e-12)


def test_other_operators_move_with_their_operands_to_first_order(numbers):
    value, size = sizes("y = Exp (a)", a=numbers["a"])
    np.testing.assert_allclose(size, value * np.hypot(1, numbers["a"]), rtol=1e-4)
    value, size = sizes("y = Softmax (a)", a=numbers["a"])
    assert (size > value).all() and (size < 3 * value * np.abs(numbers["a"]).max() + value).all()


@pytest.mark.parametrize(
    "body",
    [
        "t = Identity (c) for_if = ReduceSum <keepdims = 0> (p) yes = Cast <to = 9> (for_if)"
        " y = If (yes) <then_branch = one () => (float[3, 5] r) { r = MatMul (a, b) }, else_branch = two () => (float[3, 5] s)"
        " { s = Identity (t) }>",
        "yes = Cast <to = 9> (p) z = Sub (c, c)"
        " y = Loop (p, yes, z) <body = turn (int64 i, bool go, float[3, 5] h) => (bool on, float[3, 5] r)"
        " { on = Identity (go) r = MatMul (a, b) }>",
        "z = Sub (c, c) y, rows = Scan <num_scan_inputs = 1, body = turn (float[3, 5] h, float[4] x) => (float[3, 5] r, float[4] k)"
        " { r = MatMul (a, b) k = Identity (x) }> (z, a)",
    ],
    ids=["If", "Loop", "Scan"],
)
def test_sizes_are_found_inside_of_bodies(numbers, body):
    _, size = sizes(body, result="float[3, 5] y", p=np.array(1), **numbers)
    np.testing.assert_allclose(size, np.abs(numbers["a"].astype(np.float64)) @ np.abs(numbers["b"]), rtol=1e-6)


def test_a_decision_within_rounding_marks_what_follows_from_it():
    """1 + eps > 1 is decided either way once it has been computed; 1 > 1 is one number, and 2 > 1 is decided"""
    x = np.array([[1.0, 1.0, 2.0]], np.float32)
    body = "w = Add (x, d)  u = Add (x, z)  m = Greater (w, {})  k = Cast <to = 1> (m)  y = Mul (k, x)"
    d, z = np.array([[EPS, 0.0, 0.0]], np.float32), np.zeros((1, 3), np.float32)
    _, size = sizes(body.format("u"), marks=True, x=x, d=d, z=z)
    assert (size >= UNDECIDED).tolist() == [[True, False, False]]
    _, unmarked = sizes(body.format("u"), x=x, d=d, z=z)
    assert (unmarked < 10).all()


def test_the_transform_of_fourier_has_a_size_where_its_factors_are_nearly_zero():
    x = np.random.default_rng(0).normal(size=(1, 8, 1)).astype(np.float32)
    value, size = sizes("y = DFT (x, , axis)", result="float[1, 8, 2] y", x=x, axis=np.array(1))
    np.testing.assert_allclose(size, np.full_like(value, np.abs(x.astype(np.float64)).sum()), rtol=1e-12)


# What a form may get wrong -------------------------------------------------------------------------------------------------


def in_bfloat16(build, op):
    """Not float16: onnxruntime computes that in float32, and drops the casts"""
    return [build.Cast(build.MatMul(*(build.Cast(v, to=16) for v in op.inputs)), to=1)]


def without_a_term(build, op):
    a, b = op.inputs
    return [build.MatMul(build.Slice(a, [0], [-1], [a.rank - 1]), build.Slice(b, [0], [-1], [b.rank - 2]))]


def slightly_more(build, op):
    return [build.Mul(build.MatMul(*op.inputs), np.float32(1 + 1e-5))]


@pytest.mark.parametrize("wrong", [in_bfloat16, without_a_term, slightly_more])
@pytest.mark.parametrize("title", ["sample Attention-0", "few images", "many queries"])
def test_what_a_form_gets_wrong_is_more_than_the_contract_allows(monkeypatch, title, wrong):
    lowered, rewritten = corpus.lowered, []

    def planted(made, provider, batch):
        graph = lowered(made, provider, batch)
        rewritten.append(rewrite_operators(graph, {"MatMul": wrong}))
        graph.settle()
        return graph

    case = corpus.cases()[title]
    before = corpus.compared(case, "cpu", "known")
    assert before.ratio <= before.most
    monkeypatch.setattr(corpus, "lowered", planted)
    after = corpus.compared(case, "cpu", "known")
    assert rewritten[0]
    assert after.ratio > after.most


def test_other_bits_are_not_the_same():
    x = np.array([0.0, np.nan, 1.0], np.float32)
    assert corpus._same_bits(x, x.copy())
    assert not corpus._same_bits(x, np.array([-0.0, np.nan, 1.0], np.float32))
    assert not corpus._same_bits(x, np.array([0.0, np.nan, 1.0 + EPS], np.float32))
    assert not corpus._same_bits(x, np.array([0.0, 0.0, 1.0], np.float32))
    assert not corpus._same_bits(x, x.astype(np.float64))


def test_float64_values_are_those_of_the_reference_evaluator(numbers):
    body = "t = MatMul (a, b)  u = Softmax (t)  v = LayerNormalization (u, g)  y = Add (v, c)"
    feed = {**numbers, "g": np.ones(5, np.float32)}
    value, _ = sizes(body, **feed)
    wide = ", ".join(f"double[{', '.join(map(str, x.shape))}] {name}" for name, x in feed.items())
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g ({wide}) => (double[N, M] y) {{ {body} }}')
    np.testing.assert_array_equal(value, evaluate(model, {name: x.astype(np.float64) for name, x in feed.items()})[0])

"""GELU and its gradient in ten passes: the numbers of the plain graph, however an exporter wrote it."""

import math

import numpy as np
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model

ROOT, HALF, ONE = math.sqrt(2.0), 0.5, 1.0
LEAN = ["Mul", "Erf", "HardSigmoid", "Mul", "Mul", "Exp", "Div", "Mul", "Add", "Mul"]
ORDERS = {
    "torch": lambda op, x: op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, ROOT)), ONE)), HALF),
    "half first": lambda op, x: op.Mul(op.Mul(HALF, x), op.Add(ONE, op.Erf(op.Mul(x, math.sqrt(0.5))))),
    "half of the sum": lambda op, x: op.Mul(x, op.Mul(op.Add(op.Erf(op.Div(x, ROOT)), ONE), HALF)),
    "operator": lambda op, x: op.Gelu(x),
}
VALUES = np.array([[-20.0, -4.0, -1.0, -0.0], [1e-3, 0.5, 3.0, 13.0], [14.0, 1e3, -1e3, 6.0]], np.float32)


def build(write, shape=(None, 4), dtype="float32"):
    x, seed = (static.data(name, list(shape), dtype) for name in ("x", "seed"))
    x.stop_gradient = False
    y = write(x.block.build, x)
    return y, static.gradients([y], [x], [seed])[0]


def run(graph, feed):
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([name for name, _ in graph.outputs], feed)


def kinds(graph):
    return [op.type for op in graph.operators]


@pytest.mark.parametrize("order", ORDERS)
def test_the_result_and_the_gradient_are_those_of_float64(order):
    y, gradient = build(ORDERS[order])
    graph = compile(static.default_main_program(), [y, gradient], "cpu")
    assert sorted(kinds(graph)) == sorted(LEAN)
    seeds = np.random.default_rng(0).normal(size=VALUES.shape).astype(np.float32)
    found = run(graph, {"x": VALUES, "seed": seeds})
    x = VALUES.astype(np.float64)
    share = 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    np.testing.assert_allclose(found[0], x * share, rtol=1e-6, atol=5e-7)
    np.testing.assert_allclose(found[1], seeds * (share + x * density), rtol=1e-6, atol=5e-7)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_seen_as_in_the_plain_graph(order, value):
    y, gradient = build(ORDERS[order])
    feed = {"x": np.full((1, 4), value, np.float32), "seed": np.ones((1, 4), np.float32)}
    plain, lean = (run(compile(static.default_main_program(), [y, gradient], lowering), feed) for lowering in (None, "cpu"))
    for a, b in zip(plain, lean, strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))


def test_numbers_beside_it_and_other_readers_stay_right():
    """The gradient that comes in is a sum, and what lies between is read by others as well"""

    def write(op, x):
        inner = op.Add(op.Erf(op.Div(x, ROOT)), ONE)
        y = op.Mul(op.Mul(x, inner), HALF)
        return op.Add(op.Mul(op.Mul(y, y), 3.0), op.Mul(inner, x))

    y, gradient = build(write)
    feed = {"x": VALUES[:2], "seed": np.ones((2, 4), np.float32)}
    plain, lean = (run(compile(static.default_main_program(), [y, gradient], lowering), feed) for lowering in (None, "cpu"))
    for a, b in zip(plain, lean, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    "write",
    [
        lambda op, x: op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, 1.5)), ONE)), HALF),
        lambda op, x: op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, ROOT)), 1.1)), HALF),
        lambda op, x: op.Mul(op.Mul(x, op.Sub(op.Erf(op.Div(x, ROOT)), ONE)), HALF),
        lambda op, x: op.Erf(op.Div(x, ROOT)),
        lambda op, x: op.Gelu(x, approximate="tanh"),
    ],
)
def test_what_is_no_gelu_stays(write):
    y, gradient = build(write)
    program = static.default_main_program()
    assert "HardSigmoid" not in kinds(compile(program, [y, gradient], "cpu"))


def test_it_stays_without_a_gradient_and_in_float64():
    """onnxruntime has a kernel for the whole, and none of HardSigmoid in float64"""
    y, _ = build(ORDERS["torch"])
    program = static.default_main_program()
    assert kinds(compile(program, [y], "cpu")) == ["Div", "Erf", "Add", "Mul", "Mul"]
    with static.program_guard(static.Program()):
        found = build(ORDERS["torch"], dtype="float64")
        assert "HardSigmoid" not in kinds(compile(static.default_main_program(), list(found), "cpu"))

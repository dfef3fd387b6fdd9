"""scaled_sums: sums with a scaled tensor as one operator, in the graphs of an optimizer's pieces and in its Scans."""

from collections import Counter

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.graph_passes.scaled_sums import SCALED_SUMS
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.step import cut, make as making
from onnxgrad.core.step.make import StepTarget, make_applying

SHAPE = (3, 5)


def rewritten(formula, dtype="float32"):
    """The operators of formula(op, x, y, number) over tensors of one shape, rewritten, and the shapes that inputs have"""
    program = static.Program()
    with static.program_guard(program):
        x, y = (static.data(name, SHAPE, dtype) for name in "xy")
        number = static.data("number", [1], dtype)
    op = Builder(program.global_block(), role=Role.OPTIMIZE, key="test")
    graph = compile(program, [formula(op, x, y, number)])
    run_passes(graph, [SCALED_SUMS], Target())
    return [o.type for o in graph.operators], [v.static_shape for v in graph.inputs], graph


ONE = {
    "a tensor and a scaled one": (lambda op, x, y, s: op.Add(x, op.Mul(y, s)), ["Reshape", "Gemm"]),
    "the scaled one first": (lambda op, x, y, s: op.Add(op.Mul(s, y), x), ["Reshape", "Gemm"]),
    "a difference": (lambda op, x, y, s: op.Sub(x, op.Mul(y, s)), ["Reshape", "Neg", "Gemm"]),
    "by a constant": (lambda op, x, y, s: op.Sub(x, op.Mul(y, 0.5)), ["Gemm"]),
    "both scaled": (lambda op, x, y, s: op.Add(op.Mul(x, 0.5), op.Mul(y, 0.25)), ["Mul", "Gemm"]),
}
OTHER = {
    "what is taken away from is scaled": lambda op, x, y, s: op.Sub(op.Mul(y, s), x),
    "a product of tensors": lambda op, x, y, s: op.Add(x, op.Mul(x, y)),
    "the product is read twice": lambda op, x, y, s: op.Mul(op.Add(x, z := op.Mul(y, s)), z),
    "a number is added": lambda op, x, y, s: op.Add(op.Mul(y, s), s),
}


@pytest.mark.parametrize("case", ONE)
def test_one_operator_in_place_of_two(case):
    formula, expected = ONE[case]
    types, shapes, graph = rewritten(formula)
    assert types == expected
    assert set(shapes) <= {(1, 15), (1,)}
    assert set(graph.own_shapes.values()) == {SHAPE}


@pytest.mark.parametrize("case", OTHER)
def test_others_stay_and_so_do_shapes(case):
    types, shapes, graph = rewritten(OTHER[case])
    assert "Gemm" not in types
    assert (1, 15) not in shapes
    assert not graph.own_shapes


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_products_of_other_types_are_slower(dtype):
    assert "Gemm" not in rewritten(ONE["by a constant"][0], dtype)[0]


@pytest.mark.parametrize("case", ["a tensor and a scaled one", "a difference"])
def test_numbers_that_are_not_finite_stay_what_they_are(case):
    """A step that is skipped multiplies by zero what is infinite"""
    formula, _ = ONE[case]
    graph = rewritten(formula)[2]
    session = onnxruntime.InferenceSession(write_model(graph, embeds=True).SerializeToString(), providers=["CPUExecutionProvider"])
    x, y = np.random.default_rng(0).normal(size=(2, 1, 15)).astype(np.float32)
    y[0, :4], x[0, 3:6] = (np.inf, np.nan, 0.0, -np.inf), (np.inf, -0.0, np.nan)
    for number in (0.0, 1.5, -np.inf, np.nan):
        s = np.array([number], np.float32)
        (result,) = session.run(None, {"x": x, "y": y, "number": s})
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(result, x + y * s if "difference" not in case else x - y * s, rtol=1e-6)


def net(optimizer):
    x = static.data("x", [None, 6])
    loss = paddle.mean(static.nn.fc(static.nn.fc(x, 40), 3) ** 2)
    optimizer.minimize(loss)
    return loss


PASSES_OVER_MEMORY = {
    "AdamW": (lambda: paddle.optimizer.AdamW(0.1), 10),
    "Adam": (lambda: paddle.optimizer.Adam(0.1), 9),
    "Momentum": (lambda: paddle.optimizer.Momentum(0.1), 2),
    "SGD": (lambda: paddle.optimizer.SGD(0.1), 1),
}


@pytest.mark.parametrize("name", PASSES_OVER_MEMORY)
def test_operators_over_a_piece(name, monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 8)
    optimizer, expected = PASSES_OVER_MEMORY[name]
    program = net(optimizer()).block.program
    applying = make_applying(program, cut.cut_step(program), StepTarget("cpu"))
    counts = {sum(y.static_shape == (1, size) for op in part.phase.graph.operators for y in op.outputs) for part in applying.parts
              if (size := part.phase.runs.size)}  # fmt: skip
    assert counts == {expected}


def test_a_scan_has_them_too(monkeypatch):
    """With the same numbers: on x86 the product rounds as what it stands for"""
    monkeypatch.setattr(making, "ROW", 30)
    draw = np.random.default_rng(0)
    feed = {"x": draw.normal(size=(4, 6)).astype(np.float32)}
    program = net(paddle.optimizer.AdamW(0.1)).block.program
    graph = compile(program, [], "cpu", state_as_inputs=True, ordered=True, chunk=30)
    bodies = [op.attrs["body"] for op in graph.operators if op.type == "Scan"]
    assert [Counter(op.type for op in body.ops)["Gemm"] for body in bodies] == [3] * len(bodies)
    assert bodies

    def trained(**options):
        program.scope = static.Scope()
        executor = static.Executor(threads=1, **options)
        static.default_startup_program().scope = program.scope
        executor.run(static.default_startup_program())
        for p, seed in zip(program.all_parameters(), range(9), strict=False):
            p.set_value(np.random.default_rng(seed).normal(size=p.shape).astype(np.float32))
        for _ in range(3):
            executor.run(program, feed=feed)
        return [p.get_value() for p in program.all_parameters()]

    in_scans = trained(memory=None)
    monkeypatch.setattr(making, "ROW", 0)
    for a, b in zip(in_scans, trained(memory=None), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)

"""Passes are linear: twice the operators, twice the calls; counted over every pass of every provider, as no other load changes a count.

Chains are where a pass that follows its operands goes wrong: one by recursion ends at a thousand, one that looks at each operand
twice takes twice as long for each squaring.
"""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.compile.door import GENERAL_PASSES
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.manager import in_order_of_passes, run_passes
from onnxgrad.core.providers.registry import PROVIDERS
from onnxgrad.internal import state
from tests.calls import count_calls


def images(op, v, number):
    """A kind of operator that layouts hold an image through, by turns"""
    return [
        lambda: op.Relu(v),
        lambda: op.Add(v, np.full((1, 4, 1, 1), 0.1, np.float32)),
        lambda: op.Mul(v, np.float32(0.5)),
        lambda: op.Transpose(op.Transpose(v, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2]),
        lambda: op.Reshape(op.Reshape(v, [4, -1]), [4, 4, 4, 4]),
        lambda: op.Conv(v, np.full((4, 4, 3, 3), 0.01, np.float32), pads=[1, 1, 1, 1]),
        lambda: op.MaxPool(v, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        lambda: op.Where(op.Greater(v, np.float32(0)), v, np.float32(0)),
    ][number % 8]()


def rows(op, v, number):
    """A kind of operator on rows, by turns"""
    return [
        lambda: op.Gemm(v, np.full((4, 4), 0.2, np.float32), transB=number % 2),
        lambda: op.Mul(v, np.float32(1.5)),
        lambda: op.Softmax(v, axis=-1),
        lambda: op.Cast(op.Cast(v, to=10), to=1),
        lambda: op.Sub(v, op.ReduceMean(v, [1], keepdims=1)),
        lambda: op.Clip(v, np.float32(-1), np.float32(1)),
        lambda: op.MatMul(v, np.eye(4, dtype=np.float32)),
        lambda: op.Transpose(op.Transpose(v, perm=[1, 0]), perm=[1, 0]),
    ][number % 8]()


def scalars(op, v, number):
    """Products of numbers that are not computed before, as a scale is, and a product that reads them"""
    return op.Mul(v, op.Mul(op.Cast(op.Shape(v), to=1), np.float32(1.0001))) if v.rank == 1 else v


def squarings(op, v, number):
    """Each reads the one before twice"""
    return op.Mul(v, v)


CHAINS = {"images": (images, (4, 4, 4, 4)), "rows": (rows, (4, 4)), "scalars": (scalars, (1,)), "squarings": (squarings, (4, 4))}


def chain(kind, length):
    """(program, outputs): a chain with its gradient."""
    link, shape = CHAINS[kind]
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", list(shape), "float32")
        x.stop_gradient = False
        v = x
        for number in range(length):
            v = link(program.global_block().build, v, number)
        (gradient,) = paddle.gradients([v], [x])
    return program, [v, gradient]


def calls_by_pass(provider, kind, length):
    """Calls of each pass of a provider, each run on the graph that those before it left."""
    with state.isolated():
        program, outputs = chain(kind, length)
        graph = compile(program, outputs)
    target = Target(provider=provider or None, runs_on_cpu=provider in ("", "cpu"), to_newest=True, fast=True, chunk=2**10)
    found = {}
    for each in in_order_of_passes(PROVIDERS[provider] if provider else GENERAL_PASSES):
        if each.when(graph, target):
            found[each.name] = count_calls(lambda each=each: run_passes(graph, [each], target))
    return found, len(graph.operators)


@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("provider", ["", *PROVIDERS])
def test_a_pass_makes_as_many_calls_for_each_operator_of_a_longer_chain(provider, kind, monkeypatch):
    monkeypatch.setenv("ONNXGRAD_VERIFY", "0")
    short, _ = calls_by_pass(provider, kind, 120)
    long, _ = calls_by_pass(provider, kind, 480)
    grew = {name: (short[name], count) for name, count in long.items() if count > 4.4 * short[name] + 500}
    assert grew == {}


@pytest.mark.parametrize("provider", ["", *PROVIDERS])
def test_sixty_squarings_are_sixty(provider, monkeypatch):
    monkeypatch.setenv("ONNXGRAD_VERIFY", "0")
    half, _ = calls_by_pass(provider, "squarings", 30)
    whole, _ = calls_by_pass(provider, "squarings", 60)
    assert sum(whole.values()) < 2.5 * sum(half.values())


LONG = [*(("cpu", kind) for kind in CHAINS), *((provider, "images") for provider in (None, *PROVIDERS) if provider != "cpu")]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("provider", "kind"), LONG)
def test_twenty_thousand_operators_in_a_row(provider, kind, monkeypatch):
    """With no recursion that follows them, and in a time that the file's limit allows"""
    monkeypatch.setenv("ONNXGRAD_VERIFY", "0")
    with state.isolated():
        program, outputs = chain(kind, 20_000 if kind in ("squarings", "scalars") else 8_000)
        graph = compile(program, outputs, provider, state_as_inputs=True, ordered=True, fast=True)
    assert len(program.global_block().ops) >= 20_000
    assert [name for name, _ in graph.outputs] == [v.name for v in outputs]

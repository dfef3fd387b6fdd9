"""Every pass, over places that differ in one thing from those that it was written for: with the origins of a rule, and without.

``python -m tests.core.compile.occurrences`` finds the places and writes the table that is read here.
"""

import json

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.graph.contract import Pass
from onnxgrad.core.ir.origin import is_written_for
from tests.core.compile.by_hand import tried
from tests.core.compile.corpus import EVERY, Made, cases
from tests.core.compile.occurrences import FILE, distinct_passes, places_of

TABLE = json.loads(FILE.read_text())
PASSES = distinct_passes()
REWRITES_NO_OPERATOR = {"refusals", "newest_opset"}
BY_DEFINITION = {"contrib_kernels", "schema_bodies"}
"""Rewrite operators that plain cannot run, each by what its schema says, and look at nothing else."""
FEW = 50
"""Changes of a place that the default suite tries, about."""


def places():
    for name, kinds in TABLE.items():
        for number, (kind, case) in enumerate(kinds.items()):
            marks = [pytest.mark.exhaustive] if number > 1 or case.startswith("net ") else []
            yield pytest.param(name, kind, case, id=f"{name}, {kind}", marks=marks)


def test_the_table_has_every_pass():
    assert set(TABLE) == set(PASSES), "python -m tests.core.compile.occurrences writes it anew"
    assert {name for name, kinds in TABLE.items() if not kinds} == REWRITES_NO_OPERATOR | BY_DEFINITION


def trial(corpus, name, kind, case, few):
    provider, each = PASSES[name]
    title, _, batch = case.rpartition(", ")
    (place,) = [p for p in places_of(corpus[title], provider, batch.removesuffix(" batch"), each) if p.kind == kind]
    return tried(place, provider, each, few)


@pytest.fixture(scope="module")
def corpus():
    return cases()


@pytest.mark.parametrize(("name", "kind", "case"), list(places()))
def test_what_a_pass_rewrites_is_what_was_written(corpus, name, kind, case):
    result = trial(corpus, name, kind, case, FEW)
    assert not result.faults, "\n".join(result.faults)
    assert result.counts["compared"] >= 1


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "kind", "case"), list(places()))
def test_all_changes_of_a_place(corpus, name, kind, case):
    result = trial(corpus, name, kind, case, None)
    assert not result.faults, "\n".join(result.faults)


# That it finds what it is for ------------------------------------------------------------------------------------------


def one_gradient():
    """Softmax over the second of three axes, its gradient, and a product with a number"""
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [2, 5, 3])
        x.stop_gradient = False
        y = program.global_block().build.Softmax(paddle.sum(x * x, axis=2, keepdim=True) * 2.0, axis=1)
        (g,) = static.gradients([paddle.sum(y * y)], [x])
    return Made(program, [y, g], {"x": np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)})


def forgets_an_attribute(build, op):
    return [build.Exp(build.LogSoftmax(op.inputs[0], axis=1))]


def forgets_an_operand(build, op):
    return [build.Pow(op.inputs[0], 2.0)] if op.inputs[0].name == "x" else None


def forgets_a_number(build, op):
    number = op.inputs[1]
    return [build.Add(op.inputs[0], op.inputs[0])] if number.value is not None and not number.shape else None


def compares_variables(build, op):
    is_own = op.inputs == [op.inputs[0], op.outputs[0]]
    return [build.Neg(build.ReduceSum(build.Neg(op.inputs[0]), op.inputs[1], keepdims=op.attr("keepdims")))] if is_own else None


def believes_the_origin(build, op):
    if not is_written_for(op, "Softmax") or op.inputs[0].op is None or op.inputs[0].op.type != "Mul":
        return None
    return [build.Neg(build.ReduceSum(build.Neg(op.inputs[0]), [1], keepdims=1))]


@pytest.mark.parametrize(
    ("op_type", "form", "change"),
    [
        ("Softmax", forgets_an_attribute, "axis as"),
        ("Mul", forgets_an_operand, "operand 1 as an input"),
        ("Mul", forgets_a_number, "all 0.5"),
        ("ReduceSum", compares_variables, "unchanged"),
        ("ReduceSum", believes_the_origin, "less 1"),
    ],
)
def test_a_form_that_does_not_look_is_found(op_type, form, change):
    each = Pass("wrong", forms={op_type: form}, rounding="order")
    faults = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.core.compile.occurrences.door._passes_for", lambda target: [each])
        if form is compares_variables:
            patch.setattr("onnxgrad.core.ir.variable.Variable.__eq__", lambda self, other: True)
        found = list(places_of(one_gradient, EVERY, "known", each))
    for place in found:
        faults += tried(place, EVERY, each).faults
    assert any(change in fault for fault in faults), faults

"""Random programs: a few hundred in the default suite, each with one check more than its gradient; thousands, in CI, with all of them."""

import numpy as np
import pytest

import onnxgrad as og
from tests.fuzz.driver import fuzz, of_programs
from tests.fuzz.program_checks import CHECKS, Checked, Wrong, attempt
from tests.fuzz.programs import case

_GROUP = 20


@pytest.mark.one_in(3)
@pytest.mark.parametrize("first", range(0, 200, _GROUP))
def test_random_programs(first):
    problems = {
        number: attempt(number, ("gradient", CHECKS[1 + number % (len(CHECKS) - 1)]))[1] for number in range(first, first + _GROUP)
    }
    assert not any(problems.values()), problems


@pytest.mark.process
@pytest.mark.thousands
def test_thousands_of_random_programs():
    summary = fuzz(of_programs(), 1000, first=1_000_000, workers=2)
    assert not summary.findings, summary.table()


def test_the_programs_have_all_that_is_asked_of_them():
    kinds, zero, scalar, unknown, several, nested = set(), 0, 0, 0, 0, 0
    for number in range(200):
        made = case(number, "float32")
        top = {op.type for op in made.program.global_block().ops}
        inner = {op.type for block in made.program.blocks[1:] for op in block.ops}
        kinds |= top | inner
        zero += any(0 in source.shape for source in made.sources)
        scalar += any(source.shape == () for source in made.sources)
        unknown += any(source.v.static_shape is None for source in made.sources)
        several += len(made.outputs) > 1
        nested += bool(inner & {"If", "Loop", "Scan"})
    assert {"If", "Loop", "Scan", "MatMul", "Gemm", "Where", "Expand", "ScatterElements", "Softmax"} <= kinds and len(kinds) > 50
    assert min(zero, scalar, unknown, several, nested) > 20


def test_a_number_is_always_the_same_program():
    first, second = (og.to_onnx(made.program, [o.v for o in made.outputs]) for made in (case(8, "float64"), case(8, "float64")))
    assert first == second


@pytest.mark.parametrize("check", ["gradient", "recomputed", "lowered", "stepped"])
def test_a_wrong_gradient_is_found(check):
    """Of a program with weights: the checks can fail."""
    number = next(n for n in range(100) if case(n, "float32").program.parameters and attempt(n, (check,))[0].get(check) == "ok")
    checked = Checked(number)
    checked.gradients = [g + 0.1 for g in checked.gradients]
    assert any(np.size(g) for g in checked.gradients)
    with pytest.raises(Wrong):
        getattr(checked, check)()

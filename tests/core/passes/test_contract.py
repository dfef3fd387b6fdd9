"""Passes over programs have the contract of those over graphs: counted, logged, verified, and whole or not at all."""

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.graph.contract import Pass
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.graph.verify import GraphError
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.passes.demand import demand
from onnxgrad.core.passes.dimensions import NAME_DIMENSIONS
from onnxgrad.core.passes.double_precision import double_precision
from onnxgrad.core.passes.lift import LIFT
from onnxgrad.core.passes.mixed_precision import mixed_precision
from onnxgrad.core.passes.modes import SPLIT_STATISTICS, TAKE_PARTS, training_forms
from onnxgrad.core.passes.precision_lists import AutoMixedPrecisionLists
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError

OLD = """<ir_version: 8, opset_import: ["": 11]> f (float[N, 3, 4, 4] x) => (float[N, 3, 1, 1] y, float[N, 3, 4, 4] d)
    <float[3] one = {1, 1, 1}, float[3] zero = {0, 0, 0}> {
    n = BatchNormalization (x, one, zero, zero, one)  d = Dropout <ratio = 0.5> (n)  y = ReduceSum <axes = [2, 3], keepdims = 1> (d) }"""


def old_program():
    """Of opset 11, with a Dropout, a BatchNormalization and an axes attribute."""
    return paddle.from_onnx(onnx.parser.parse_model(OLD))


def program_of_one_statistic():
    """With a BatchNormalization whose mean and variance are one tensor."""
    return paddle.from_onnx(onnx.parser.parse_model(OLD.replace("zero, zero, one", "zero, zero, zero")))


def lifted_program():
    program = old_program()
    run_program_pass(program, LIFT)
    return program


def unnamed_program():
    program = static.Program()
    with static.program_guard(program):
        paddle.tanh(static.data("x", [None, 2]))
    return program


def program_of_a_position():
    """Of which one position is read."""
    text = """<ir_version: 8, opset_import: ["": 21]> f (float[N, 5, 2] x) => (float[N, 2] y) <int64 zero = {0}>
        { t = Tanh (x)  y = Gather <axis = 1> (t, zero) }"""
    return paddle.from_onnx(onnx.parser.parse_model(text))


def demand_of_a_position():
    """The pass takes variables of a program, which here is made anew for each test."""
    return Pass("demand", lambda program, target: demand(program.outputs).run(program, target))


def half():
    return mixed_precision(dtype_of("float16"), AutoMixedPrecisionLists(dtype="float16"), "O2")


PASSES = {
    "lift": (lambda: LIFT, old_program, 4),  # the opset and each operator
    "split_statistics": (lambda: SPLIT_STATISTICS, program_of_one_statistic, 1),
    "training_forms": (lambda: training_forms(True, "train"), lifted_program, 2),
    "training_forms of an old opset": (lambda: training_forms(True, "train"), old_program, 1),  # that they wait
    "parts_of_masks": (lambda: TAKE_PARTS, lifted_program, 1),
    "mixed_precision": (half, lifted_program, 4),
    "double_precision": (double_precision, lifted_program, 7),
    "demand": (demand_of_a_position, program_of_a_position, 1),
    "name_dimensions": (lambda: NAME_DIMENSIONS, unnamed_program, 1),
}


@pytest.mark.parametrize(("make", "program", "places"), PASSES.values(), ids=PASSES)
def test_a_pass_counts_what_it_rewrote_says_so_and_is_verified(make, program, places, monkeypatch, capsys):
    program, each = program(), make()
    monkeypatch.setenv("ONNXGRAD_LOG", "passes")
    version = program.version
    assert run_program_pass(program, each) == places
    assert program.version > version
    assert f"onnxgrad: {each.name}: {places} {'place' if places == 1 else 'places'}, " in capsys.readouterr().err


IDEMPOTENT = [name for name in PASSES if not name.startswith("training_forms")]
"""Training forms are written anew each time."""


@pytest.mark.parametrize("name", [*IDEMPOTENT, "inference_forms"])
def test_a_pass_that_rewrites_nothing_leaves_the_program_as_it_was(name):
    make, program, _ = PASSES.get(name, (lambda: training_forms(False, "train"), lifted_program, 0))
    program = program()
    run_program_pass(program, make())
    before = (program.to_string(with_details=True), program.version, list(program.updates), program.names.copy())
    assert run_program_pass(program, make()) == 0
    assert before == (program.to_string(with_details=True), program.version, list(program.updates), program.names.copy())


def test_what_a_pass_needs_is_asked_before_anything_changes():
    program = lifted_program()
    run_program_pass(program, half())
    before = program.to_string()
    other = mixed_precision(dtype_of("bfloat16"), AutoMixedPrecisionLists(dtype="bfloat16"), "O2")
    with pytest.raises(ArgumentError, match="computes in float16 already"):
        run_program_pass(program, other)
    assert program.to_string() == before


# Verification ----------------------------------------------------------------------------------------------------------


def loses_an_operator(program, target):
    program.global_block().ops = program.global_block().ops[1:]
    return 1


def computes_twice(program, target):
    program.global_block().ops = [*program.global_block().ops, program.global_block().ops[-1]]
    return 1


def claims_another_type(program, target):
    v = program.global_block().ops[0].outputs[0]
    v.type = TensorType(v.type.dtype, (7,))
    return 1


def renames_an_output(program, target):
    program.outputs[0].name = "other"
    return 1


def drops_a_parameter(program, target):
    program.parameters = program.parameters[1:]
    return 1


def writes_an_unknown_attribute(program, target):
    program.global_block().ops[0].attrs["no_such"] = 1
    return 1


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (loses_an_operator, "which nothing before it computes"),
        (computes_twice, "which is there already"),
        (claims_another_type, "it is known as"),
        (renames_an_output, "the outputs are"),
        (drops_a_parameter, "came, went or changed their order"),
        (writes_an_unknown_attribute, "no_such"),
    ],
)
def test_a_pass_that_breaks_a_program_is_named_and_undone(breaks, says, monkeypatch):
    program = lifted_program()
    before = program.to_string(with_details=True)
    with pytest.raises(GraphError, match="after the pass 'broken'") as caught:
        run_program_pass(program, Pass("broken", breaks))
    assert says in str(caught.value)
    assert program.to_string(with_details=True) == before
    monkeypatch.setenv("ONNXGRAD_VERIFY", "0")
    assert run_program_pass(program, Pass("broken", breaks)) == 1


def test_what_a_program_fails_before_a_pass_is_no_fault_of_the_pass():
    """For that it is put back for a moment; then it is again what the pass left"""
    program = lifted_program()
    writes_an_unknown_attribute(program, None)

    def shortens(program, target):
        program.global_block().ops[0].name = "short"
        return 1

    assert run_program_pass(program, Pass("shortens", shortens)) == 1
    assert program.global_block().ops[0].name == "short"
    with pytest.raises(GraphError, match="it is known as"):
        run_program_pass(program, Pass("broken", claims_another_type))
    assert program.global_block().ops[0].name == "short"


def test_a_pass_that_fails_midway_changes_nothing():
    program = lifted_program()
    before = program.to_string(with_details=True)

    def run(program, target):
        loses_an_operator(program, target)
        raise ValueError("midway")

    with pytest.raises(ValueError, match="midway"):
        run_program_pass(program, Pass("fails", run))
    assert program.to_string(with_details=True) == before


def test_training_and_inference_give_the_values_that_they_gave():
    """The contract is around the passes, not in them"""
    program = old_program()
    x = np.random.default_rng(0).normal(size=(5, 3, 4, 4)).astype(np.float32)
    (plain,) = paddle.Executor().run(program, {"x": x}, ["d"])
    program.train()
    (trained,) = paddle.Executor().run(program, {"x": x}, ["d"])
    program.eval()
    (again,) = paddle.Executor().run(program, {"x": x}, ["d"])
    np.testing.assert_allclose(plain, x / np.sqrt(1 + 1e-5), rtol=1e-6)
    assert 0.3 < np.mean(trained == 0) < 0.7
    # One training run moved the running statistics.
    assert not np.array_equal(again, plain) and np.abs(again - plain).max() < 1

"""What is known of small integers and booleans: what onnx computes of them, and no more."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as paddle
from onnxgrad.core.ir.known import entries_of, known_ints, nonzero_of
from onnxgrad.testing import evaluate

INTS, SHAPES = TensorProto.INT64, [(), (1,), (3,), (2, 3), (1, 3), (2, 1)]


def known_of(nodes, constants, inputs=(), initial=()):
    """(the model, what is known of its result y)"""
    graph = helper.make_graph(
        nodes,
        "g",
        list(inputs),
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in {**constants, **dict(initial)}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    program = paddle.from_onnx(model, parameters=[])
    return model, entries_of(program.find("y"))


def agrees(nodes, **constants):
    model, found = known_of(nodes, constants)
    (expected,) = evaluate(model, {})
    assert found == tuple(expected.reshape(-1).tolist())
    assert all(type(a) is type(b) for a, b in zip(found, expected.reshape(-1).tolist(), strict=True))


@pytest.mark.parametrize(("a", "b"), list(itertools.product(SHAPES, SHAPES)))
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_arithmetic_and_comparisons(op, a, b):
    draw = np.random.default_rng(0)
    x, z = draw.integers(-9, 9, a), draw.integers(1, 4, b)
    agrees([helper.make_node(op, ["x", "z"], ["y"])], x=x, z=z)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(SHAPES, SHAPES)))
@pytest.mark.parametrize("op", ["And", "Or"])
def test_logic(op, a, b):
    draw = np.random.default_rng(1)
    agrees([helper.make_node(op, ["x", "z"], ["y"])], x=draw.integers(0, 2, a) > 0, z=draw.integers(0, 2, b) > 0)


CASES = {
    "not": ([helper.make_node("Not", ["x"], ["y"])], {"x": np.array([[True], [False]])}),
    "division to zero": ([helper.make_node("Div", ["x", "z"], ["y"])], {"x": np.array([-7, 7, -7]), "z": np.array([2, -2, -2])}),
    "cast to bool": ([helper.make_node("Cast", ["x"], ["y"], to=9)], {"x": np.array([0, 2, -1])}),
    "cast of bool": ([helper.make_node("Cast", ["x"], ["y"], to=7)], {"x": np.array([True, False])}),
    "cast of a number": ([helper.make_node("Cast", ["x"], ["y"], to=9)], {"x": np.float32(0.5)}),
    "comparison of numbers": ([helper.make_node("Less", ["x", "z"], ["y"])], {"x": np.float32(0.5), "z": np.float32(0.75)}),
    "concat of vectors": ([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], {"x": np.array([1, 2])}),
    "concat of rows": ([helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], {"x": np.array([[1, 2], [3, 4]])}),
    "nonzero": ([helper.make_node("NonZero", ["x"], ["y"])], {"x": np.array([[0, 2], [3, 0]])}),
    "nonzero of nothing": ([helper.make_node("NonZero", ["x"], ["y"])], {"x": np.array([0, 0])}),
    "squeeze": ([helper.make_node("Squeeze", ["x"], ["y"])], {"x": np.array([[4]])}),
    "flatten": ([helper.make_node("Flatten", ["x"], ["y"])], {"x": np.array([[4, 5]])}),
    "gather": ([helper.make_node("Gather", ["x", "z"], ["y"])], {"x": np.array([4, 5, 6]), "z": np.array([[2, -3]])}),
    "slice": ([helper.make_node("Slice", ["x", "z", "e"], ["y"])], {"x": np.arange(5), "z": np.array([1]), "e": np.array([-1])}),
    "expand": ([helper.make_node("Expand", ["x", "z"], ["y"])], {"x": np.array([7]), "z": np.array([3])}),
}


@pytest.mark.parametrize(("nodes", "constants"), CASES.values(), ids=CASES)
def test_one_operator(nodes, constants):
    agrees(nodes, **constants)


def test_what_does_not_fit_is_not_known():
    _, found = known_of([helper.make_node("Mul", ["x", "x"], ["y"])], {"x": np.array([2**40, 3])})
    assert found == (None, 9)
    _, found = known_of([helper.make_node("Div", ["x", "z"], ["y"])], {"x": np.array([6, 6]), "z": np.array([0, 2])})
    assert found == (None, 3)


def test_sizes_are_followed_by_name():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    shape = helper.make_node("Shape", ["x"], ["s"])
    scaled = helper.make_node("Mul", ["s", "two"], ["y"])
    _, found = known_of([shape, scaled], {"two": np.array([1, 2])}, [x])
    assert found == ("N", 6)
    _, found = known_of([shape, helper.make_node("Equal", ["s", "two"], ["y"])], {"two": np.array([1, 3])}, [x])
    assert found == (None, True)


@pytest.mark.parametrize(("op", "known", "expected"), [("And", False, (False,)), ("Or", True, (True,)), ("And", True, (None,))])
def test_one_operand_may_decide(op, known, expected):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Equal", ["s", "four"], ["open"]),
        helper.make_node(op, ["open", "known"], ["y"]),
    ]
    _, found = known_of(nodes, {"four": np.array([4]), "known": np.array([known])}, [x])
    assert found == expected


@pytest.mark.parametrize("op", ["Not", "Identity", "Reshape"])
def test_a_switch_that_a_caller_may_feed_is_not_known(op):
    yes = helper.make_tensor_value_info("yes", TensorProto.BOOL, [1])
    more = ["one"] if op == "Reshape" else []
    _, found = known_of([helper.make_node(op, ["yes", *more], ["y"])], {"one": np.array([1])}, [yes], {"yes": np.array([True])})
    assert found is None


def test_large_tensors_are_not_followed():
    _, found = known_of([helper.make_node("Add", ["x", "x"], ["y"])], {"x": np.arange(65)})
    assert found is None
    _, found = known_of([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], {"x": np.arange(40)})
    assert found is None


def test_integers_of_lists_arrays_and_nothing():
    assert known_ints([1, 2]) == [1, 2]
    assert known_ints(np.array([[3]])) == [3]
    assert known_ints(None) is None
    assert nonzero_of(None) is None
    assert onnx.TensorProto.BOOL == 9


def test_two_comparisons_of_the_same_types_are_told_apart():
    nodes = [
        helper.make_node("Less", ["a", "b"], ["first"]),
        helper.make_node("Less", ["b", "a"], ["second"]),
        helper.make_node("Or", ["second", "second"], ["y"]),
    ]
    _, found = known_of(nodes, {"a": np.float32(0.5), "b": np.float32(0.75)})
    assert found == (False,)

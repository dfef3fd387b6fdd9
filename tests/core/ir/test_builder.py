"""Builders: operators by calling them, constants in the element type that they meet, and what known shapes make unnecessary."""

import numpy as np
import pytest

from onnxgrad import errors
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program


@pytest.fixture
def block():
    return Program().global_block()


@pytest.fixture
def op(block):
    """What a user's operators are appended with."""
    return block.build


@pytest.fixture
def gradient(block):
    """What gradients are written with."""
    return Builder(block, role=Role.BACKWARD)


def given(op, name, dims, dtype="float32"):
    return op.block.create_var(name, dims, dtype)


def operand(y, index=1):
    """The constant that an operator reads, as numpy."""
    return y.op.inputs[index].value.numpy()


# Operators -----------------------------------------------------------------------------------------------------------


def test_an_operator_is_appended_and_its_result_returned(op, block):
    x = given(op, "x", ("N", 3))
    y = op.Transpose(x, perm=[1, 0])
    assert block.ops == [y.op] and y.op.inputs[0] is x and y.op.attrs == {"perm": [1, 0]}
    assert block.var(y.name) is y and y.dims == (3, "N") and y.dtype == x.dtype


def test_results_can_be_counted_or_named(op):
    x = given(op, "x", (4, 2))
    first, second = op.Split(x, num_outputs=2, axis=0, outputs=2)
    assert first.op is second.op and first.name != second.name and second.dims == (2, 2)
    values, index = op.TopK(x, [1], outputs=["values", "index"])
    assert (values.name, index.name) == ("values", "index") and index.dtype.name == "int64"
    (alone,) = op.Neg(x, outputs=["alone"])
    assert alone.name == "alone"


def test_names_are_taken_once(op, block):
    x = given(op, "x", (2,))
    found = [op.Exp(x).name, op.Exp(x).name, Builder(block, key="k").Exp(x).name, Builder(block, key="k").Exp(x).name]
    assert len(set(found)) == 4 and found[2:] == ["k/Exp", "k/Exp_1"]


def test_inputs_are_given_by_position_or_by_name(op):
    x, high = given(op, "x", (2,)), given(op, "high", ())
    clipped = op.Clip(x, max=high)
    assert clipped.op.inputs[0] is x and clipped.op.inputs[1] is None and clipped.op.inputs[2] is high
    assert op.Clip(max=high, input=x).op.inputs[0] is x


def test_optional_inputs_at_the_end_are_left_out(op):
    x = given(op, "x", (2,))
    assert [len(op.Clip(x, *rest).op.inputs) for rest in ((), (None, None), (0.0, None))] == [1, 1, 2]


def test_axes_are_put_where_the_opset_has_them(op, block):
    x = given(op, "x", (2, 3))
    newer = op.ReduceMean(x, axes=[1], keepdims=0)
    assert operand(newer).tolist() == [1] and newer.op.attrs == {"keepdims": 0}
    block.program.set_opset_version(13)
    older = op.ReduceMean(x, axes=[1], keepdims=0)
    assert older.op.attrs == {"axes": [1], "keepdims": 0} and len(older.op.inputs) == 1
    assert older.dims == newer.dims == (2,)


def test_attributes_are_plain_python(op):
    x = given(op, "x", (2, 3))
    attrs = op.ReduceSum(x, [1], keepdims=False, noop_with_empty_axes=np.int64(1)).op.attrs
    assert attrs == {"keepdims": 0, "noop_with_empty_axes": 1} and {type(value) for value in attrs.values()} == {int}
    perm = op.Transpose(x, perm=(np.int32(1), np.int32(0))).op.attrs["perm"]
    assert perm == [1, 0] and {type(axis) for axis in perm} == {int}
    assert op.Softmax(x, axis=None).op.attrs == {}


def test_operators_carry_the_role_of_the_builder(op, gradient):
    x = given(op, "x", (2,))
    assert [build.Neg(x).op.role for build in (op, gradient)] == [Role.FORWARD, Role.BACKWARD]


def test_a_stage_leaves_the_block_as_it_is(op, block):
    x, stage = given(op, "x", (2,)), []
    y = Builder(block, stage, Role.BACKWARD, key="x@GRAD").Neg(x)
    assert stage == [y.op] and block.ops == [] and list(block.vars) == ["x"]
    assert (y.name, y.op.name, y.op.role) == ("", "x@GRAD", Role.BACKWARD)


def test_slots_are_named_in_any_order_and_those_without_a_variable_are_left_out(op, block):
    x, high = given(op, "x", (2,)), given(op, "high", ())
    whole = block.append_op("Clip", {"max": high, "input": [x]}, {"output": "y"})
    assert whole.inputs[0] is x and whole.inputs[1] is None and whole.inputs[2] is high and len(whole.inputs) == 3
    half = block.append_op("Clip", {"input": x, "min": high, "max": None}, ["z"])
    assert half.inputs[1] is high and len(half.inputs) == 2
    with pytest.raises(errors.IllTyped, match=r"Clip has no slot 'low'; it has \['input', 'min', 'max'\]"):
        block.append_op("Clip", {"input": x, "low": high}, ["w"])


def test_what_is_no_operator_is_no_attribute_of_a_builder(op):
    with pytest.raises(AttributeError, match="relu"):
        _ = op.relu


# Constants -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
def test_a_number_takes_the_element_type_of_the_operand(op, dtype):
    x = given(op, "x", (2, 3), dtype)
    for y in (op.Mul(x, 2), op.Mul(2, x), op.Mul(x, [2, 2, 2])):
        assert y.dtype.name == dtype and {v.dtype.name for v in y.op.inputs} == {dtype}


@pytest.mark.parametrize("number, dtype", [(2, "int64"), (2.0, "float32"), (True, "bool")])
def test_without_an_operand_a_number_has_the_usual_type(op, number, dtype):
    assert op.Identity(number).dtype.name == dtype


def test_a_number_where_only_floats_fit_is_a_float(op):
    assert op.Exp(2).dtype.name == "float32"


def test_an_empty_list_holds_integers(op):
    assert op.Identity([]).type == op.Identity(np.zeros(0, np.int64)).type


def test_arrays_keep_their_element_type(op):
    x = given(op, "x", (2,), "float64")
    assert op.Mul(x, np.array([2.0, 3.0])).dtype.name == "float64"
    with pytest.raises(errors.IllTyped, match=r"must be float64 like the others"):
        op.Mul(x, np.float32(2.0))


def test_each_slot_has_an_element_type_of_its_own(op):
    x = given(op, "x", (4, 5), "float16")
    condition = given(op, "c", (4, 1), "bool")
    assert op.Where(condition, x, 0.0).op.inputs[2].dtype.name == "float16"
    assert op.Slice(x, [0], [2], [1]).op.inputs[1].dtype.name == "int64"
    assert op.Pow(x, 2).op.inputs[1].dtype.name == "int64"


@pytest.mark.parametrize(
    "number, dims",
    [(2.0, (4, 3)), ([1.0, 2.0, 3.0], (4, 3)), ([[1.0], [2.0], [3.0], [4.0]], (4, 3)), (np.ones((5, 1, 1), np.float32), (5, 4, 3))],
)
def test_numbers_lists_and_arrays_are_broadcast(op, number, dims):
    y = op.Add(given(op, "x", (4, 3)), number)
    assert y.dims == dims
    np.testing.assert_array_equal(operand(y), np.asarray(number, np.float32))


def test_equal_constants_are_one(op, gradient, block):
    x = given(op, "x", (2,))
    same = [
        op.Mul(x, 2).op.inputs[1],
        op.Mul(2.0, x).op.inputs[0],
        gradient.Add(x, np.float32(2)).op.inputs[1],
        op.constant(2.0, x.dtype),
    ]
    (constant,) = block.initializers
    assert all(v is constant for v in same)


def test_constants_of_another_type_shape_or_sign_are_others(op, block):
    arrays = [
        np.float32(0.0),
        np.float32(-0.0),
        np.float64(0.0),
        np.zeros(1, np.float32),
        np.zeros((1, 1), np.float32),
        np.int32(0),
    ]
    assert len({op.constant(array) for array in arrays}) == len(block.initializers) == len(arrays)


def test_a_constant_does_not_change_with_the_callers_array(op):
    mine = np.array([1, 2])
    v = op.constant(mine)
    mine[:] = 7
    assert v.value.numpy().tolist() == [1, 2] and v.entries == (1, 2)


# What known things make unnecessary ----------------------------------------------------------------------------------


def test_known_shapes_are_constants_in_gradients(gradient):
    x = given(gradient, "x", ("N", 4, 5))
    assert gradient.Shape(x, start=1).value.numpy().tolist() == [4, 5]
    assert gradient.Size(given(gradient, "y", (4, 5))).value.numpy() == 20
    assert gradient.Concat(gradient.Shape(x, start=1), [7], axis=0).value.numpy().tolist() == [4, 5, 7]
    assert gradient.Shape(x).op.type == "Shape" and gradient.Size(x).op.type == "Size"
    assert gradient.Concat(gradient.Shape(x), [7], axis=0).op.type == "Concat"


def test_operators_that_change_nothing_are_left_out_of_gradients(gradient, block):
    x = given(gradient, "x", ("N", 4))
    shape = gradient.Shape(x)
    same = [
        gradient.Expand(x, shape),
        gradient.Reshape(x, shape),
        gradient.Cast(x, to=1),
        gradient.Transpose(x, perm=[0, 1]),
        gradient.Mul(x, 1.0),
        gradient.Mul(1.0, x),
        gradient.Unsqueeze(x, axes=[]),
        gradient.ReduceSum(x, axes=[], noop_with_empty_axes=1),
        gradient.Pad(x, [0, 0, 0, 0]),
    ]
    assert all(y is x for y in same) and [node.type for node in block.ops] == ["Shape"]


def test_operators_that_may_change_something_stay_in_gradients(gradient):
    x = given(gradient, "x", ("N", None))
    kept = [
        gradient.Expand(x, gradient.Shape(x)),
        gradient.Cast(x, to=11),
        gradient.Transpose(x, perm=[1, 0]),
        gradient.Mul(x, [1.0]),
        gradient.Mul(x, 2.0),
        gradient.Unsqueeze(x, axes=[0]),
        gradient.ReduceSum(x, axes=[]),
        gradient.Pad(x, [0, 0, 0, 1]),
    ]
    assert [y.op.type for y in kept] == ["Expand", "Cast", "Transpose", "Mul", "Mul", "Unsqueeze", "ReduceSum", "Pad"]


def test_two_transposes_of_rows_are_one_in_gradients(gradient):
    x = given(gradient, "x", (2, 3, 4, 5))
    y = gradient.Transpose(gradient.Transpose(x, perm=[1, 2, 0, 3]), perm=[1, 0, 2, 3])
    assert y.op.inputs[0] is x and y.op.attrs["perm"] == [2, 1, 0, 3] and y.dims == (4, 3, 2, 5)


def test_what_a_user_appends_stays_as_it_is(op, block):
    x = given(op, "x", (2, 3))
    made = [op.Mul(x, 1.0), op.Cast(x, to=1), op.Shape(x), op.Transpose(x, perm=[0, 1])]
    assert [node.type for node in block.ops] == [y.op.type for y in made] == ["Mul", "Cast", "Shape", "Transpose"]


def test_gradients_without_a_form_in_16_bits_are_written_in_32(gradient, op, block):
    x, w = given(op, "x", (1, 2, 8), "bfloat16"), given(op, "w", (3, 2, 3), "bfloat16")
    y = gradient.Conv(x, w)
    assert [node.type for node in block.ops] == ["Cast", "Cast", "Conv", "Cast"]
    assert y.dtype.name == "bfloat16" and y.op.inputs[0].dtype.name == "float32" and y.dims == (1, 3, 6)
    assert gradient.Mul(x, x).op.inputs[0] is x
    with pytest.raises(errors.IllTyped, match=r"^Conv .* 'X' cannot be bfloat16 \(.*x.*\)\. Cast it first\.$"):
        op.Conv(x, w)


# Refusals ------------------------------------------------------------------------------------------------------------


def test_an_unknown_operator_is_refused_by_its_name(op, block):
    with pytest.raises(errors.IllTyped, match=r"there is no operator Frobnicate in opset 21\. Raise the program's opset\."):
        op.Frobnicate(given(op, "x", (2,)))
    block.program.set_opset_version(9)
    with pytest.raises(errors.IllTyped, match="there is no operator Gelu in opset 9"):
        op.Gelu(block.var("x"))


@pytest.mark.parametrize(
    "call, reason",
    [
        (lambda op, x: op.Softmax(x, axes=[1]), r"^Softmax .*there is no attribute 'axes'; it has \['axis'\]"),
        (lambda op, x: op.Cast(x), r"^Cast .*the attribute 'to' is required"),
        (lambda op, x: op.Add(x), r"^Add .*1 operands given; its inputs are \['A', 'B'\]"),
        (lambda op, x: op.Add(x, None), r"^Add .*the input 'B' is missing"),
        (lambda op, x: op.Neg(x, x), r"^Neg .*2 operands given"),
        (lambda op, x: op.Where(None, x, x), r"^Where .*the input 'condition' is missing"),
        (lambda op, x: op.And(x, True), r"^And .*'A' cannot be float32 \(Variable\(x: float32\[2, 3\]\)\)\. Cast it first"),
        (lambda op, x: op.MatMul(x, x), r"^MatMul .*Incompatible dimensions.*Operands: Variable\(x"),
    ],
)
def test_what_an_operator_does_not_accept_is_refused_by_its_name(op, block, call, reason):
    x = given(op, "x", (2, 3))
    with pytest.raises(errors.IllTyped, match=reason):
        call(op, x)
    assert block.ops == [] and all(v is x or v.value is not None for v in block.vars.values())


@pytest.mark.parametrize("thing", [{"a": 1}, object(), {1, 2}])
def test_what_is_no_operand_is_refused_by_its_type(op, thing):
    with pytest.raises(errors.ArgumentTypeError, match=f"^Add takes variables, numbers and arrays, not {type(thing).__name__}"):
        op.Add(given(op, "x", (2,)), thing)


def test_a_name_is_used_once(op):
    x = given(op, "x", (2,))
    with pytest.raises(errors.DuplicateName, match="'x' is used twice"):
        op.Neg(x, outputs=["x"])


@pytest.mark.parametrize(("dtype", "number"), [("int64", 2.5), ("uint8", -1), ("int8", [1, 300]), ("int32", float("nan"))])
def test_a_number_that_the_integers_it_meets_cannot_hold_is_refused(op, dtype, number):
    with pytest.raises(errors.ArgumentError, match=f"Mul: .* cannot be stored as {dtype}"):
        op.Mul(given(op, "counts", [2], dtype), number)


def test_a_whole_number_meets_integers(op):
    assert operand(op.Mul(given(op, "counts", [2], "int64"), 2.0)) == np.array(2, np.int64)

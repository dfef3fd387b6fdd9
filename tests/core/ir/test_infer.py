"""Types and shapes of operators' outputs: what onnx infers, what is corrected, and why an operator is refused."""

import numpy as np
import onnx
import pytest
from onnx import TypeProto

import onnxgrad as paddle
from onnxgrad import errors, static
from onnxgrad.core.ir.copying import copy_block
from onnxgrad.core.ir.infer import (
    FOREIGN,
    check_and_infer,
    fill_type,
    infer_again,
    infer_leniently,
    infer_window_ranks,
    infer_with_bodies,
    read_type,
    reason_against,
)
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import OptionalType, SequenceType, TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of


def tensor(*dims, dtype="float32"):
    return TensorType(dtype_of(dtype), dims)


def operator(type, *inputs, outputs=1, block=None, domain="", **attrs):
    """An operator on inputs of these types (or variables, or None), and of one block."""
    block = block or Program().global_block()
    operands = [Variable(block, f"x{i}", x) if isinstance(x, tuple) else x for i, x in enumerate(inputs)]
    made = Operator(block, type, operands, [], attrs, domain)
    made.outputs = [Variable(block, f"y{i}", None, made) for i in range(outputs)]
    return made


def inferred(*args, **kwargs):
    """The types of the outputs."""
    op = operator(*args, **kwargs)
    check_and_infer(op)
    types = [v.type for v in op.outputs]
    return types[0] if len(types) == 1 else types


def program_of(text, opset=18):
    return paddle.from_onnx(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}, "own": 1]> {text}'))


# What is found -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "found, expected",
    [
        (lambda: inferred("Add", tensor("N", 1), tensor(4)), tensor("N", 4)),
        (lambda: inferred("MatMul", tensor("N", 3), tensor(3, 5)), tensor("N", 5)),
        (lambda: inferred("Equal", tensor(2, 3), tensor(3)), tensor(2, 3, dtype="bool")),
        (lambda: inferred("Cast", tensor("N"), to=7), tensor("N", dtype="int64")),
        (lambda: inferred("Neg", TensorType(dtype_of("float16"), None)), TensorType(dtype_of("float16"), None)),
        (lambda: inferred("TopK", tensor(4), Program().constant(np.array([2])), outputs=2), [tensor(2), tensor(2, dtype="int64")]),
        (lambda: inferred("SequenceConstruct", tensor(2), tensor(2)), SequenceType(tensor(2))),
    ],
)
def test_types_and_shapes_are_found(found, expected):
    assert found() == expected


def test_constants_decide_a_shape():
    program = Program()
    shape = program.constant(np.array([3, -1]))
    assert inferred("Reshape", tensor(2, 6), shape, block=program.global_block()) == tensor(3, 4)


def test_a_weight_decides_no_shape_as_a_run_may_replace_it():
    program = Program()
    shape = program.create_global_var("shape", np.array([3, 4]))
    assert inferred("Reshape", tensor(2, 6), shape, block=program.global_block()) == tensor(None, None)


def test_an_absent_output_is_left_out():
    op = operator("LayerNormalization", tensor(2, 3), tensor(3), outputs=3)
    op.outputs[1] = None
    check_and_infer(op)
    assert op.outputs[0].type == tensor(2, 3) and op.outputs[2].type == tensor(2, 1)


def test_an_operand_of_unknown_type_leaves_the_result_unknown():
    unknown = Variable(Program().global_block(), "x")
    assert inferred("Neg", unknown) is None
    assert inferred("Add", tensor(2), unknown) is None


def test_a_dimension_that_is_unknown_is_not_taken_for_zero():
    x = tensor("B", "T", None)
    op = operator("Attention", x, x, x, q_num_heads=2, kv_num_heads=2)
    op.block.program.set_opset_version(23)
    check_and_infer(op)
    assert op.outputs[0].type == tensor("B", "T", None)
    assert inferred("Neg", tensor("N", 0)) == tensor("N", 0)


def test_sizes_of_a_resize_need_no_known_number():
    x, block = tensor(1, 3, "H", "W"), Program().global_block()
    sizes = Variable(block, "sizes", tensor(None, dtype="int64"))
    found = inferred("Resize", x, None, None, sizes, block=block)
    assert found.dtype.name == "float32" and len(found.dims) == 4


@pytest.mark.parametrize("end, expected", [(4.0, 4), (7.0, 7)])
def test_a_range_of_floats_depends_on_their_values(end, expected):
    block = Program().global_block()
    bounds = [block.program.constant(np.array(number, np.float32)) for number in (0.0, end, 1.0)]
    assert inferred("Range", *bounds, block=block) == tensor(expected)


# Declared types ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("infer", [check_and_infer, infer_leniently])
def test_a_declared_shape_that_contradicts_what_is_found_loses(infer):
    op = operator("Neg", tensor(2, 3))
    op.outputs[0].type = tensor(5, 3, dtype="float64")
    infer(op)
    assert op.outputs[0].type == tensor(2, 3)


@pytest.mark.parametrize("infer", [check_and_infer, infer_leniently])
def test_a_declared_shape_fills_what_is_not_found(infer):
    op = operator("Neg", tensor(None, "N", "M"))
    op.outputs[0].type = tensor("B", 4, "L")
    infer(op)
    assert op.outputs[0].type == tensor("B", 4, "M")


def test_a_file_that_declares_another_shape_is_corrected():
    program = program_of("g (float[2, 3] x) => (float[7, 7] y) { a = Transpose (x)  y = Neg (a) }")
    assert program.outputs[0].type == tensor(3, 2)


def test_a_declared_type_stays_where_nothing_is_found():
    op = operator("Neg", Variable(Program().global_block(), "x"))
    op.outputs[0].type = tensor("B", 4)
    check_and_infer(op)
    assert op.outputs[0].type == tensor("B", 4)


# What is remembered --------------------------------------------------------------------------------------------------


def test_equal_operators_of_two_programs_get_equal_types_and_share_no_variable():
    first, second = (operator("Shape", tensor("N", 4)) for _ in range(2))
    check_and_infer(first)
    check_and_infer(second)
    assert first.outputs[0].type == second.outputs[0].type and second.outputs[0].entries == ("N", 4)
    first.outputs[0].type, first.outputs[0].entries = tensor(9), (9,)
    assert second.outputs[0].type == tensor(2, dtype="int64") and second.outputs[0].entries == ("N", 4)
    assert inferred("Shape", tensor("N", 4)) == tensor(2, dtype="int64")


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "reversed"])
def test_what_one_program_found_is_not_taken_for_what_another_asks(turned):
    def opset_12(**attrs):
        block = Program().global_block()
        block.program.set_opset_version(12)
        return inferred("Softmax", tensor(2, 3), block=block, **attrs)

    def reshaped(*shape):
        program = Program()
        return inferred("Reshape", tensor(12), program.constant(np.array(shape)), block=program.global_block())

    cases = [
        (lambda: inferred("Neg", tensor(2)), tensor(2)),
        (lambda: inferred("Neg", tensor(3)), tensor(3)),
        (lambda: inferred("Neg", tensor(2, dtype="int32")), tensor(2, dtype="int32")),
        (lambda: inferred("Abs", tensor(2)), tensor(2)),
        (lambda: inferred("Concat", tensor(2, 2), tensor(2, 2), axis=0), tensor(4, 2)),
        (lambda: inferred("Concat", tensor(2, 2), tensor(2, 2), axis=1), tensor(2, 4)),
        (lambda: inferred("Transpose", tensor(2, 3, 4), perm=[0, 2, 1]), tensor(2, 4, 3)),
        (lambda: inferred("Transpose", tensor(2, 3, 4), perm=[2, 1, 0]), tensor(4, 3, 2)),
        (lambda: reshaped(3, 4), tensor(3, 4)),
        (lambda: reshaped(4, 3), tensor(4, 3)),
        (lambda: opset_12(axis=1), tensor(2, 3)),
    ]
    for find, expected in reversed(cases) if turned else cases:
        assert find() == expected


def test_what_an_older_opset_lacks_is_refused_there_also_after_a_newer_one_had_it():
    block = Program().global_block()
    assert inferred("Relu", tensor(2, dtype="int32"), block=block) == tensor(2, dtype="int32")
    block.program.set_opset_version(13)
    with pytest.raises(errors.IllTyped, match=r"^Relu .*'X' cannot be int32"):
        inferred("Relu", tensor(2, dtype="int32"), block=block)


def test_only_an_oracle_accepts_more_precision_than_is_declared():
    oracle, operands = Program(), (tensor(2, dtype="int8"), tensor(dtype="float64"))
    oracle.is_oracle = True
    assert inferred("DequantizeLinear", *operands, block=oracle.global_block()) == tensor(2, dtype="float64")
    with pytest.raises(errors.IllTyped, match=r"^DequantizeLinear .*'x_scale' cannot be float64"):
        inferred("DequantizeLinear", *operands)


# Bodies --------------------------------------------------------------------------------------------------------------


def test_an_if_is_what_both_branches_have_in_common():
    program = program_of("""g (float[2, 3] x, float[2, 4] z, bool c) => (y) { y = If (c) <
        then_branch = t () => (u) { u = Neg (x) }, else_branch = e () => (v) { v = Exp (z) } > }""")
    assert program.outputs[0].type == tensor(2, None)


def test_a_loop_stacks_as_many_values_as_it_counts():
    program = program_of("""g (float[4] x) => (last, ys) <int64 m = {5}> { last, ys = Loop (m, , x) <
        body = b (int64 i, bool on, h) => (bool go, k, y) <bool go = {1}> { k = Neg (h)  y = Exp (h) } > }""")
    last, ys = program.outputs
    assert last.type == tensor(4) and ys.type == tensor(5, 4)


def test_a_loop_whose_condition_is_computed_stacks_an_unknown_number():
    program = program_of("""g (float[4] x, bool c) => (ys) <int64 m = {5}> { ys = Loop (m, c) <
        body = b (int64 i, bool on) => (bool go, y) { go = Not (on)  y = Neg (x) } > }""")
    assert program.outputs[0].type == tensor(None, 4)


def test_a_state_whose_shape_changes_has_no_size_there():
    program = program_of("""g (float[1, 2] x, bool c) => (last) <int64 m = {5}> { last = Loop (m, c, x) <
        body = b (int64 i, bool on, h) => (bool go, k) { go = Identity (on)  k = Concat <axis = 0> (h, h) } > }""")
    assert program.outputs[0].type == tensor(None, 2)


def test_a_state_is_not_what_the_body_declares_where_it_starts_as_another():
    program = program_of("""g (float[3, 2] x, bool c) => (last) <int64 m = {5}> { last = Loop (m, c, x) <
        body = b (int64 i, bool on, float[1, 2] h) => (bool go, k) { go = Identity (on)  k = Neg (h) } > }""")
    loop, h, k = program.global_block().ops[-1], program.find("h"), program.find("k")
    k.type = loop.outputs[0].type = None
    infer_with_bodies(loop)
    assert h.type == k.type == loop.outputs[0].type == tensor(None, 2)


def test_a_scan_takes_an_axis_off_and_puts_one_on():
    program = program_of("""g (float[2] s, float[3, 6] x) => (last, ys) { last, ys = Scan (s, x) <
        num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [-1],
        body = b (h, e) => (k, y) { k = Neg (h)  y = Exp (e) } > }""")
    assert [v.type for v in program.outputs] == [tensor(2), tensor(3, 6)]
    assert program.find("e").type == tensor(3)


def test_types_in_a_body_follow_its_operands():
    program = program_of("""g (float[1, 3] x, bool c) => (last) <int64 m = {2}> { last = Loop (m, c, x) <
        body = b (int64 i, bool on, h) => (bool go, k) { go = Identity (on)  k = Exp (h) } > }""")
    loop = program.global_block().ops[-1]
    assert program.find("k").type == tensor(1, 3)
    for v in (program.find("x"), program.find("h"), program.find("k"), *loop.outputs):
        v.type = None
    program.find("x").type = tensor("B", 7)
    infer_with_bodies(loop)
    assert [v.type for v in (program.find("h"), program.find("k"), *loop.outputs)] == [tensor("B", 7)] * 3


def test_a_body_is_inferred_again_after_its_inputs_changed():
    program = program_of("""g (float[1, 3] x, bool c) => (last) <int64 m = {2}> { last = Loop (m, c, x) <
        body = b (int64 i, bool on, h) => (bool go, k) { go = Identity (on)  t = Transpose (h)  e = Exp (t)  k = Transpose (e) } > }""")
    mapping = {}
    copy = copy_block(program.find("k").block, mapping, program.global_block(), lambda v: f"{v.name}/copy")
    inside = [mapping[program.find(name)] for name in ("t", "e", "k")]
    copy.inputs[2].type = tensor("B", 7)
    infer_again(copy, mapping)
    assert [v.type for v in inside] == [tensor(7, "B"), tensor(7, "B"), tensor("B", 7)]
    assert program.find("t").type == tensor(3, 1)
    copy.inputs[2].type = None
    infer_again(copy, mapping)
    assert [v.type for v in inside] == [None, None, None]


def test_what_a_file_declares_in_a_body_is_kept_when_it_is_inferred_again():
    program = program_of("""g (float[1, 3] x, bool c) => (last) <int64 m = {2}> { last = Loop (m, c, x) <
        body = b (int64 i, bool on, h) => (bool go, float[1, 3] k) { go = Identity (on)  k = own.unknown (h) } > }""")
    mapping = {}
    copy = copy_block(program.find("k").block, mapping, program.global_block(), lambda v: f"{v.name}/copy")
    copy.inputs[2].type = tensor("B", 7)
    infer_again(copy, mapping)
    assert mapping[program.find("k")].type == tensor(1, 3)


def test_each_call_of_a_function_has_types_of_its_own():
    text = """<ir_version: 9, opset_import: ["": 18, "own": 1]> g (float[2, 3] x, int32[N, M] z) => (y, w) {
        y = own.f <to = 11> (x)  w = own.f (z) }
        <domain: "own", opset_import: ["": 18]> f <to: int = 7> (p) => (q) { n = Neg (p)  q = Cast <to: int = @to> (n) }"""
    program = paddle.from_onnx(onnx.parser.parse_model(text))
    assert [v.type for v in program.outputs] == [tensor(2, 3, dtype="float64"), tensor("N", "M", dtype="int64")]


# Operators without a schema ------------------------------------------------------------------------------------------


def test_another_domain_can_say_what_its_operators_give(monkeypatch):
    monkeypatch.setitem(FOREIGN, "com.acme", lambda op: [(op.inputs[0].type, None) for _ in op.outputs])
    assert inferred("Frobnicate", tensor(2, "N"), domain="com.acme", outputs=2) == [tensor(2, "N")] * 2
    assert inferred("Frobnicate", tensor(2, "N"), domain="com.nobody") is None


@pytest.mark.parametrize(
    "type, inputs, attrs, ranks",
    [
        ("Conv", 2, {"strides": [1, 1]}, [4, 4]),
        ("MaxPool", 1, {"kernel_shape": [3]}, [3]),
        ("AveragePool", 1, {"pads": [0, 0, 0, 0, 0, 0]}, [5]),
        ("Conv", 2, {}, [None, None]),
        ("Neg", 1, {}, [None]),
    ],
)
def test_windows_say_how_many_axes_there_are(type, inputs, attrs, ranks):
    op = operator(type, *[TensorType(dtype_of("float32"), None)] * inputs, **attrs)
    op.outputs[0].type = TensorType(dtype_of("float32"), None)
    infer_window_ranks(op)
    assert [v.rank for v in op.inputs] == ranks and op.outputs[0].rank == ranks[0]


# Refusals ------------------------------------------------------------------------------------------------------------

REFUSED = {
    "two types": (("Add", tensor(2), tensor(2, dtype="int32")), {}, r"'B' is int32 but must be float32 like the others .*Cast one"),
    "no such type": (("Not", tensor(2)), {}, r"'X' cannot be float32 \(Variable\(x0: float32\[2\]\)\)\. Cast it first\."),
    "no such attribute": (("Neg", tensor(2)), {"axis": 1}, r"there is no attribute 'axis'; it has \[\]\."),
    "attribute missing": (("Concat", tensor(2)), {}, r"the attribute 'axis' is required\."),
    "too few": (("Add", tensor(2)), {}, r"1 operands given; its inputs are \['A', 'B'\]\."),
    "too many": (("Neg", tensor(2), tensor(2)), {}, r"2 operands given; its inputs are \['X'\]\."),
    "input missing": (("Add", tensor(2), None), {}, r"the input 'B' is missing\."),
    "shapes": (
        ("MatMul", tensor(2, 3), tensor(4, 5)),
        {},
        r".*Incompatible dimensions.*Operands: Variable\(x0: float32\[2, 3\]\), ",
    ),
    "equation": (("Einsum", tensor(2)), {"equation": "i->>"}, r"'i->>' is not an equation\. Operands"),
    "axis": (("Softmax", tensor(2)), {"axis": 2**31}, r"there is no axis 2147483648\. Operands"),
    "parts": (("Split", tensor(4)), {"num_outputs": 3}, r"num_outputs is 3, but there are 1\. Operands"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_operator_and_the_reason(case):
    args, attrs, reason = REFUSED[case]
    op = operator(*args, **attrs)
    with pytest.raises(errors.IllTyped, match=rf"^{op.type} \(-> y0\): {reason}") as caught:
        check_and_infer(op)
    assert isinstance(caught.value, TypeError) and reason_against(op) == str(caught.value)
    assert op.outputs[0].type is None


@pytest.mark.parametrize("case", ["shapes", "equation", "parts"])
def test_on_import_what_inference_refuses_is_only_unknown(case):
    args, attrs, _ = REFUSED[case]
    op = operator(*args, **attrs)
    infer_leniently(op)
    assert op.outputs[0].type is None


def test_an_operator_that_fits_has_no_reason_against_it():
    op = operator("Add", tensor(2), tensor(2))
    assert reason_against(op) is None and op.outputs[0].type is None


def test_branches_that_return_different_numbers_of_values_are_refused():
    program = program_of("""g (float[2] x, bool c) => (y) { y = If (c) <
        then_branch = t () => (u) { u = Neg (x) }, else_branch = e () => (v) { v = Exp (x) } > }""")
    branches = program.global_block().ops[-1]
    branches.attrs["else_branch"].outputs.append(program.find("x"))
    assert "If (-> y): the branches return 1 and 2 values." in reason_against(branches)


def test_a_body_that_does_not_fit_its_loop_is_refused():
    program = program_of("""g (float[4] x, bool c) => (last) <int64 m = {5}> { last = Loop (m, c, x) <
        body = b (int64 i, bool on, h) => (bool go, k) { go = Identity (on)  k = Neg (h) } > }""")
    loop = program.global_block().ops[-1]
    loop.attrs["body"].outputs.pop()
    assert reason_against(loop).startswith("Loop (-> last): its body does not fit its operands")


# Messages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type",
    [
        tensor(2, "N", None, dtype="float16"),
        tensor(),
        TensorType(dtype_of("int64"), None),
        SequenceType(tensor(2)),
        SequenceType(None),
        OptionalType(SequenceType(tensor("N"))),
    ],
)
def test_a_type_that_is_written_is_read_again(type):
    assert read_type(fill_type(TypeProto(), type)) == type


def test_what_we_do_not_describe_is_unknown():
    proto = TypeProto()
    proto.map_type.key_type = 7
    assert read_type(proto) is None and read_type(None) is None and read_type(TypeProto()) is None
    assert read_type(TypeProto(tensor_type=TypeProto.Tensor())) is None


def test_a_dimension_below_zero_in_a_file_is_unknown():
    proto = fill_type(TypeProto(), tensor(1, 2))
    proto.tensor_type.shape.dim[0].dim_value = -1
    assert read_type(proto) == tensor(None, 2)


@pytest.mark.parametrize(("start", "again", "turns"), [("yes", 1, 5), ("yes", 0, None), ("no", 1, None), ("fed", 1, None)])
def test_a_loop_that_either_condition_may_end_has_an_unknown_number_of_turns(start, again, turns):
    text = """g (float[4] x, bool fed) => (ys) <int64 m = {5}, bool yes = {1}, bool no = {0}> { ys = Loop (m, START) <
        body = b (int64 i, bool on) => (bool go, y) <bool go = {AGAIN}> { y = Neg (x) } > }"""
    program = program_of(text.replace("START", start).replace("AGAIN", str(again)))
    assert program.outputs[0].type == tensor(turns, 4)


def test_one_hot_of_another_depth_is_another_type():
    for depth in (5.0, 3.0):
        program = Program()
        indices, values = program.constant(np.array([0, 1])), program.constant(np.array([0.0, 1.0], np.float32))
        y = program.global_block().build.OneHot(indices, program.constant(np.array(depth, np.float32)), values)
        assert y.dims == (2, int(depth))


@pytest.mark.parametrize("name", ["int64", "int32", "bool", "uint8"])
@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 1), (4,), ()])
def test_the_elements_of_a_constant_are_not_those_of_an_input_of_its_type(name, shape):
    """What is inferred is remembered by operator and operands; a constant of two axes once counted as any tensor of its type"""
    count = int(np.prod(shape))
    program = Program()
    build = program.global_block().build
    constant = program.constant((np.arange(count) % 2).reshape(shape).astype(name))
    assert build.Identity(constant).entries is not None
    x = static.data("x", list(shape), name)
    with static.program_guard(x.block.program):
        copies = [x.block.build.Identity(x), paddle.assign(x), x.clone()]
    assert [copy.entries for copy in copies] == [None] * 3
    value = (np.arange(count).reshape(shape) + 1).astype(name)
    for result in static.Executor().run(x.block.program, {"x": value}, copies):
        np.testing.assert_array_equal(result, value)

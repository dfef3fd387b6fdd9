"""Walks over programs: what a result needs, what bodies capture, how operators are copied and made to read other variables."""

import onnx
import pytest

import onnxgrad as paddle
from onnxgrad.core.ir.copying import copy_block, copy_operators
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.origin import Origin
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import (
    all_operators_of,
    captured_variables,
    dependent_operators,
    needed_operators,
    readers_in,
    substitute,
)

NESTED = """<ir_version: 9, opset_import: ["": 18]>
g (float[2] x, float[2] z, bool c, bool d) => (float[2] y) <float[2] w = {1, 2}, int64 n = {3}> {
    a = Neg (x)
    y = If (c) <
        then_branch = outer () => (float[2] u) <int64[1] one = {1}> {
            t = Reshape (a, one)
            u = If (d) <
                then_branch = inner () => (float[2] v) { s = Mul (t, z)  v = Add (s, w) },
                else_branch = other () => (float[2] o) { o = Exp (a) }
            >
        },
        else_branch = loop () => (float[2] last) {
            last = Loop (n, d, x) <
                body = step (int64 i, bool going, float[2] h) => (bool on, float[2] k) { on = Identity (going)  k = Sub (h, z) }
            >
        }
    >
}"""


@pytest.fixture
def nested():
    return paddle.from_onnx(onnx.parser.parse_model(NESTED))


@pytest.fixture
def chain():
    """x -> a -> b, and c of a and another input z; a + b is the result d."""
    block = Program().global_block()
    x, z = block.create_var("x", [2]), block.create_var("z", [2])
    op = block.build
    a = op.Neg(x)
    b = op.Exp(a)
    c = op.Mul(a, z)
    d = op.Add(a, b)
    return block, x, z, a, b, c, d


def names(variables):
    return [v.name for v in variables]


def types(operators):
    return [op.type for op in operators]


def condition(program):
    """The outer If."""
    return program.global_block().ops[-1]


# Bodies --------------------------------------------------------------------------------------------------------------


def test_operators_of_bodies_come_after_the_one_that_has_them(nested):
    found = types(all_operators_of(nested.global_block()))
    assert found == ["Neg", "If", "Reshape", "If", "Mul", "Add", "Exp", "Loop", "Identity", "Sub"]


def test_an_operator_without_bodies_captures_nothing(nested):
    assert captured_variables(nested.global_block().ops[0]) == []


def test_bodies_capture_what_is_defined_around_them_in_order_of_first_use(nested):
    inner = condition(nested).attrs["then_branch"].ops[-1]
    assert names(captured_variables(inner)) == ["t", "z", "w", "a"]
    loop = condition(nested).attrs["else_branch"].ops[0]
    assert names(captured_variables(loop)) == ["z"]


def test_what_a_body_defines_is_no_captured_value_of_its_operator(nested):
    assert names(captured_variables(condition(nested))) == ["a", "d", "z", "w", "n", "x"]


def test_a_captured_value_that_a_body_only_returns_counts():
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[2] x, bool c) => (float[2] y) {
        y = If (c) < then_branch = t () => (x) {}, else_branch = e () => (float[2] v) { v = Neg (x) } > }"""
    branches = paddle.from_onnx(onnx.parser.parse_model(text)).global_block().ops[0]
    del branches.attrs["else_branch"]
    assert names(captured_variables(branches)) == ["x"]


# What a result needs -------------------------------------------------------------------------------------------------


def test_only_what_a_result_depends_on_is_needed(chain):
    block, _, _, _, b, c, d = chain
    assert types(needed_operators(block.ops, [b])) == ["Neg", "Exp"]
    assert types(needed_operators(block.ops, [c])) == ["Neg", "Mul"]
    assert types(needed_operators(block.ops, [d, None])) == ["Neg", "Exp", "Add"]
    assert types(needed_operators(block.ops, [d, c])) == ["Neg", "Exp", "Mul", "Add"]
    assert needed_operators(block.ops, [None]) == []


def test_an_input_needs_no_operator(chain):
    block, x, z, *_ = chain
    assert needed_operators(block.ops, [x, z]) == []


def test_what_is_known_need_not_be_computed(chain):
    block, _, _, a, b, _, d = chain
    assert types(needed_operators(block.ops, [d], known={b})) == ["Neg", "Add"]
    assert types(needed_operators(block.ops, [d], known={a})) == ["Exp", "Add"]
    assert types(needed_operators(block.ops, [d], known={a, b})) == ["Add"]


def test_one_wanted_output_of_several_is_enough():
    block = Program().global_block()
    _, second = block.build.Split(block.create_var("x", [4]), num_outputs=2, axis=0, outputs=2)
    assert types(needed_operators(block.ops, [second])) == ["Split"]


def test_what_a_body_reads_is_needed(nested):
    ops = nested.global_block().ops
    assert types(needed_operators(ops, nested.outputs)) == ["Neg", "If"]


def test_operators_depend_on_what_they_and_their_bodies_read(chain, nested):
    block, x, z, _, b, *_ = chain
    assert types(dependent_operators(block.ops, [z])) == ["Mul"]
    assert types(dependent_operators(block.ops, [b])) == ["Add"]
    assert types(dependent_operators(block.ops, [x])) == ["Neg", "Exp", "Mul", "Add"]
    assert dependent_operators(block.ops, []) == []
    assert types(dependent_operators(nested.global_block().ops, [nested.find("z")])) == ["If"]


# Other variables -----------------------------------------------------------------------------------------------------


def test_operators_read_what_is_substituted(chain):
    block, x, z, a, *_ = chain
    substitute(block.ops[1:], {a: z, x: z})
    assert [names(op.inputs) for op in block.ops] == [["x"], ["z"], ["z", "z"], ["z", block.ops[1].outputs[0].name]]


def test_an_absent_operand_stays_absent():
    block = Program().global_block()
    x, y = block.create_var("x", [2]), block.create_var("y", [2])
    block.build.Clip(x, None, 1.0)
    substitute(block.ops, {x: y})
    first, least, _ = block.ops[0].inputs
    assert first is y and least is None


def test_bodies_read_what_is_substituted_and_return_it(nested):
    a, x, z, v = (nested.find(name) for name in ("a", "x", "z", "v"))
    substitute([condition(nested)], {a: x, v: z})
    assert names(captured_variables(condition(nested))) == ["x", "d", "z", "w", "n"]
    assert names(condition(nested).attrs["then_branch"].ops[-1].attrs["then_branch"].outputs) == ["z"]


# Copies --------------------------------------------------------------------------------------------------------------


def test_copies_read_each_other_and_are_not_appended(chain):
    block, x, z, a, b, _, d = chain
    mapping = {x: z}
    copies = copy_operators([op for op in block.ops if op.type != "Mul"], mapping, block, lambda v: f"{v.name}/copy")
    assert types(copies) == ["Neg", "Exp", "Add"] and len(block.ops) == 4
    assert [names(op.inputs) for op in copies] == [["z"], [f"{a.name}/copy"], [f"{a.name}/copy", f"{b.name}/copy"]]
    assert names(mapping[v] for v in (a, b, d)) == names(op.outputs[0] for op in copies)
    assert all(mapping[v].op is op and mapping[v].type == v.type for v, op in zip((a, b, d), copies, strict=True))
    assert names(block.ops[0].inputs) == ["x"]


def test_a_copy_has_attributes_of_its_own():
    block = Program().global_block()
    block.build.ReduceSum(block.create_var("x", [2, 3]), axes=[1], keepdims=0)
    (copy,) = copy_operators(block.ops, {}, block, lambda v: "copy")
    copy.attrs["keepdims"] = 1
    assert block.ops[0].attrs == {"keepdims": 0}


def test_absent_outputs_are_absent_in_the_copy():
    block = Program().global_block()
    block.build.TopK(block.create_var("x", [4]), [2], outputs=["", "index"])
    block.ops[0].outputs[0] = None
    (copy,) = copy_operators(block.ops, {}, block, lambda v: "copy")
    assert copy.outputs[0] is None and copy.outputs[1].name == "copy"


def test_copied_bodies_read_the_copies_of_what_they_captured(nested):
    block = nested.global_block()
    x, z = nested.find("x"), nested.find("z")
    _, copy = copy_operators(block.ops, {x: z}, block, lambda v: f"{v.name}/copy")
    assert names(captured_variables(copy)) == ["a/copy", "d", "z", "w", "n"]
    assert names(captured_variables(condition(nested))) == ["a", "d", "z", "w", "n", "x"]
    assert types(all_operators_of(copy.attrs["then_branch"])) == ["Reshape", "If", "Mul", "Add", "Exp"]
    assert copy.attrs["then_branch"].ops[-1].attrs["then_branch"].parent is copy.attrs["then_branch"]


def test_a_copied_body_has_inputs_constants_and_outputs_of_its_own(nested):
    program, home = nested, nested.global_block()
    step = nested.find("k").block
    mapping = {}
    copy = copy_block(step, mapping, home, lambda v: f"{v.name}/copy")
    assert program.blocks[-1] is copy and copy.parent is home
    assert names(copy.inputs) == ["i/copy", "going/copy", "h/copy"] and names(copy.outputs) == ["on/copy", "k/copy"]
    assert set(copy.vars) == {*names(copy.inputs), *names(copy.outputs)}
    outer = copy_block(nested.find("t").block, mapping, home, lambda v: f"{v.name}/again")
    (one,) = outer.initializers
    assert one.name == "one/again" and one.value is nested.find("one").value and outer.ops[0].inputs[1] is one
    assert names(step.inputs) == ["i", "going", "h"] and names(step.outputs) == ["on", "k"]


def test_a_constant_that_something_stands_for_is_not_copied(nested):
    outer, n = nested.find("t").block, nested.find("n")
    copy = copy_block(outer, {nested.find("one"): n}, nested.global_block(), lambda v: f"{v.name}/copy")
    assert copy.initializers == [] and names(copy.ops[0].inputs) == ["a", "n"]


def test_a_weight_that_a_body_defines_is_shared_with_its_copy():
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <
            then_branch = t () => (float[2] u) { w = Constant <value = float[2] {1, 2}> ()  u = Mul (x, w) },
            else_branch = e () => (float[2] v) { v = Neg (x) }
        > }"""
    program = paddle.from_onnx(onnx.parser.parse_model(text))
    w, block = program.find("w"), program.global_block()
    (copy,) = copy_operators(block.ops, mapping := {}, block, lambda v: f"{v.name}/copy")
    assert w.persistable and w not in mapping
    (product,) = copy.attrs["then_branch"].ops
    assert product.type == "Mul" and product.inputs[1] is w


def test_what_is_known_of_a_value_is_known_of_its_copy():
    block = Program().global_block()
    shape = block.build.Shape(block.create_var("x", [2, 3]))
    shape.stop_gradient = False
    copy_operators(block.ops, mapping := {}, block, lambda v: "copy")
    assert mapping[shape].entries == (2, 3) and mapping[shape].stop_gradient is False


def test_a_copy_keeps_all_that_an_operator_says_of_itself():
    """Each field but those that name other operators, results and attributes, which the copier makes."""
    program = paddle.Program()
    with paddle.static.program_guard(program):
        y = paddle.exp(paddle.static.data("x", [3], "float32"))
    op = y.op
    said = set(Operator.__slots__) - {"attrs", "block", "expansion", "inputs", "outputs", "replaces"}
    values = {"declared_outputs": 1, "domain": "", "loaded": True, "role": Role.BACKWARD, "origin": Origin("Exp", "a piece")}
    for name, value in {**{name: f"a {name}" for name in said - {"type"}}, **values}.items():
        setattr(op, name, value)
    (copy,) = copy_operators([op], {}, program.global_block(), lambda v: f"{v.name}/copy")
    assert {name: getattr(copy, name) for name in said} == {name: getattr(op, name) for name in said}


def test_a_constant_of_a_body_is_not_captured_where_a_body_inside_reads_it():
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] u) <float[1] two = {2.0}> {
            u = If (c) <then_branch = s () => (float[2] v) { v = Mul (x, two) }, else_branch = r () => (float[2] q) { q = Neg (x) }>
        }, else_branch = e () => (float[2] z) { z = Neg (x) }> }"""
    outer = paddle.from_onnx(onnx.parser.parse_model(text)).global_block().ops[0]
    (inner,) = outer.attrs["then_branch"].ops
    assert names(captured_variables(outer)) == ["c", "x"]
    assert names(captured_variables(inner)) == ["x", "two"]


# Readers -------------------------------------------------------------------------------------------------------------


def test_readers_stand_with_the_index_of_the_input_once_for_each():
    block = Program().global_block()
    x, z = block.create_var("x", [2]), block.create_var("z", [2])
    a = block.build.Mul(x, x)
    block.build.Add(z, a)
    mul, add = block.ops
    assert readers_in(block.ops) == {x: [(mul, 0), (mul, 1)], z: [(add, 0)], a: [(add, 1)]}
    assert readers_in([add])[x] == []

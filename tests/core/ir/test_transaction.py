"""Changes of programs happen as a whole or not at all, and what a caller holds stays a part of the program."""

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
from onnxgrad.core.ir.operator import Expansion, Role
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.transaction import Snapshot, all_or_nothing, transaction

TEXT = """<ir_version: 9, opset_import: ["": 18, "own": 1]>
g (float[N, 2] x, bool c) => (float[N, 2] y) <float[2] w = {1, 2}, int64[2] s = {1, 2}> {
    a = Mul (x, w)
    b = own.twice <factor = 3.0> (a)
    t = Transpose <perm = [0, 1]> (b)
    y = If (c) <
        then_branch = then () => (float[N, 2] u) { u = Neg (t) },
        else_branch = other () => (float[N, 2] v) { e = Exp (t)  v = Abs (e) }
    >
}
<domain: "own", opset_import: ["": 18]>
twice <factor: float = 2.0> (p) => (q) { k = Constant <value_float: float = @factor> ()  q = Mul (p, k) }
"""


class Stop(Exception):
    """Ends a transaction."""


@pytest.fixture
def program():
    return paddle.from_onnx(onnx.parser.parse_model(TEXT))


@pytest.fixture
def block(program):
    return program.global_block()


def function_of(program):
    (function,) = program.functions.values()
    return function


def described(program):
    """All that a reader can tell of a program."""
    return [
        str(program),
        [(v.name, repr(v), v.stop_gradient, v.persistable, v.entries, v.doc) for v in program.list_vars()],
        [[op.to_string() for op in block.ops] for block in program.blocks],
        [[v.name for v in (*b.inputs, *b.outputs, *b.initializers)] for b in program.blocks],
        [p.name for p in program.parameters],
        [(p.trainable, dict(p.optimize_attr)) for p in program.parameters],
        [(k.name, v.name) for k, v in program.updates.items()],
        [*program.opset_imports, *sorted(program.names.items()), *sorted(program.metadata.items())],
        [(f.input_names.copy(), f.attribute_names.copy(), f.attribute_defaults.copy()) for f in program.functions.values()],
        [(str(f.body.program), f.body.program.opset_version()) for f in program.functions.values()],
        (program.doc, program.version, program.random_seed, sorted(program.gradient_names)),
    ]


def append_operators(program):
    program.global_block().build.Exp(program.find("x"), outputs=[program.fresh_name("exp")])


def remove_operators(program):
    del program.global_block().ops[1:]


def reorder_operators(program):
    program.global_block().ops.reverse()


def replace_the_list_of_operators(program):
    program.global_block().ops = program.global_block().ops[:1]


def rename_a_variable(program):
    program.find("a").name = "renamed"


def change_a_type(program):
    program.find("x").type = program.find("c").type


def change_an_operand(program):
    program.global_block().ops[0].inputs[0] = program.find("w")


def change_a_result(program):
    program.global_block().ops[0].outputs[0] = program.find("b")


def change_an_operator(program):
    program.global_block().ops[0].type = "Add"
    program.global_block().ops[0].role = Role.BACKWARD


def change_an_attribute(program):
    program.global_block().ops[2].attrs["perm"] = [1, 0]


def add_an_attribute(program):
    program.global_block().ops[0].attrs["axis"] = 1


def change_a_body(program):
    other = program.global_block().ops[-1].attrs["else_branch"]
    other.ops[0].type = "Log"
    other.outputs[0] = program.find("e")


def add_a_body(program):
    program.new_block(program.global_block(), "new")


def add_a_weight(program):
    program.global_block().create_parameter("more", [2], value=TensorValue.of([1.0, 2.0]))


def add_a_constant(program):
    program.constant(np.array([7.0]))


def freeze_a_weight(program):
    program.parameters[0].trainable = False
    program.parameters[0].optimize_attr["learning_rate"] = 0.5
    program.parameters[0].stop_gradient = True


def set_the_opset(program):
    program.set_opset_version(21)


def import_another_domain(program):
    program.opset_imports.append(("com.acme", 2))


def replace_a_state(program):
    program.updates[program.parameters[0]] = program.find("a")


def use_up_names(program):
    program.fresh_name("a")
    program.gradient_names.add("a@GRAD")


def change_what_it_says_of_itself(program):
    program.doc, program.random_seed = "another", 7
    program.metadata["k"] = "v"


def change_inputs_and_outputs(program):
    block = program.global_block()
    block.inputs.pop()
    block.outputs.append(program.find("a"))
    block.initializers.clear()


def change_a_function(program):
    function = function_of(program)
    function.input_names.append("z")
    function.attribute_defaults["factor"] = 9.0
    function.body.ops[1].type = "Add"
    function.body.program.set_opset_version(21)


def remove_the_function(program):
    program.functions.clear()


CHANGES = [
    append_operators,
    remove_operators,
    reorder_operators,
    replace_the_list_of_operators,
    rename_a_variable,
    change_a_type,
    change_an_operand,
    change_a_result,
    change_an_operator,
    change_an_attribute,
    add_an_attribute,
    change_a_body,
    add_a_body,
    add_a_weight,
    add_a_constant,
    freeze_a_weight,
    set_the_opset,
    import_another_domain,
    replace_a_state,
    use_up_names,
    change_what_it_says_of_itself,
    change_inputs_and_outputs,
    change_a_function,
    remove_the_function,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_exception_puts_everything_back(program, change):
    before = described(program)
    with pytest.raises(Stop), transaction(program):
        change(program)
        assert described(program) != before
        raise Stop
    assert described(program) == before


def test_all_changes_together_are_put_back(program):
    before = described(program)
    with pytest.raises(Stop), transaction(program):
        for change in (rename_a_variable, set_the_opset, change_a_body, freeze_a_weight, add_a_weight, remove_operators):
            change(program)
        raise Stop
    assert described(program) == before


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_succeeds_stays(program, change):
    other = paddle.from_onnx(onnx.parser.parse_model(TEXT))
    with transaction(program):
        change(program)
    change(other)
    assert described(program) == described(other)


def test_an_interruption_puts_everything_back(program):
    before = described(program)
    with pytest.raises(KeyboardInterrupt), transaction(program):
        append_operators(program)
        raise KeyboardInterrupt
    assert described(program) == before


def test_what_a_caller_holds_stays_the_programs(program, block):
    x, op, body = program.find("x"), block.ops[0], block.ops[-1].attrs["then_branch"]
    with pytest.raises(Stop), transaction(program):
        x.name = "renamed"
        block.ops, block.vars, program.parameters, program.blocks = [], {}, [], [block]
        raise Stop
    assert program.find("x") is x and block.ops[0] is op and op.inputs[0] is x
    assert program.blocks[1] is body and program.parameters[0] is program.find("w")
    assert block.build.Neg(x).op is block.ops[-1]


def test_functions_still_find_each_other(program):
    with pytest.raises(Stop), transaction(program):
        change_a_function(program)
        raise Stop
    assert function_of(program).body.program.functions == program.functions


def test_an_expansion_is_put_back(program, block):
    neg = block.build.Neg(program.find("x"))
    expansion = block.ops[0].expansion = Expansion([neg.op], [neg], always=False)
    with pytest.raises(Stop), transaction(program):
        expansion.operators.clear()
        expansion.outputs[0], expansion.always = None, True
        raise Stop
    assert expansion.operators == [neg.op] and expansion.outputs[0] is neg and not expansion.always


def test_a_transaction_can_follow_on_one_that_failed(program):
    for _ in range(2):
        before = described(program)
        with pytest.raises(Stop), transaction(program):
            append_operators(program)
            raise Stop
        assert described(program) == before
        with transaction(program):
            append_operators(program)
    assert [op.type for op in program.global_block().ops[-2:]] == ["Exp", "Exp"]


def test_what_an_inner_transaction_did_goes_with_the_outer_one(program):
    before = described(program)
    with pytest.raises(Stop), transaction(program):
        with transaction(program):
            append_operators(program)
        assert program.in_transaction
        raise Stop
    assert described(program) == before and not program.in_transaction


def test_an_inner_transaction_is_a_part_of_the_outer_one(program, block):
    with transaction(program):
        with pytest.raises(Stop), transaction(program):
            append_operators(program)
            raise Stop
        remove_operators(program)
    assert [op.type for op in block.ops] == ["Mul"] and not program.in_transaction


def test_an_inner_transaction_of_another_program_is_its_own(program):
    other = paddle.from_onnx(onnx.parser.parse_model(TEXT))
    before = described(other)
    with transaction(program):
        with pytest.raises(Stop), transaction(program, other):
            append_operators(program)
            append_operators(other)
            raise Stop
        assert program.in_transaction and not other.in_transaction
    assert described(other) == before
    assert program.global_block().ops[-1].type == "Exp"


def test_objects_are_put_back_with_the_program(program):
    class Optimizer:
        def __init__(self):
            self.slots, self.steps, self.in_transaction = {"w": [1]}, 0, False

    optimizer = Optimizer()
    with pytest.raises(Stop), transaction(program, optimizer):
        append_operators(program)
        optimizer.slots["b"], optimizer.steps, optimizer.extra = 2, 5, "new"
        raise Stop
    assert vars(optimizer) == {"slots": {"w": [1]}, "steps": 0, "in_transaction": False}


def test_a_snapshot_can_be_restored_more_than_once(program):
    before, snapshot = described(program), Snapshot(program)
    for change in (append_operators, set_the_opset, use_up_names, change_an_attribute):
        change(program)
        snapshot.restore()
        assert described(program) == before


@pytest.mark.parametrize("call", [lambda f, p: f(p, 1), lambda f, p: f(program=p, count=1)], ids=["position", "keyword"])
def test_a_function_that_fails_leaves_the_programs_it_was_given(program, call):
    @all_or_nothing
    def grow(program, count):
        """Grows."""
        append_operators(program)
        if count:
            raise Stop
        return "grown"

    before = described(program)
    with pytest.raises(Stop):
        call(grow, program)
    assert described(program) == before
    assert grow(program, 0) == "grown" and described(program) != before
    assert (grow.__name__, grow.__doc__) == ("grow", "Grows.")

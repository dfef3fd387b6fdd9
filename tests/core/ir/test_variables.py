"""Variables in sets and dicts."""

from onnxgrad import static
from onnxgrad.core.ir.program import Program


def test_sets_and_dicts_of_variables_append_no_operator():
    program = Program()
    with static.program_guard(program):
        x = static.data("x", [2])
        variables = [x + 1.0 for _ in range(2000)]
    before = len(program.global_block().ops)
    held = set(variables[::2])
    positions = {v: i for i, v in enumerate(variables)}
    assert [v in held for v in variables] == [i % 2 == 0 for i in range(2000)]
    assert [positions[v] for v in variables] == list(range(2000))
    assert held & set(variables[1::2]) == set()
    assert len(program.global_block().ops) == before


def test_equality_of_variables_appends_an_operator():
    program = Program()
    with static.program_guard(program):
        x = static.data("x", [2])
        y = x == x
    assert y.op.type == "Equal"

"""Variables in sets and dicts."""

import pickle

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError, UnknownName
from onnxgrad.tensor import methods


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


@pytest.fixture
def doubled():
    program = Program()
    with static.program_guard(program):
        x = static.data("x", [2], "float32")
        y = x * 2.0
        return program, x, y, y + 1.0


class TestOutputs:
    def test_are_set_by_names_and_variables(self, doubled):
        program, _, y, z = doubled
        before = len(program.global_block().ops)
        for items, names in [
            (y, [y.name]),
            (z.name, [z.name]),
            ([z, y.name], [z.name, y.name]),
            ((v for v in [y]), [y.name]),
            ([], []),
        ]:
            program.outputs = items
            assert [v.name for v in program.outputs] == names
        assert len(program.global_block().ops) == before

    def test_are_what_is_written_and_run(self, doubled):
        program, _, y, z = doubled
        program.outputs = [z, y]
        assert [v.name for v in to_onnx(program).graph.output] == [z.name, y.name]
        program.outputs = y
        assert [v.name for v in to_onnx(program).graph.output] == [y.name]
        (value,) = Executor().run(program, {"x": np.array([1, 2], np.float32)}, program.outputs)
        np.testing.assert_array_equal(value, [2, 4])

    def test_are_refused_by_name_and_then_as_they_were(self, doubled):
        program, _, y, _ = doubled
        program.outputs = y
        other = Program()
        with static.program_guard(other):
            foreign = static.data("theirs", [2], "float32")
        for items, error, text in [
            (foreign, UnknownName, "'theirs'"),
            ([y, "nowhere"], UnknownName, "'nowhere'"),
            ([y, y.name], ArgumentError, f"{y.name!r} is named twice"),
            ([y, None], ArgumentTypeError, "NoneType"),
            (3, ArgumentTypeError, "int"),
        ]:
            with pytest.raises(error, match=text):
                program.outputs = items
            assert [v.name for v in program.outputs] == [y.name]


def test_an_element_type_is_itself_after_pickling():
    assert pickle.loads(pickle.dumps(dtype_of("float32"))) is dtype_of("float32")


def test_a_method_that_was_not_used_yet_is_the_one_that_super_names(monkeypatch):
    class Own(paddle.Tensor):
        calls = 0

        def square(self):
            self.calls += 1
            return super().square()

    own = Own([3.0])
    monkeypatch.setattr(Variable, "square", methods._Method("square"))
    assert own.square().item() == 9.0 and own.calls == 1
    monkeypatch.setattr(Variable, "square", methods._Method("square"))
    assert paddle.Tensor.square is paddle.square and own.square().item() == 9.0

"""A copy keeps all that the original says of itself: a slot that somebody adds is copied, or named here as what a copy has of its own."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.origin import Origin
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.dtypes import dtype_of

OF_ITS_OWN = {
    # Where it lies, and what is copied one by one or belongs to a pair of operators.
    Operator: {"block", "inputs", "outputs", "attrs", "expansion", "replaces"},
    Variable: {"block", "_name", "op", "__weakref__"},
    Parameter: {"block", "_name", "op", "__weakref__"},
}


def slots(cls):
    return {name for base in cls.__mro__ for name in getattr(base, "__slots__", ())} - OF_ITS_OWN[cls]


def marked(thing, cls):
    """Set each slot to something that no new object has."""
    values = {
        "type": TensorType(dtype_of("float64"), (7,)) if cls is not Operator else "Relu",
        "value": TensorValue.of(np.ones(7)),
        "entries": (1, 2),
        "optimize_attr": {"learning_rate": 0.25},
        "domain": "some.domain",
        "role": Role.BACKWARD,
        "origin": Origin("Relu", "mask", None),
        "mode": "trained",
        "reduction": "sum",
        "declared_outputs": 3,
        "attr_info": {"alpha": (1, "")},
        "metadata": {"key": "value"},
    }
    for name in slots(cls):
        before = getattr(thing, name)
        new = values.get(name, f"some {name}" if isinstance(before, str) else not before)
        assert new != before, name
        setattr(thing, name, new)
    return thing


@pytest.mark.parametrize("cls", [Variable, Parameter])
def test_every_slot_of_a_variable_is_copied(cls):
    block = Program().global_block()
    v = marked(Parameter(block, "v", None) if cls is Parameter else Variable(block, "v"), cls)
    copy = v.blank_copy(block, "copy")
    assert type(copy) is cls
    assert {name: getattr(copy, name) for name in slots(cls)} == {name: getattr(v, name) for name in slots(cls)}
    assert (copy.name, copy.op, copy.block) == ("copy", None, block)


def test_every_slot_of_an_operator_is_copied():
    block = Program().global_block()
    op = marked(Operator(block, "Abs", [], []), Operator)
    copy = op.blank_copy(block, [])
    assert {name: getattr(copy, name) for name in slots(Operator)} == {name: getattr(op, name) for name in slots(Operator)}


def test_a_copied_weight_has_a_learning_rate_of_its_own():
    program = static.Program()
    with static.program_guard(program, static.Program()):
        w = static.create_parameter([2], "float32", name="w")
    twin = program.clone().find("w")
    twin.optimize_attr["learning_rate"] = 3.0
    assert w.optimize_attr["learning_rate"] == 1.0


def test_a_recomputed_copy_keeps_what_is_said_of_its_values():
    program = static.Program()
    with static.program_guard(program):
        y = paddle.exp(static.data("x", [2]))
    y.metadata, y.doc = {"onnxgrad.note": "kept"}, "a note"
    (copy,) = copy_operators(program.global_block().ops, mapping := {}, program.global_block(), lambda v: f"{v.name}/copy")
    assert copy.outputs[0] is mapping[y]
    assert (mapping[y].metadata, mapping[y].doc, mapping[y].op) == (y.metadata, "a note", copy)

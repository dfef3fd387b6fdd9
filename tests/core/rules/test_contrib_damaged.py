"""Damaged operators of com.microsoft are refused by name, or worked with."""

import pytest
from onnx import AttributeProto, ModelProto, helper

import onnxgrad as og
from onnxgrad.core.ir.contrib_schemas import contrib_schema
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.errors import ModelError, OnnxGradError, UnsupportedGradient
from tests.core.rules import test_contrib, test_contrib_forms, test_contrib_quantized

MS = "com.microsoft"
MODULES = (test_contrib, test_contrib_forms, test_contrib_quantized)
CASES = {f"{module.__name__.rpartition('.')[2][5:]}/{case}": (module, case) for module in MODULES for case in module.CASES}
_OTHER = ("x", 3, 2.5, [1, 2], [0.5], ["a"])


def damaged(model):
    """Copies of a model, each with one thing changed in its last node of onnxruntime, and what that is"""
    at = max(
        i for i, node in enumerate(model.graph.node) if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.domain
    )
    node = model.graph.node[at]

    def copy():
        changed = ModelProto.FromString(model.SerializeToString())
        return changed, changed.graph.node[at]

    for names in ("input", "output"):
        for i in range(len(getattr(node, names))):
            changed, other = copy()
            del getattr(other, names)[i]
            yield f"{names} {i} gone", changed
            changed, other = copy()
            getattr(other, names)[i] = ""
            yield f"{names} {i} empty", changed
        changed, other = copy()
        getattr(other, names).extend(node.input[:1] if names == "input" else ["one_more"])
        yield f"one {names} more", changed
        changed, other = copy()
        del getattr(other, names)[:]
        yield f"no {names}", changed
    for i, attribute in enumerate(node.attribute):
        changed, other = copy()
        del other.attribute[i]
        yield f"{attribute.name} gone", changed
        for value in _OTHER:
            written = helper.make_attribute(attribute.name, value)
            if written.type != attribute.type:
                changed, other = copy()
                other.attribute[i].CopyFrom(written)
                yield f"{attribute.name} is {AttributeProto.AttributeType.Name(written.type)}", changed
        if attribute.type in (AttributeProto.INT, AttributeProto.INTS):
            for value in (0, -1, 7, 2**40):
                changed, other = copy()
                other.attribute[i].CopyFrom(helper.make_attribute(attribute.name, value if attribute.type == 2 else [value]))
                yield f"{attribute.name} is {value}", changed
        if attribute.type == AttributeProto.STRING:
            changed, other = copy()
            other.attribute[i].s = b"\xff\xfe"
            yield f"{attribute.name} is no text", changed


def attempt(model):
    """What a user does with a file: load, write out, differentiate, export. Returns the errors that are not ours."""

    def gradients():
        program = og.from_onnx(model)
        for v in program.inputs:
            v.stop_gradient = False
        targets = [v for v in program.outputs if v.is_float]
        if targets and program.inputs:
            og.to_onnx(program, [g for g in og.gradients(targets, list(program.inputs)) if g is not None] or None)

    untyped = []
    for action in (gradients, lambda: og.from_onnx(model, expand=MS), lambda: str(og.explain(og.from_onnx(model)))):
        try:
            action()
        except OnnxGradError:
            pass
        except Exception as error:
            untyped.append(error)
    return untyped


@pytest.mark.damaged
@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", CASES)
def test_damaged_operators_of_onnxruntime_are_refused_or_worked_with(case):
    module, name = CASES[case]
    found = {what: attempt(changed) for what, changed in damaged(module.model_of(name)[0])}
    assert {what: errors for what, errors in found.items() if errors} == {}


UNNEEDED = {"QLinearReduceMean": {"keepdims"}}
"""Attributes that onnxruntime declares as required, and without which it runs files."""


def test_every_expansion_has_a_schema_that_onnxruntime_has_too():
    written = {name for (domain, name), entries in TABLE.items() if domain == MS and entries[0].state == "expands"}
    assert written == {name for name in written if contrib_schema(name, MS, None) is not None}
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    if not hasattr(state, "get_all_operator_schema"):
        pytest.skip("this onnxruntime does not show its schemas")
    schemas = {(schema.domain, schema.name): schema for schema in reversed(state.get_all_operator_schema())}
    compared = 0
    for name in sorted(written):
        ours = contrib_schema(name, MS, None)
        theirs = schemas.get((MS, name)) or schemas.get(("", name))
        if theirs is None:
            continue
        compared += 1
        for own, other in ((ours.inputs, theirs.inputs), (ours.outputs, theirs.outputs)):
            assert [(p.name, p.optional, p.variadic) for p in own] == [
                (p.name, "Optional" in str(p.option), "Variadic" in str(p.option)) for p in other[: len(own)]
            ]
        demanded = {key for key, a in theirs.attributes.items() if a.required}
        assert set(ours.required) == demanded - UNNEEDED.get(name, set())
        for attribute, kind in ours.attributes.items():
            assert AttributeProto.AttributeType.Name(kind) == str(theirs.attributes[attribute].type).rpartition(".")[2]
    assert compared >= 45


def newer(**attributes):
    """A Gelu of an onnxruntime to come"""
    node = helper.make_node("Gelu", ["x", "scale"] if not attributes else ["x"], ["y"], domain=MS, **attributes)
    inputs = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in node.input]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, [2, 3])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)], ir_version=10)


@pytest.mark.parametrize(
    ("model", "what"), [(newer(sharpness=2.0), "'sharpness'"), (newer(), "more operands than 1")], ids=["attribute", "operand"]
)
def test_what_a_newer_onnxruntime_may_know_is_read_and_not_differentiated(model, what):
    program = og.from_onnx(model)
    assert og.to_onnx(program).graph.node[0] == model.graph.node[0]
    program.inputs[0].stop_gradient = False
    with pytest.raises(UnsupportedGradient, match=what):
        og.gradients(program.outputs, program.inputs[:1])
    with pytest.raises(ModelError, match=what):
        og.from_onnx(model, expand=MS)


def test_a_function_of_the_model_stands_before_the_schema():
    model = newer(sharpness=2.0)
    model.graph.node[0].input.append("x")
    body = [helper.make_node("Mul", ["a", "b"], ["c"])]
    model.functions.append(helper.make_function(MS, "Gelu", ["a", "b"], ["c"], body, [helper.make_opsetid("", 21)], ["sharpness"]))
    assert og.from_onnx(model).functions

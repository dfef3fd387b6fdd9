"""Damaged operators of com.microsoft are refused by name, or worked with."""

from collections import Counter

import pytest
from onnx import AttributeProto, ModelProto, helper

import onnxgrad as og
from onnxgrad.errors import OnnxGradError
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


COUNTS = Counter()


@pytest.mark.damaged
@pytest.mark.parametrize("case", CASES)
def test_damaged_operators_of_onnxruntime_are_refused_or_worked_with(case):
    module, name = CASES[case]
    found = {what: attempt(changed) for what, changed in damaged(module.model_of(name)[0])}
    COUNTS.update(tried=len(found), untyped=sum(map(bool, found.values())))
    assert {what: errors for what, errors in found.items() if errors} == {}


def test_it_tries_more_than_a_thousand():
    assert sum(len(list(damaged(module.model_of(name)[0]))) for module, name in CASES.values()) > 3000

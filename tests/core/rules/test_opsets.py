"""Every sample in every older and newer form of its operator: the same gradient comes back.

A sample is expressible in another opset when the operator exists there, can be written with the same operands (an operand that
was an attribute becomes one) and computes the same forward. Forms that meant something else (Softmax before 13) are lifted too;
tests/passes/test_lift.py compares those with onnxruntime.
"""

import functools

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.opset import NEWEST, find_schema
from onnxgrad.testing import Sample, _Case
from tests.core.rules.samples import gradients_as_model, thoroughly, values_of
from tests.core.rules.test_gradients import SAMPLES

pytestmark = pytest.mark.oracle

# onnx.reference evaluates these in old opsets as if they meant what they mean today.
CHANGED_MEANING = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), 13),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Gemm", "Max", "Min", "Sum", "Mean"), 8),
    "BatchNormalization": 14,
    "Dropout": 12,
    "GroupNormalization": 21,
    "Resize": 11,
    "Tile": 6,
}


@functools.cache
def versions(op_type):
    """Opsets up to the newest that changed an operator."""
    found = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op_type and s.domain == ""]
    return sorted(v for v in set(found) if v <= NEWEST)


def node_in(sample, opset):
    """(node, inputs by name) of a sample in an opset, or None where it cannot be written."""
    today, then = find_schema(sample.op_type, "", sample.opset), find_schema(sample.op_type, "", opset)
    if then is None or opset < CHANGED_MEANING.get(sample.op_type, 0) or sample.outputs > len(then.outputs) > 0:
        return None
    attrs = {**{k: v for k, v in today.defaults.items() if then.defaults.get(k, v) != v}, **sample.attrs}
    names, feeds = [], {}
    for i, item in enumerate(sample.inputs):
        slot = today.input_at(i)
        if item is not None and slot.name in then.attributes and slot.name not in today.attributes:
            if is_differentiated(item):
                return None
            array = np.asarray(item.array if isinstance(item, Sample.fixed) else item)
            if array.size == 0:
                return None
            attrs[slot.name] = array.tolist() if array.ndim == 0 or slot.name != "k" else int(array.item())
            item = None
        names.append("" if item is None else f"x{i}")
        if item is not None:
            feeds[f"x{i}"] = np.asarray(item.array if isinstance(item, Sample.fixed) else item)
    while names and not names[-1]:
        names.pop()
    too_many = len(names) > len(then.inputs) and not (then.inputs and then.inputs[-1].variadic)
    if too_many or any(name not in then.attributes for name in attrs):
        return None
    return helper.make_node(sample.op_type, names, [f"y{i}" for i in range(sample.outputs)], **attrs), feeds


def is_differentiated(item):
    return item is not None and not isinstance(item, Sample.fixed) and np.asarray(item).dtype.kind == "f"


def model_in(sample, opset, types):
    """A model of the sample in an opset: differentiated operands are inputs, the others initializers."""
    written = node_in(sample, opset)
    if written is None:
        return None
    node, feeds = written
    live = [f"x{i}" for i, item in enumerate(sample.inputs) if is_differentiated(item)]
    held = [numpy_helper.from_array(array, name) for name, array in feeds.items() if name not in live]
    infos = [helper.make_tensor_value_info(name, 11, feeds[name].shape) for name in live]
    outputs = [helper.make_tensor_value_info(name, *type) for name, type in zip(node.output, types, strict=False)]
    graph = helper.make_graph([node], "g", infos, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset <= 21 else 13)


def same(found, expected):
    return len(found) == len(expected) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True) for a, b in zip(found, expected, strict=True)
    )


def feeds_of(sample):
    return {f"x{i}": np.asarray(item) for i, item in enumerate(sample.inputs) if is_differentiated(item)}


def forward_of(sample):
    """Outputs of a sample, and their types, as it stands"""
    case = _Case(sample, "float64")
    found = values_of(sample, to_onnx(case.program, case.all_outputs), case.feeds)
    return found, [(v.dtype.number, array.shape) for v, array in zip(case.all_outputs, found, strict=True)]


# onnx.reference gives their older forms the meaning of these opsets.
READ_AS_NEWER = {"RoiAlign": 16, "Attention": 24}


def expressible(sample):
    """(opset, model) of every form that computes what the sample does."""
    if sample.build is not None or sample.domain:
        return
    forward, types = forward_of(sample)
    for opset in versions(sample.op_type):
        then = find_schema(sample.op_type, "", opset)
        if opset < READ_AS_NEWER.get(sample.op_type, 0):
            continue
        if then is None or then.since == find_schema(sample.op_type, "", sample.opset).since:
            continue
        model = model_in(sample, opset, types)
        if model is None:
            continue
        try:
            onnx.checker.check_model(model, full_check=True)
            found = values_of(sample, model, feeds_of(sample))
        except Exception:
            continue
        if same(found, forward):
            yield opset, model


def gradients_of(model, sample):
    """As testing.gradient_model does, of an imported model"""
    _, feeds = gradients_as_model(sample, "float64")
    program = from_onnx(model)
    block = program.global_block()
    sources = [v for v in block.inputs if v.value is None]
    for v in sources:
        v.stop_gradient = False
    chosen = range(len(block.outputs)) if sample.only is None else sample.only
    targets = [block.outputs[i] for i in chosen if block.outputs[i].is_float]
    seeds = []
    for i, _ in enumerate(targets):
        seed = program.global_block().build.constant(feeds[f"c{i}"])
        seeds.append(seed)
    found = [g for g in gradients(targets, sources, seeds) if g is not None]
    return values_of(sample, to_onnx(program, found), feeds)


@pytest.mark.parametrize("sample", thoroughly(s for s in SAMPLES if s.build is None and not s.domain))
def test_other_opsets_give_the_same_gradient(sample):
    model, feeds = gradients_as_model(sample, "float64")
    expected = values_of(sample, model, feeds)
    for opset, older in expressible(sample):
        found = gradients_of(older, sample)
        assert same(found, expected), f"opset {opset}: {found} instead of {expected}"


@pytest.mark.exhaustive
def test_most_samples_have_older_forms():
    counted = [sum(1 for _ in expressible(s)) for s in SAMPLES if s.build is None and s.opset <= NEWEST]
    assert sum(counted) > 600

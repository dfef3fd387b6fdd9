"""The same samples in other forms: other element types, unknown ranks, operands known at run time only."""

import copy

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad.core.ir.opset import NEWEST, find_schema
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import UnsupportedGradient
from onnxgrad.testing import Sample, _Case, check_gradient, opset_with
from tests.core.rules.samples import check, gradients_as_model, thoroughly, values_of
from tests.core.rules.test_gradients import SAMPLES

pytestmark = pytest.mark.oracle


def without_float16_kernel(sample):
    """onnxruntime scatters float16 by replacing only, already in the forward operator"""
    return sample.op_type == "ScatterND" and sample.attrs.get("reduction", "none") != "none"


# The rank decides which operators are emitted. Each says so and asks for value_info.
NEEDS_A_RANK: set[str] = {
    "Attention",
    "CausalConvWithState",
    "Conv",
    "ConvTranspose",
    "DeformConv",
    "DequantizeLinear",
    "GridSample",
    "LinearAttention",
    "QuantizeLinear",
    "Resize",
    "RotaryEmbedding",
}


@pytest.mark.parametrize("sample", thoroughly(SAMPLES))
def test_gradient_with_operands_at_run_time_matches_finite_differences(sample):
    check(sample, form="runtime")


@pytest.mark.parametrize("sample", thoroughly(SAMPLES))
def test_gradient_with_unknown_ranks_matches_finite_differences_or_is_refused(sample):
    try:
        check(sample, form="unranked")
    except UnsupportedGradient as error:
        assert "rank" in str(error)
        assert sample.op_type in NEEDS_A_RANK


@pytest.mark.parametrize("op_type", sorted(NEEDS_A_RANK))
def test_a_stated_need_for_a_rank_is_real(op_type):
    refused = 0
    for sample in (s for s in SAMPLES if s.op_type == op_type):
        try:
            check(sample, form="unranked")
        except UnsupportedGradient:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize("sample", thoroughly(s for s in SAMPLES if s.runs and not without_float16_kernel(s)))
def test_float16_on_onnxruntime_agrees_with_float64(sample):
    opset = opset_with(sample, "float16")
    if opset is None:
        assert sample.op_type in ("Range", "DynamicQuantizeLinear")  # Range in float16 since opset 27
        return
    model, feeds = gradients_as_model(sample, "float16", opset=opset)
    onnx.checker.check_model(model, full_check=True)
    wide, wide_feeds = gradients_as_model(sample, "float64", rounded="float16")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {v.name: feeds[v.name] for v in session.get_inputs()})
    for actual, expected in zip(found, values_of(sample, wide, wide_feeds), strict=True):
        assert actual.dtype == np.float16
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=2e-2, atol=1e-2 * scale)


@pytest.mark.parametrize("sample", thoroughly(SAMPLES))
def test_bfloat16_gradient_is_a_valid_model(sample):
    opset = opset_with(sample, "bfloat16")
    if opset is None:
        assert sample.opset > NEWEST or not admits_bfloat16(sample)
        return
    try:
        model, _ = gradients_as_model(sample, "bfloat16", opset=opset)
    except UnsupportedGradient as error:
        assert sample.op_type == "Loop" and "sequence" in str(error)
        return
    onnx.checker.check_model(model, full_check=True)
    assert {v.type.tensor_type.elem_type for v in model.graph.output} <= {onnx.TensorProto.BFLOAT16}


def admits_bfloat16(sample):
    """Whether the newest schema that onnxruntime knows takes it for every operand; unknown of samples that build several"""
    if sample.build is not None:
        return False
    schema = find_schema(sample.op_type, sample.domain, NEWEST)
    real = [i for i, item in enumerate(sample.inputs) if is_real(item)]
    return all(schema.allows(schema.input_at(i).typestr, dtype_of("bfloat16")) for i in real)


def is_real(item):
    """Whether it takes the element type of the case; float32 that is fixed stays"""
    if isinstance(item, Sample.fixed):
        return item.array.dtype == np.float64
    return item is not None and np.asarray(item).dtype.kind == "f"


@pytest.mark.parametrize("sample", thoroughly(s for s in SAMPLES if s.outputs > 1 and s.only is None))
def test_each_output_alone_has_the_right_gradient(sample):
    outputs = _Case(sample, "float64").all_outputs
    for i in (i for i, v in enumerate(outputs) if v.is_float):
        alone = copy.copy(sample)
        alone.only = [i]
        check(alone)


def test_squeeze_of_an_empty_list_of_axes_is_refused():
    with pytest.raises(UnsupportedGradient, match=r"axes is an empty list.*Leave axes out"):
        check_gradient(Sample(np.ones((2, 1)), np.zeros(0, np.int64)), op_type="Squeeze")

"""General tests over every declared sample."""

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.core.rules.samples import all_samples, check, gradients_as_model, thoroughly, values_of

pytestmark = pytest.mark.oracle

SAMPLES = all_samples()


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_gradient_matches_finite_differences(sample):
    check(sample)


@pytest.mark.parametrize("sample", thoroughly(SAMPLES))
def test_gradient_with_unknown_dimensions_matches_finite_differences(sample):
    check(sample, symbolic=True)


@pytest.mark.parametrize("sample", thoroughly(s for s in SAMPLES if s.second))
def test_second_derivative_matches_finite_differences(sample):
    check(sample, order=2)


@pytest.mark.parametrize("sample", thoroughly(s for s in SAMPLES if s.runs))
def test_float32_on_onnxruntime_agrees_with_float64(sample):
    model, feeds = gradients_as_model(sample, "float32")
    onnx.checker.check_model(model, full_check=True)
    wide, wide_feeds = gradients_as_model(sample, "float64")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {v.name: feeds[v.name] for v in session.get_inputs()})
    for actual, expected in zip(found, values_of(sample, wide, wide_feeds), strict=True):
        assert actual.dtype == np.float32
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4 * scale)

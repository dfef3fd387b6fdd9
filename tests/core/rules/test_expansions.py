"""Expansions compute what onnxruntime's kernels of the operators that they stand for compute."""

import numpy as np
import pytest

from onnxgrad import static
from tests.core.rules.samples import all_samples

EXPANDED = ("RoiAlign", "MaxRoiPool", "DeformConv")
SAMPLES = [sample for sample in all_samples() if sample.op_type in EXPANDED and sample.opset <= 21]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_expansion_computes_what_the_kernel_does(sample):
    feed, operands = {}, []
    for i, item in enumerate(sample.inputs):
        array = getattr(item, "array", item)
        if array is None:
            operands.append(None)
            continue
        feed[f"x{i}"] = array.astype(np.float32) if array.dtype.kind == "f" else array
        operands.append(static.data(f"x{i}", [None] * array.ndim, feed[f"x{i}"].dtype.name))
        operands[-1].stop_gradient = array.dtype.kind != "f"
    y = operands[0].block.build.emit(sample.op_type, operands, dict(sample.attrs))
    executor = static.Executor()
    (kernel,) = executor.run(feed=feed, fetch_list=[y])
    (g,) = static.gradients([y], operands[0])
    expanded, _ = executor.run(feed=feed, fetch_list=[y, g])
    assert expanded.shape == kernel.shape
    np.testing.assert_allclose(expanded, kernel, rtol=1e-4, atol=1e-5)

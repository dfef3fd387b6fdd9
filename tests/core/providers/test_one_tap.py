"""Convolutions of one tap over one image are products, and others stay."""

import numpy as np
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.layouts.one_tap import ONE_TAP


def outcome(y, each):
    """The types of operators after a pass, and the largest difference of the results"""
    outputs = y if isinstance(y, (list, tuple)) else [y]
    program = outputs[0].block.program
    graphs = [compile(program, list(outputs)) for _ in range(2)]
    run_passes(graphs[1], [each], Target())
    draw = np.random.default_rng(0)
    sizes = {v.name: [2 if n < 0 else n for n in v.shape] for v in program.inputs}
    feed = {name: draw.normal(size=shape).astype(np.float32) for name, shape in sizes.items()}
    results = []
    for graph in graphs:
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
        results.append(session.run(None, {v.name: feed[v.name] for v in session.get_inputs()}))
    apart = max(np.abs(a - b).max() for a, b in zip(*results, strict=True))
    return {op.type for op in graphs[1].operators}, apart


def convolved(kind, images=1, kernel=1, bias=False, **attrs):
    x, w = static.data("x", [images, 6, 3, 5]), static.data("w", [6, 6, kernel, kernel])
    operands = [x, w, static.data("b", [6])] if bias else [x, w]
    return x.block.build.emit(kind, operands, attrs)


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_a_convolution_of_one_tap_over_one_image_is_a_product(kind):
    types, apart = outcome(convolved(kind), ONE_TAP)
    assert types == {"Reshape", "MatMul" if kind == "Conv" else "Gemm"} and apart < 1e-5


@pytest.mark.parametrize(
    "options",
    [{"images": 2}, {"kernel": 2}, {"bias": True}, {"strides": [2, 1]}, {"pads": [0, 1, 0, 0]}, {"auto_pad": "SAME_UPPER"}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_other_convolutions_stay(kind, options):
    assert outcome(convolved(kind, **options), ONE_TAP)[0] == {kind}


@pytest.mark.parametrize("options", [{"output_padding": [1, 0], "strides": [2, 1]}, {"output_shape": [3, 5]}], ids=str)
def test_a_transposed_convolution_that_says_its_size_stays(options):
    assert outcome(convolved("ConvTranspose", **options), ONE_TAP)[0] == {"ConvTranspose"}

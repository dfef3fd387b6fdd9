"""hoist_transposes: a weight that a loop reads transposed in every step is transposed once, before it."""

import numpy as np
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.bodies import write_body
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.providers.products.hoist_transposes import HOIST_TRANSPOSES_APART, hoist_transposes

F = np.float32


def _scan(product, columns=2, rows=3):
    """h' = tanh(product of a step), four times, for h of some rows and a square weight"""
    w, h = static.data("w", [rows, rows]), static.data("h", [rows, columns])
    op = h.block.build
    types = [("h", h.type), ("t", TensorType(op.constant(np.zeros(1, F)).dtype, ()))]

    def step(build, h, t):
        new = build.Tanh(product(build, w, h))
        return new, build.Identity(new)

    body = write_body(op, "step", types, step)
    return op.Scan(h, np.zeros(4, F), outputs=2, body=body, num_scan_inputs=1)


def _graph(outputs):
    return compile(outputs[0].block.program, list(outputs), inputs=[])


def _types(graph):
    scan = next(op for op in graph.operators if op.type == "Scan")
    return [op.type for op in graph.operators], [op.attr("transA") for op in scan.attrs["body"].ops if op.type == "Gemm"]


def _run(graph, rows=3):
    rng = np.random.default_rng(0)
    feed = {"w": rng.normal(size=(rows, rows)).astype(F), "h": rng.normal(size=(rows, 2)).astype(F)}
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def test_weight_of_the_graph_is_turned_once_before_the_loop():
    outputs = _scan(lambda build, w, h: build.Gemm(w, build.Gemm(w, h, transA=1), h, transA=1, alpha=0.5))
    plain, turned = _graph(outputs), _graph(outputs)
    hoist_transposes(turned, Target())
    assert _types(plain)[1] == [1, 1]
    assert _types(turned) == (["Transpose", "Scan"], [0, 0])
    for ours, theirs in zip(_run(turned), _run(plain), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_openvino_transposes_through_three_axes_and_leaves_an_odd_number_of_rows():
    outputs = _scan(lambda build, w, h: build.Gemm(w, h, transA=1), rows=4)
    plain, turned = _graph(outputs), _graph(outputs)
    run_passes(turned, [HOIST_TRANSPOSES_APART], Target())
    assert _types(turned) == (["Reshape", "Transpose", "Reshape", "Scan"], [0])
    for ours, theirs in zip(_run(turned, 4), _run(plain, 4), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    with static.program_guard(static.Program()):
        odd = _graph(_scan(lambda build, w, h: build.Gemm(w, h, transA=1)))
    run_passes(odd, [HOIST_TRANSPOSES_APART], Target())
    assert _types(odd) == (["Scan"], [1])


@pytest.mark.parametrize(
    ("product", "columns"),
    [
        (lambda build, w, h: build.Gemm(w, h), 2),
        (lambda build, w, h: build.Gemm(build.Tanh(w), h, transA=1), 2),
        (lambda build, w, h: build.Gemm(w, h, transA=1), 193),
    ],
    ids=["as it is stored", "computed in the step", "many columns"],
)
def test_other_products_are_left_alone(product, columns):
    graph = _graph(_scan(product, columns))
    before = _types(graph)
    hoist_transposes(graph, Target())
    assert _types(graph) == before

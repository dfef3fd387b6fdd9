"""Integers computed from shapes, on their way to operators on a device."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.providers.products.device_scalars import read_scalars_on_device

BUILT = Path(__file__).parents[2] / "data" / "built_models"


def run(graph, feed):
    import onnxruntime

    from onnxgrad.core.interop.onnx_export import write_model

    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)


@pytest.mark.parametrize("rows", [1, 5])
def test_means_over_an_unknown_batch_divide_by_the_same_number(rows):
    x = static.data("x", [None, 3])
    x.stop_gradient = False
    loss = paddle.mean(paddle.square(x)) + F.mse_loss(x, x * 0.5)
    (g,) = static.gradients([loss], [x])
    plain, ferried = (compile(x.block.program, [loss, g]) for _ in range(2))
    read_scalars_on_device(ferried, Target())
    assert "Range" in {op.type for op in ferried.operators} - {op.type for op in plain.operators}
    makers = {v: op for op in ferried.operators for v in op.outputs}
    for op in ferried.operators:
        if op.type == "Cast" and op.inputs[0].dtype.is_integer:
            assert makers[op.inputs[0]].type in ("Range", "Reshape")
    feed = {"x": np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)}
    for a, b in zip(run(plain, feed), run(ferried, feed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_vector_meets_a_tensor():
    x, y = static.data("x", [None, None]), static.data("y", [3, 2], "int64")
    build = x.block.build
    z = build.Mul(y, build.Shape(x))
    graph = compile(x.block.program, [z])
    read_scalars_on_device(graph, Target())
    assert [op.type for op in graph.operators].count("Range") == 2
    given = np.arange(6).reshape(3, 2)
    np.testing.assert_array_equal(run(graph, {"x": np.ones((4, 7), np.float32), "y": given})[0], given * [4, 7])


def test_what_is_read_on_the_host_stays_there():
    x = static.data("x", [None, None])
    build = x.block.build
    y = build.Expand(build.Reshape(x, [-1, 1]), build.Concat(build.Size(x).reshape([1]), [2], axis=0))
    graph = compile(x.block.program, [y])
    before = [op.type for op in graph.operators]
    read_scalars_on_device(graph, Target())
    assert [op.type for op in graph.operators] == before


def test_operators_of_other_domains_read_what_the_file_gives_them():
    model = onnx.load(BUILT / "llama-bf16-cuda.onnx")
    program = paddle.from_onnx(model)
    graph = compile(program, program.outputs, "cuda")
    attention = next(op for op in graph.operators if op.type == "GroupQueryAttention")
    lengths, total = attention.inputs[5:7]
    assert total.op.type == "Cast" and lengths.op.type == "Cast"
    boxes, scores = static.data("boxes", [1, None, 4]), static.data("scores", [1, 1, None])
    build = boxes.block.build
    most = build.Gather(build.Shape(boxes), [1])
    graph = compile(boxes.block.program, [build.NonMaxSuppression(boxes, scores, most)], "cuda")
    selection = next(op for op in graph.operators if op.type == "NonMaxSuppression")
    assert selection.inputs[2].op.type == "Gather"

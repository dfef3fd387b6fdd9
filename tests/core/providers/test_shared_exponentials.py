"""A loss and its gradient over the same exponentials: the numbers of LogSoftmax and Softmax, in fewer operators."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.losses.labelled import LABELLED_LOSSES
from onnxgrad.core.providers.losses.shared_exponentials import SHARED_EXPONENTIALS
from onnxgrad.testing import evaluate


def both(outputs, feed):
    """The types of operators with the pass, once its numbers are those without it"""
    program = outputs[0].block.program
    plain, graph = compile(program, outputs), compile(program, outputs)
    run_passes(plain, [LABELLED_LOSSES], Target())
    run_passes(graph, [LABELLED_LOSSES, SHARED_EXPONENTIALS], Target())
    for expected, found in zip(evaluate(write_model(plain), feed), evaluate(write_model(graph), feed), strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    return [op.type for op in graph.operators]


@pytest.mark.parametrize("space", [(), (3, 2)], ids=["rows", "pixels"])
@pytest.mark.parametrize("rows", [4, None], ids=["known", "unknown"])
def test_a_loss_and_its_gradient_take_exponentials_once_where_known_rows_have_a_label_each(space, rows):
    x, label = static.data("x", [rows, 5, *space], "float64"), static.data("label", [rows, *space], "int64")
    x.stop_gradient = False
    loss = x.block.build.SoftmaxCrossEntropyLoss(x, label)
    draw = np.random.default_rng(0)
    # Without the maximum taken off, these would be infinite; and a probability of 0 has a logarithm.
    feed = {"x": draw.normal(size=(4, 5, *space)) * 900, "label": draw.integers(0, 5, (4, *space))}
    types = both([loss, *static.gradients(loss, x)], feed)
    written_out = types.count("Exp") == 1 and not {"LogSoftmax", "Softmax"} & set(types)
    # Of two unknown numbers of rows nothing says that they are equal; OpenVINO's sessions know them.
    assert written_out == (rows is not None and not space)


def test_probabilities_along_another_axis_and_logarithms_that_others_read_stay():
    x, label = static.data("x", [4, 5], "float64"), static.data("label", [4, 1], "int64")
    build = x.block.build
    log = build.LogSoftmax(x, axis=1)
    read = [build.GatherElements(log, label, axis=1), build.Softmax(x, axis=1), log]
    other = build.GatherElements(build.LogSoftmax(x, axis=0), build.Transpose(label, perm=[1, 0]), axis=0)
    turned = build.GatherElements(build.LogSoftmax(paddle.abs(x), axis=1), label, axis=1)
    feed = {"x": np.random.default_rng(0).normal(size=(4, 5)), "label": np.array([[0], [3], [1], [2]])}
    types = both([*read, other, turned, build.Softmax(paddle.abs(x), axis=0)], feed)
    assert types.count("LogSoftmax") == 3 and types.count("Softmax") == 2 and "Exp" not in types

"""Cross-entropies and gradients of tables: same values as the plain forms, where they apply."""

from collections import Counter

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.tensor import TensorValue

DRAW = np.random.default_rng(0)


def results(build, feed):
    """What ``build`` returns, and the counts of operators, plain and lowered"""
    main = static.Program()
    with static.program_guard(main):
        wanted = build()
    found = []
    for lowered in (False, True):
        graph = compile(main, wanted, "cpu" if lowered else None)
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        found.append((session.run(None, feed), Counter(op.type for op in graph.operators)))
    (plain, before), (new, after) = found
    for a, b in zip(plain, new, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)
    return before, after


def embedding_gradient(rows, width, ids):
    def build():
        index = static.data("ids", list(ids.shape), "int64")
        array = DRAW.normal(size=(rows, width)).astype(np.float32)
        weight = index.block.create_parameter("weight", array.shape, "float32", value=TensorValue.of(array))
        factor = static.data("factor", [*ids.shape, width])
        return static.gradients([paddle.sum(index.block.build.Gather(weight, index) * factor)], [weight])

    return results(build, {"ids": ids, "factor": DRAW.normal(size=(*ids.shape, width)).astype(np.float32)})


@pytest.mark.parametrize("shape", [(32,), (4, 5), (1,)])
def test_small_embedding(shape):
    before, after = embedding_gradient(10, 16, DRAW.integers(0, 10, shape))
    assert (before["ScatterElements"], after["ScatterElements"]) == (1, 0)


def test_indices_from_the_end():
    _, after = embedding_gradient(10, 16, np.array([-1, 9, -10, 0, -1]))
    assert after["ScatterElements"] == 0


@pytest.mark.parametrize(("rows", "selected"), [(257, 8), (256, 257)])
def test_large_embeddings_keep_the_plain_form(rows, selected):
    before, after = embedding_gradient(rows, 16, DRAW.integers(0, rows, (selected,)))
    assert before == after


def entropy(scores, labels, type="int64", **attrs):
    def build():
        x, label = static.data("x", scores), static.data("label", labels, type)
        x.stop_gradient = False
        loss = x.block.build.SoftmaxCrossEntropyLoss(x, label, **attrs)
        return [loss, *static.gradients([paddle.sum(loss)], [x])]

    sizes = [5 if n is None else n for n in scores], [5 if n is None else n for n in labels]
    feed = {"x": 30 * DRAW.normal(size=sizes[0]).astype(np.float32), "label": DRAW.integers(0, scores[1], sizes[1]).astype(type)}
    return results(build, feed)


@pytest.mark.parametrize(
    ("scores", "labels", "type"), [([6, 10], [6], "int64"), ([None, 4], [None], "int64"), ([6, 10], [6], "int32")]
)
def test_cross_entropy(scores, labels, type):
    before, after = entropy(scores, labels, type)
    assert (before["SoftmaxCrossEntropyLoss"], after["SoftmaxCrossEntropyLoss"]) == (1, 0)


@pytest.mark.parametrize("attrs", [{"ignore_index": 1}, {"reduction": "sum"}, {"reduction": "none"}])
def test_other_cross_entropies_keep_the_plain_form(attrs):
    before, after = entropy([6, 10], [6], **attrs)
    assert before == after


def test_cross_entropy_of_maps_keeps_the_plain_form():
    before, after = entropy([2, 4, 3], [2, 3])
    assert before == after


POOLS = {
    "plain": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "gaps": {"kernel_shape": [2, 1], "strides": [3, 2]},
    "padding": {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 1, 1, 1]},
    "dilation": {"kernel_shape": [2, 2], "strides": [3, 3], "dilations": [2, 2]},
    "ceiling": {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
}


def _pooled(attrs, declared=3):
    def build():
        x = static.data("x", [declared, 2, 7, 9])
        x.stop_gradient = False
        y = x.block.build.MaxPool(x, **attrs)
        return [y, *static.gradients([paddle.sum(y * y * 3.0 + y)], [x])]

    # Few different values, so that windows hold equal ones.
    return results(build, {"x": DRAW.integers(-2, 2, (3, 2, 7, 9)).astype(np.float32)})


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("declared", [3, None])
def test_maxima_of_separate_windows(name, declared):
    before, after = _pooled(POOLS[name], declared)
    assert (before["ScatterElements"], after["ScatterElements"], after["MaxUnpool"]) == (1, 0, 1)


@pytest.mark.parametrize(
    ("attrs", "declared"),
    [({"kernel_shape": [3, 3], "strides": [2, 2]}, 3), ({**POOLS["plain"], "storage_order": 1}, 3)],
)
def test_other_maxima_stay(attrs, declared):
    before, after = _pooled(attrs, declared)
    assert before["ScatterElements"] == after["ScatterElements"] == 1


def tied(rows=300, width=16, ids=(4, 5)):
    """The gradient of a table that is looked up and multiplies, as the embeddings of a language model."""

    def build():
        index = static.data("ids", list(ids), "int64")
        array = DRAW.normal(size=(rows, width)).astype(np.float32)
        table = index.block.create_parameter("table", array.shape, "float32", value=TensorValue.of(array))
        op = index.block.build
        found = op.Gather(table, index)
        loss = paddle.sum(op.MatMul(op.Tanh(found), op.Transpose(table, perm=[1, 0])) * static.data("factor", [*ids, rows]))
        return static.gradients([loss], [table])

    indices = DRAW.integers(0, 3, ids)
    return results(build, {"ids": indices, "factor": DRAW.normal(size=(*ids, rows)).astype(np.float32)})


def test_rows_are_added_into_what_they_would_be_added_to():
    """Some rows several times"""
    before, after = tied()
    assert (before["Add"], after["Add"]) == (1, 0) and (before["ScatterElements"], after["ScatterElements"]) == (1, 1)
    assert after["Expand"] == before["Expand"] - 1, "zeros to add into"


def test_sums_of_others_stay():
    """What is scattered is not of the size of the sum, is read twice, or is not added up"""

    def build():
        x, y, row = static.data("x", [300, 4]), static.data("y", [7, 4]), static.data("row", [1, 4])
        op = x.block.build
        zeros, ids = np.zeros((300, 4), np.float32), np.tile(np.arange(7)[:, None], (1, 4))
        twice = op.ScatterElements(zeros, ids, y, axis=0, reduction="add")
        ones = op.ScatterElements(np.ones((300, 4), np.float32), ids, y, axis=0, reduction="add")
        largest = op.ScatterElements(zeros, ids, y, axis=0, reduction="max")
        wide = op.ScatterElements(zeros, ids, y, axis=0, reduction="add")
        return [op.Add(x, twice), op.Neg(twice), op.Add(x, ones), op.Add(x, largest), op.Add(row, wide)]

    draw = np.random.default_rng(1)
    shapes = {"x": (300, 4), "y": (7, 4), "row": (1, 4)}
    before, after = results(build, {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})
    assert before == after

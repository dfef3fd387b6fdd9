"""Elementwise operators and sums: same values, in the forms that onnxruntime runs faster."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model


@pytest.mark.parametrize("shape", [(64, 32, 1, 1), (2048, 1), (3, 512, 1)])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Max", "Pow"])
def test_a_number_gets_the_rank_of_the_tensor(shape, kind):
    main = static.Program()
    with static.program_guard(main):
        x, number = static.data("x", shape), static.data("number", [1])
        build = x.block.build
        y = getattr(build, kind)(getattr(build, kind)(x, 1.5), number)
    draw = np.random.default_rng(0)
    feed = {"x": np.abs(draw.normal(size=shape)).astype(np.float32), "number": np.array([0.7], np.float32)}
    found = []
    for lowered in (False, True):
        graph = compile(main, [y], "cpu" if lowered else None)
        if lowered:
            pairs = [op for op in graph.operators if op.type == kind]
            assert len(pairs) == 2
            assert all(v.rank == len(shape) for op in pairs for v in op.inputs)
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        found.append(session.run(None, feed)[0])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("shape", [(2, 5, 4, 3), (None, 5, 4, 3), (2, 5, 2, 3, 4)])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_softmax_over_channels_sees_three_axes(shape, kind):
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", shape)
        x.stop_gradient = False
        y = getattr(x.block.build, kind)(x, axis=1)
        (gradient,) = static.gradients([paddle.sum(paddle.square(y))], [x])
    draw = np.random.default_rng(0)
    for batch in [2] if shape[0] else [3, 1, 0]:
        feed = {"x": draw.normal(size=(batch, *shape[1:])).astype(np.float32)}
        found = []
        for lowering in (None, "cpu"):
            graph = compile(main, [y, gradient], lowering)
            ranks = {op.inputs[0].rank for op in graph.operators if op.type == kind}
            assert ranks == ({3} if lowering else {len(shape)})
            session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
            found.append(session.run(None, feed))
        for plain, lowered in zip(*found, strict=True):
            assert lowered.shape == (batch, *shape[1:])
            np.testing.assert_array_equal(lowered, plain)


@pytest.mark.parametrize(
    "shape, axis", [((2, 5, 4), 1), ((2, 5, 4, 3), 0), ((2, 5, 4, 3), -1), ((2, 5, 4, 3), 2), ((2, 5, None, 3), 1)]
)
def test_other_softmax_stays(shape, axis):
    main = static.Program()
    with static.program_guard(main):
        y = static.data("x", shape).block.build.Softmax(main.global_block().var("x"), axis=axis)
    assert [op.type for op in compile(main, [y], "cpu").operators] == ["Softmax"]


def test_small_tensors_and_others_stay():
    main = static.Program()
    with static.program_guard(main):
        y = paddle.add_n([static.data("small", [4, 1]) * 2.0, static.data("wide", [4, 2048])[:, :1] * 2.0])
        z = static.data("flat", [2048]) * 2.0
    before = [op.type for op in compile(main, [y, z]).operators]
    graph = compile(main, [y, z], "cpu")
    assert [op.type for op in graph.operators] == before


def test_nothing_dead_is_left():
    """The index that a one-hot matrix replaces is not computed any more"""
    main = static.Program()
    with static.program_guard(main):
        ids = static.data("ids", [16], "int64")
        table = static.data("table", [50, 8])
        table.stop_gradient = False
        (gradient,) = static.gradients([paddle.sum(paddle.square(table.block.build.Gather(table, ids)))], [table])
    graph = compile(main, [gradient], "cpu")
    names = [name for name, _ in graph.outputs]
    read = {v for op in graph.operators for v in op.operands() if v is not None}
    assert all(v in read or v.name in names for op in graph.operators for v in op.outputs)
    assert all(v in read for v in graph.initializers)


@pytest.mark.parametrize("shape", [(40, 33), (5, 8, 40), (40, 4, 9)])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_sums_of_rows(shape, keepdims):
    main = static.Program()
    axes = [0, -2] if shape[0] == 5 else [0]
    with static.program_guard(main):
        x = static.data("x", shape)
        y = x.block.build.ReduceSum(x, axes, keepdims=keepdims)
    feed = {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    graph = compile(main, [y], "cpu")
    assert "ReduceSum" not in [op.type for op in graph.operators]
    (found,) = onnxruntime.InferenceSession(write_model(graph).SerializeToString()).run(None, feed)
    expected = feed["x"].sum(tuple(axes), keepdims=bool(keepdims), dtype=np.float64)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axes"), [((8, 64), [0]), ((64, 8), [0]), ((64, 64), [1]), ((64, 64), [0, 1]), ((None, 64), [0])]
)
def test_other_sums_stay(shape, axes):
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", shape)
        y = x.block.build.ReduceSum(x, axes, keepdims=0)
    graph = compile(main, [y], "cpu")
    assert "ReduceSum" in [op.type for op in graph.operators]


def test_masks_of_a_backward_pass():
    """1 for every positive normal number and infinity, 0 for the others"""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [8])
        x.stop_gradient = False
        (gradient,) = static.gradients([paddle.nn.functional.relu(x)], [x])
    tiny = np.finfo(np.float32).tiny
    values = np.array([0.0, -0.0, 1.0, -1.0, tiny, -tiny, np.inf, -np.inf], np.float32)
    graph = compile(main, [gradient], "cpu")
    types = [op.type for op in graph.operators]
    assert "HardSigmoid" in types
    assert "Greater" not in types
    (found,) = onnxruntime.InferenceSession(write_model(graph).SerializeToString()).run(None, {"x": values})
    np.testing.assert_array_equal(found, [0, 0, 1, 0, 1, 0, 1, 0])


def test_other_comparisons_stay():
    """A user's own, and those with another bound"""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [8])
        x.stop_gradient = False
        own = paddle.cast(x > 0.0, "float32")
        (gradient,) = static.gradients([paddle.nn.functional.thresholded_relu(x, 1.0)], [x])
    for y in (own, gradient):
        before = [op.type for op in compile(main, [y]).operators]
        graph = compile(main, [y], "cpu")
        assert [op.type for op in graph.operators] == before


@pytest.mark.parametrize("limits, compares", [((0.0, 6.0), "Equal"), ((2.0, 2.0), "Equal"), ((6.0, 0.0), "And")])
def test_the_gradient_of_clip_compares_once(limits, compares):
    """At the limits, beyond them, and where there is no number; limits the wrong way round let nothing pass"""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [9])
        x.stop_gradient = False
        # One of another shape comes first.
        other = x.block.build.Clip(x.block.build.Concat(x, x, axis=0), *map(np.float32, limits))
        y = x.block.build.Clip(x, *map(np.float32, limits))
        (gradient,) = static.gradients([paddle.sum(y * 3.0)], [x])
    values = np.array([-np.inf, -1, -0.0, 0.0, 2, np.nextafter(np.float32(6), np.float32(9)), 6, np.inf, np.nan], np.float32)
    found = []
    for provider in (None, "cpu"):
        graph = compile(main, [other, y, gradient], provider)
        found.append(onnxruntime.InferenceSession(write_model(graph).SerializeToString()).run(None, {"x": values}))
    assert [op.type for op in graph.operators if op.type in ("Equal", "And")] == [compares]
    for plain, lowered in zip(*found, strict=True):
        np.testing.assert_array_equal(lowered, plain)

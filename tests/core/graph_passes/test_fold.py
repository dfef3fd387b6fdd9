"""Constants in graphs whose sizes are known."""

import numpy as np

import onnxgrad as paddle
from onnxgrad import Executor, static
from onnxgrad.core.compile import compile


def test_sums_of_broadcast_operands_need_no_axes_once_sizes_are_known():
    """Which axes a gradient is summed over is computed at run time where two batches are unknown"""
    x, y = static.data("x", [None, 4]), static.data("y", [None, 4])
    x.stop_gradient = False
    loss = paddle.mean(paddle.square(x - y))
    (g,) = static.gradients([loss], [x])
    program = x.block.program
    plain = compile(program, [g])
    assert "NonZero" in {op.type for op in plain.operators}
    for rows in (3, 1):
        graph = compile(program, [g], shapes={"x": (rows, 4), "y": (3, 4)})
        assert not {"NonZero", "Equal", "Shape", "Squeeze"} & {op.type for op in graph.operators}
        assert all(v.static_shape is not None for op in graph.operators for v in op.outputs)
        feed = {"x": np.ones((rows, 4), np.float32), "y": np.zeros((3, 4), np.float32)}
        np.testing.assert_allclose(Executor().run(program, feed, [g])[0], np.full((rows, 4), 2 / 12 * 3 / rows), rtol=1e-6)


def test_integers_are_divided_towards_zero():
    x = static.data("x", [None])
    build = x.block.build
    count = build.Sub(build.Shape(x), [8])
    y = build.Add(x, build.Cast(build.Div(count, [2]), to=1))
    graph = compile(x.block.program, [y], shapes={"x": (3,)})
    (op,) = graph.operators
    assert op.type == "Add" and op.inputs[1].value.numpy().tolist() == [-2.0]

"""Numbers and tensors whose last axes have one element: same values, in the form that onnxruntime does not take one by one."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.interop.onnx_export import build_graph, write_model
from onnxgrad.lowering.cpu import lower_for_cpu


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
        graph = build_graph(main, [y])
        if lowered:
            lower_for_cpu(graph)
            pairs = [op for op in graph.operators if op.type == kind]
            assert len(pairs) == 2
            assert all(v.rank == len(shape) for op in pairs for v in op.inputs)
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        found.append(session.run(None, feed)[0])
    np.testing.assert_array_equal(*found)


def test_small_tensors_and_others_stay():
    main = static.Program()
    with static.program_guard(main):
        y = paddle.add_n([static.data("small", [4, 1]) * 2.0, static.data("wide", [4, 2048])[:, :1] * 2.0])
        z = static.data("flat", [2048]) * 2.0
    graph = build_graph(main, [y, z])
    before = [op.type for op in graph.operators]
    lower_for_cpu(graph)
    assert [op.type for op in graph.operators] == before


def test_nothing_dead_is_left():
    """The index that a one-hot matrix replaces is not computed any more"""
    main = static.Program()
    with static.program_guard(main):
        ids = static.data("ids", [16], "int64")
        table = static.data("table", [50, 8])
        table.stop_gradient = False
        (gradient,) = static.gradients([paddle.sum(paddle.square(table.block.build.Gather(table, ids)))], [table])
    graph = build_graph(main, [gradient])
    lower_for_cpu(graph)
    names = [name for name, _ in graph.outputs]
    read = {graph.name(v) for op in graph.operators for v in op.operands() if v is not None}
    assert all(graph.name(v) in read or graph.name(v) in names for op in graph.operators for v in op.outputs)
    assert all(graph.name(v) in read for v in graph.initializers)

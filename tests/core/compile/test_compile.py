"""compile: a graph of its own; names given once; what becomes known of shapes reaches everything."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.providers.registry import PROVIDERS


def trained(build, batch):
    """A program over images [batch, 3, 16, 16] that trains what ``build`` returns; its loss"""
    main = static.Program()
    with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard():
        x = static.data("x", [batch, 3, 16, 16])
        loss = paddle.mean(paddle.square(build(x) - 0.3))
        paddle.optimizer.SGD(0.1).minimize(loss)
    return main, loss


def norm_dropout(x):
    h = static.nn.batch_norm(static.nn.conv2d(x, 8, 3, padding=1), act="relu")
    h = F.dropout(h, 0.3)
    h = static.nn.batch_norm(static.nn.conv2d(h, 8, 3, padding=1), act="relu")
    return static.nn.conv2d(F.dropout(h, 0.3), 4, 3)


def counts(batch, shapes=None):
    main, loss = trained(norm_dropout, batch)
    graph = compile(main, [loss], "cpu", shapes, state_as_inputs=True, ordered=True)
    onnx.checker.check_model(write_model(graph, _start(graph)), full_check=True)
    of_filters = {op for op in graph.operators if op.type == "Transpose" and 16 not in op.outputs[0].dims}
    return Counter(op.type for op in graph.operators if op not in of_filters)


def _start(graph):
    return {v: np.zeros(v.static_shape, v.dtype.numpy) for v in graph.inputs if v.persistable}


def test_free_and_known_batch_give_the_same_graph():
    known, free = counts(16), counts(None, {"x": (16, 3, 16, 16)})
    # At the edges: the images, the last map and its gradient. Two of the bytes of masks.
    assert known["Transpose"] == free["Transpose"] == 6
    # Arithmetic on constants is left out once a shape was given.
    assert not free - known
    assert set(known - free) == {"Add", "Cast", "Div", "Mul", "Sub"}


def test_dropout_is_drawn_in_the_layout_of_the_images():
    """The masks are those of the plain form, so that steps agree"""
    results = []
    for provider in (None, "cpu"):
        main, loss = trained(norm_dropout, 16)
        graph = compile(main, [loss], provider, state_as_inputs=True, ordered=True)
        draw = np.random.default_rng(0)
        state = {v.name: np.abs(draw.normal(size=v.static_shape)) for v in graph.inputs if v.persistable}
        state = {v.name: np.asarray(state[v.name], v.dtype.numpy) for v in graph.inputs if v.persistable}
        feed = {"x": np.random.default_rng(1).normal(size=(16, 3, 16, 16)).astype(np.float32)}
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        names = [entry.name for entry in session.get_outputs()]
        given = {k: v for k, v in {**state, **feed}.items() if k in {entry.name for entry in session.get_inputs()}}
        results.append(dict(zip(names, session.run(None, given), strict=True)))
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, rtol=2e-4, atol=2e-5 * np.abs(value).max(), err_msg=name)


@pytest.mark.parametrize("batch", [1, 8, 32, 64])
def test_an_image_of_weights(batch):
    """Convolution and a trained [C, H, W] table: two passes rewrite its gradient"""

    def build(x):
        h = static.nn.conv2d(x, 8, 3, padding=1)
        return h + static.create_parameter([8, 16, 16], "float32", name="pos")

    main, loss = trained(build, batch)
    graph = compile(main, [loss], "cpu", state_as_inputs=True, ordered=True)
    names = [v.name for op in graph.operators for v in op.outputs if v is not None]
    assert len(names) == len(set(names))
    helpers = [op.name for op in graph.operators if "/" in op.name]
    assert len(helpers) == len(set(helpers)) > 4
    onnx.checker.check_model(write_model(graph, _start(graph)), full_check=True)


def test_two_normalizations_over_an_unknown_number_of_images():
    def build(x):
        h = static.nn.conv2d(x, 8, 3, padding=1)
        return static.nn.batch_norm(static.nn.batch_norm(h))

    main, loss = trained(build, None)
    for shapes in (None, {"x": (8, 3, 16, 16)}):
        graph = compile(main, [loss], "cpu", shapes, state_as_inputs=True, ordered=True)
        onnx.checker.check_model(write_model(graph, _start(graph)), full_check=True)


def test_the_graph_shares_nothing_with_the_program():
    main, loss = trained(norm_dropout, None)
    own = {v for block in main.blocks for v in block.vars.values()} | {op for block in main.blocks for op in block.ops}
    graph = compile(main, [loss], "cpu", {"x": (8, 3, 16, 16)}, state_as_inputs=True)
    held = {v for block in graph.program.blocks for v in block.vars.values()}
    held |= {item for op in graph.operators for item in (op, *op.inputs, *op.outputs)}
    assert not held & own


def test_an_unknown_provider_is_named():
    main, loss = trained(norm_dropout, None)
    with pytest.raises(paddle.errors.ArgumentError, match=f"{', '.join(map(repr, sorted(PROVIDERS)))} or None, not 'tpu'"):
        compile(main, [loss], "tpu")

"""Products between turned heads: the numbers of the plain graph, and no Transpose that onnxruntime could join with another."""

import numpy as np
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model

HEADS, WIDTH = 2, 3
SWAP = [0, 1, 3, 2]


def attention(batch=4, steps=5, scale=0.5, key_heads=HEADS):
    """Attention over [batch, steps, heads * width], with its gradients, as plain graph and for the CPU, and values to feed."""
    shapes = {"q": HEADS, "k": key_heads, "v": key_heads, "seed": HEADS}
    operands = [static.data(name, [batch, steps, heads * WIDTH]) for name, heads in shapes.items()]
    for x in operands:
        x.stop_gradient = False
    q, k, v, seed = operands
    op = q.block.build
    if batch is None:  # of one unknown size, as in a model
        q, k, v = (op.Mul(q, number) for number in (1.0, 0.5, 2.0))

    def split(x, heads):
        return op.Transpose(op.Reshape(x, [0, 0, heads, WIDTH]), perm=[0, 2, 1, 3])

    scores = op.MatMul(split(q, HEADS), op.Transpose(split(k, key_heads), perm=SWAP))
    if scale is not None:
        scores = op.Mul(scores, scale)
    o = op.MatMul(op.Softmax(scores), split(v, key_heads))
    y = op.Reshape(op.Transpose(o, perm=[0, 2, 1, 3]), [0, 0, HEADS * WIDTH])
    found = [y, *static.gradients([y], operands[:1] if batch is None else operands[:3], [seed])]
    rng = np.random.default_rng(0)
    read = [operands[0], seed] if batch is None else operands
    feed = {x.name: rng.normal(size=[4 if x.shape[0] == -1 else x.shape[0], 5, x.shape[2]]).astype(np.float32) for x in read}
    return [compile(static.default_main_program(), found, lowering) for lowering in (None, "cpu")], feed


def run(graph, feed):
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([name for name, _ in graph.outputs], feed)


def joined(graph):
    """Swaps of the last axes of what a Transpose of other axes has made."""
    made = {v: op for op in graph.operators for v in op.outputs}
    swaps = [op for op in graph.operators if op.type == "Transpose" and op.attr("perm") == SWAP]
    return [op for op in swaps if op.inputs[0] in made and made[op.inputs[0]].type == "Transpose"]


@pytest.mark.parametrize("scale", [0.5, None])
@pytest.mark.parametrize("batch", [4, None])
def test_no_heads_are_turned_twice(batch, scale):
    (plain, lowered), feed = attention(batch, scale=scale)
    assert len(joined(plain)) >= 3 and not joined(lowered)
    assert sum(op.type == "Transpose" for op in lowered.operators) == 8 + 4, "of q, k, v, y and their gradients, and in 4 products"
    for a, b in zip(run(plain, feed), run(lowered, feed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_the_scale_stays_beside_its_product():
    """onnxruntime makes it the product's own factor"""
    (_, lowered), _ = attention()
    (softmax,) = (op for op in lowered.operators if op.type == "Softmax")
    scale = softmax.inputs[0].op.inputs[0].op
    assert softmax.inputs[0].op.type == "Reshape" and scale.type == "Mul" and scale.inputs[0].op.type == "MatMul"


@pytest.mark.parametrize("options", [{"steps": None}, {"key_heads": 1}])
def test_other_shapes_stay_right(options):
    """An unknown number of steps, and heads of keys that several heads of queries read"""
    (plain, lowered), feed = attention(**options)
    for a, b in zip(run(plain, feed), run(lowered, feed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_swap_that_is_returned_is_kept():
    x = static.data("x", [2, 3, 4, 5])
    op = x.block.build
    once = op.Transpose(op.Transpose(x, perm=[0, 2, 1, 3]), perm=SWAP)
    twice = op.Transpose(once, perm=SWAP)
    graph = compile(static.default_main_program(), [once, twice, op.Mul(op.Transpose(once, perm=SWAP), 2.0)], "cpu")
    value = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    a, b, c = run(graph, {"x": value})
    turned = value.transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(a, turned.swapaxes(2, 3))
    np.testing.assert_array_equal(b, turned)
    np.testing.assert_array_equal(c, turned * 2)

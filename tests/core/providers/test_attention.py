"""Attention written in fewer passes, and causal attention by blocks of queries: the numbers of the plain graph, in less work."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.providers.products import attention as module

QUERIES, WIDTH = 8, 3
CAUSAL = np.triu(np.full((QUERIES, QUERIES), -np.inf, np.float32), 1)


@pytest.fixture(autouse=True)
def blocks_of_few_queries(monkeypatch):
    monkeypatch.setattr(module, "_LEAST_QUERIES", 8)


def attend(q, k, v, mask=CAUSAL, scale=0.5, transposes=True, fetches_weights=False):
    op = Builder(static.default_main_program().global_block())
    kt = op.Transpose(k, perm=[0, 1, 3, 2]) if transposes else k
    scores = op.MatMul(q, kt)
    if scale is not None:
        scores = op.Mul(scores, np.float32(scale))
    if mask is not None:
        scores = op.Add(scores, mask)
    p = op.Softmax(scores, axis=-1)
    o = op.MatMul(p, v)
    return (o, p) if fetches_weights else (o,)


def graphs(batch=2, heads=2, queries=QUERIES, keys_first=False, **options):
    """The plain graph of outputs and gradients, and that for the CPU, with values for their inputs."""
    shape = [batch, heads, queries, WIDTH]
    names = {"q": shape, "k": [batch, heads, WIDTH, queries] if keys_first else shape, "v": shape}
    operands = [static.data(name, dims) for name, dims in names.items()]
    for v in operands:
        v.stop_gradient = False
    outputs = attend(*operands, transposes=not keys_first, **options)
    seeds = [static.data(f"seed{i}", list(o.shape)) for i, o in enumerate(outputs)]
    found = [*outputs, *static.gradients(list(outputs), operands, seeds)]
    program = static.default_main_program()
    rng = np.random.default_rng(0)
    feed = {v.name: rng.normal(size=[3 if d == -1 else d for d in v.shape]).astype(np.float32) for v in [*operands, *seeds]}
    return [compile(program, found, provider) for provider in (None, "cpu")], feed


def run(graph, feed):
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([name for name, _ in graph.outputs], feed)


def count(graph, kind):
    return sum(op.type == kind for op in graph.operators)


def compare(plain, lowered, feed):
    for want, got in zip(run(plain, feed), run(lowered, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


BLOCKED = {
    "as decoders have it": {},
    "no scale": {"scale": None},
    "mask of rank 4": {"mask": CAUSAL[None, None]},
    "finite mask": {"mask": np.maximum(CAUSAL, np.float32(-3e38))},
    "mask with biases": {"mask": CAUSAL + np.float32(0.1) * np.arange(8, dtype=np.float32)},
    "keys transposed before": {"keys_first": True},
    "a window": {"mask": np.where(np.tri(8, dtype=bool) & ~np.tri(8, k=-3, dtype=bool), np.float32(0), CAUSAL.min())},
}


@pytest.mark.parametrize("options", BLOCKED.values(), ids=BLOCKED)
def test_a_causal_mask_hides_what_is_not_computed(options):
    (plain, lowered), feed = graphs(**options)
    assert [count(graph, "Softmax") for graph in (plain, lowered)] == [1, 4]
    assert not any(v.dims is not None and v.dims[-2:] == (QUERIES, QUERIES) for op in lowered.operators for v in op.outputs)
    compare(plain, lowered, feed)


WHOLE = {
    "no mask": {"mask": None},
    "a mask that hides what comes before": {"mask": CAUSAL.T.copy()},
    "a query that sees nothing": {"mask": np.where(np.arange(8)[:, None] == 2, np.float32(-np.inf), CAUSAL)},
    "small biases": {"mask": np.triu(np.full((8, 8), -5, np.float32), 1)},
    "few queries": {"queries": 2, "mask": CAUSAL[:2, :2]},
    "odd queries": {"queries": 7, "mask": CAUSAL[:7, :7]},
}


@pytest.mark.parametrize("options", WHOLE.values(), ids=WHOLE)
def test_other_attention_stays_whole(options):
    (plain, lowered), feed = graphs(**options)
    assert count(lowered, "Softmax") == 1
    compare(plain, lowered, feed)


def test_weights_that_are_fetched_stay_whole():
    (plain, lowered), feed = graphs(fetches_weights=True)
    assert count(lowered, "Softmax") == 1
    compare(plain, lowered, feed)


def test_the_sum_over_keys_becomes_one_over_the_width_of_a_head():
    (plain, lowered), feed = graphs(mask=None)
    (before,), (after,) = ([op for op in graph.operators if op.type == "ReduceSum"] for graph in (plain, lowered))
    assert before.inputs[0].dims == (2, 2, QUERIES, QUERIES) and after.inputs[0].dims == (2, 2, QUERIES, WIDTH)
    compare(plain, lowered, feed)


def test_narrow_products_keep_their_sum():
    """Eight numbers of a head are more than two keys."""
    op = Builder(static.default_main_program().global_block())
    q, k, v = (static.data(name, [2, 8]) for name in "qkv")
    for x in (q, k, v):
        x.stop_gradient = False
    y = op.MatMul(op.Softmax(op.MatMul(q, op.Transpose(k, perm=[1, 0]))), v)
    found = [y, *static.gradients([y], [q, k, v])]
    program = static.default_main_program()
    plain, lowered = (compile(program, found, provider) for provider in (None, "cpu"))
    sums = [[op.inputs[0].dims for op in graph.operators if op.type == "ReduceSum"] for graph in (plain, lowered)]
    assert sums[0] == sums[1]


def test_a_training_step_of_two_layers_is_the_same_by_blocks():
    program = static.default_main_program()
    x = h = static.data("x", [None, QUERIES, 2 * WIDTH])
    for _ in range(2):
        parts = [paddle.reshape(static.nn.fc(h, 2 * WIDTH, num_flatten_dims=2), [0, 0, 2, WIDTH]) for _ in range(3)]
        heads = [paddle.transpose(part, [0, 2, 1, 3]) for part in parts]
        (o,) = attend(*heads)
        h = h + paddle.reshape(paddle.transpose(o, [0, 2, 1, 3]), [0, 0, 2 * WIDTH])
    loss = paddle.mean(h * h)
    gradients = [g for _, g in static.append_backward(loss)]
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feed = {x.name: np.random.default_rng(1).normal(size=(3, QUERIES, 2 * WIDTH)).astype(np.float32)}
    plain, lowered = (compile(program, [loss, *gradients], provider) for provider in (None, "cpu"))
    assert count(lowered, "Softmax") == 8
    compare(plain, lowered, feed)

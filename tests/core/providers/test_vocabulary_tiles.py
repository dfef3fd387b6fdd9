"""Cross-entropy over thousands of words by blocks of words: the loss and the gradients of the plain graph."""

import numpy as np
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.providers.losses import vocabulary_tiles as module

WORDS, WIDTH, BATCH, LENGTH = 24, 5, 3, 4


@pytest.fixture(autouse=True)
def blocks_of_few_words(monkeypatch):
    for name, value in {"_FEWEST": 16, "_LEAST": 4, "_MOST": 8}.items():
        monkeypatch.setattr(module, name, value)


def graphs(
    head="tied", batch=BATCH, flat=True, trained=True, reads_rows=True, fetched=False, number=3.0, words=WORDS, **attributes
):
    """The graph of a loss and its gradients, plain and for the CPU."""
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [batch, LENGTH, WIDTH]), static.data("label", [batch, LENGTH], "int64")
    x.stop_gradient = not reads_rows
    shape = [WIDTH, words] if head == "turned" else [words, WIDTH]
    weight = static.create_parameter(shape, "float32", name="weight")
    rows = op.Reshape(op.Tanh(x), [-1, WIDTH]) if flat else op.Tanh(x)
    if head == "Gemm":
        scores = op.Gemm(rows, weight, transB=1)
    else:
        scores = op.MatMul(rows, weight if head == "turned" else op.Transpose(weight, perm=[1, 0]))
    scores = scores if flat else op.Reshape(scores, [-1, words])
    loss = op.SoftmaxCrossEntropyLoss(scores, op.Reshape(label, [-1]), **attributes)
    wanted = [*([x] if reads_rows else []), *([weight] if trained else [])]
    found = [loss, *static.gradients([op.Mul(loss, number)], wanted), *([scores] if fetched else [])]
    return [compile(static.default_main_program(), found, provider, state_as_inputs=True) for provider in (None, "cpu")]


def feed_of(graph, words=WORDS):
    rng = np.random.default_rng(0)
    feed = {}
    for v in graph.inputs:
        shape = [2 if not isinstance(d, int) else d for d in v.dims]
        feed[v.name] = rng.integers(0, words, shape) if v.dtype.is_integer else rng.normal(size=shape).astype(np.float32)
    return feed


def run(graph, feed):
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([name for name, _ in graph.outputs], feed)


def compare(plain, lowered, feed):
    for want, got in zip(run(plain, feed), run(lowered, feed), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def is_cut(graph):
    return not any(op.type in ("Softmax", "LogSoftmax", "SoftmaxCrossEntropyLoss") for op in graph.operators)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch": None},
        {"head": "Gemm"},
        {"flat": False},
        {"trained": False},
        {"reads_rows": False},
        {"reduction": "sum"},
        {"reduction": "sum", "batch": None},
        {"ignore_index": -100},
        {"ignore_index": 2, "batch": None},
        {"number": 1.0},
    ],
)
def test_the_loss_and_its_gradients(options):
    plain, lowered = graphs(**options)
    assert is_cut(lowered) and not is_cut(plain)
    feed = feed_of(plain)
    if "ignore_index" in options:
        feed["label"][:, ::2] = options["ignore_index"]
    compare(plain, lowered, feed)


@pytest.mark.parametrize("options", [{"head": "turned"}, {"fetched": True}, {"words": 23}, {"flat": False, "batch": None}])
def test_others_stay(options):
    """A weight held the other way round, scores that are fetched, a number of words that is prime, rows in two unknown axes"""
    plain, lowered = graphs(**options)
    assert not is_cut(lowered)
    compare(plain, lowered, feed_of(plain, options.get("words", WORDS)))


def test_words_that_are_hidden_make_nothing_nan():
    """A whole block of scores of minus infinity"""
    plain, lowered = graphs()
    feed = feed_of(plain)
    feed["x"] = np.abs(feed["x"])
    feed["weight"][: WORDS // 3] = -np.inf
    feed["label"] = np.maximum(feed["label"], WORDS // 3)
    found = run(lowered, feed)
    np.testing.assert_allclose(found[0], run(plain, feed)[0], rtol=2e-6)
    assert np.isfinite(found[0])


def test_large_scores_lose_nothing():
    plain, lowered = graphs()
    feed = feed_of(plain)
    feed["weight"] *= 1e4
    compare(plain, lowered, feed)


@pytest.mark.parametrize("label", [-1, WORDS, WORDS + 100, -WORDS - 1])
def test_a_label_that_is_no_word_gives_nan(label):
    for graph in graphs():
        feed = feed_of(graph)
        feed["label"][0, 0] = label
        assert all(np.isnan(value).any() for value in run(graph, feed))


@pytest.mark.parametrize(("words", "size"), [(8192, 512), (32000, 500), (128256, 501), (50257, None), (4095, None), (4096, 512)])
def test_the_size_of_a_block(monkeypatch, words, size):
    for name, value in {"_FEWEST": 4096, "_LEAST": 256, "_MOST": 1024}.items():
        monkeypatch.setattr(module, name, value)
    assert module._block(words) == size

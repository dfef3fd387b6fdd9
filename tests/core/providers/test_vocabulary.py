"""Cross-entropy over a large vocabulary by blocks of rows: the loss and the gradients of the plain graph."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.providers.losses import vocabulary as module
from tests.core.rules import test_contrib

WORDS, WIDTH, BATCH, LENGTH = 12, 5, 6, 7


@pytest.fixture(autouse=True)
def blocks_of_few_rows(monkeypatch):
    for name, value in {"_LARGE": 100, "_WIDE": 10, "_LEAST_ROWS": 4, "_MOST_ROWS": 6}.items():
        monkeypatch.setattr(module, name, value)


def graphs(
    head="MatMul",
    classes_first=False,
    batch=BATCH,
    trained=True,
    bias=False,
    capped=False,
    flat_input=False,
    weighed=False,
    **attributes,
):
    """The graph of a loss and its gradients, plain and for the CPU."""
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [batch, LENGTH, WIDTH]), static.data("label", [batch, LENGTH], "int64")
    x.stop_gradient = False
    weight = static.create_parameter([WORDS, WIDTH] if head == "tied" else [WIDTH, WORDS], "float32", name="weight")
    offset = static.create_parameter([WORDS], "float32", name="offset")
    rows = op.Reshape(op.Tanh(x), [-1, WIDTH]) if flat_input else op.Tanh(x)
    if head == "Gemm":
        scores = op.Gemm(rows, weight, offset if bias else None)
    else:
        scores = op.MatMul(rows, op.Transpose(weight, perm=[1, 0]) if head == "tied" else weight)
        scores = op.Add(scores, offset) if bias else scores
    if capped:
        scores = op.Mul(op.Tanh(op.Div(scores, np.float32(2))), np.float32(2))
    if classes_first:
        scores = op.Transpose(scores, perm=[0, 2, 1])
    else:
        scores, label = op.Reshape(scores, [-1, WORDS]), op.Reshape(label, [-1])
    weights = [op.constant(np.linspace(0.5, 2, WORDS, dtype=np.float32))] if weighed else []
    loss = op.SoftmaxCrossEntropyLoss(scores, label, *weights, **attributes)
    wanted = [x, *([weight] if trained else []), *([offset] if bias and trained else [])]
    found = [loss, *static.gradients([op.Mul(loss, np.float32(3))], wanted)]
    return [compile(static.default_main_program(), found, provider, state_as_inputs=True) for provider in (None, "cpu")]


def flat_graphs(**attributes):
    """The same of rows whose number is not known."""
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [None, WIDTH]), static.data("label", [None], "int64")
    x.stop_gradient = False
    weight = static.create_parameter([WIDTH, WORDS], "float32", name="weight")
    loss = op.SoftmaxCrossEntropyLoss(op.MatMul(x, weight), label, **attributes)
    found = [loss, *static.gradients([loss], [x, weight])]
    return [compile(static.default_main_program(), found, provider, state_as_inputs=True) for provider in (None, "cpu")]


def feed_of(graph, ignored=None):
    rng = np.random.default_rng(0)
    feed = {}
    for v in graph.inputs:
        shape = [3 if not isinstance(d, int) else d for d in v.dims]
        feed[v.name] = rng.integers(0, WORDS, shape) if v.dtype.is_integer else rng.normal(size=shape).astype(np.float32)
    if ignored is not None:
        feed["label"][:, ::2] = ignored
    return feed


def run(graph, feed):
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([name for name, _ in graph.outputs], feed)


def compare(plain, lowered, ignored=None):
    feed = feed_of(plain, ignored)
    for want, got in zip(run(plain, feed), run(lowered, feed), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def holds_scores(graph):
    """Whether some operator outside of bodies gives scores of all rows."""
    return any(
        v is not None and v.dims is not None and v.rank in (2, 3) and WORDS in v.dims[1:] and WIDTH not in v.dims
        for op in graph.operators
        for v in op.outputs
    )


CASES = {
    "as decoders have it": {"head": "tied"},
    "untied": {},
    "Gemm": {"head": "Gemm", "flat_input": True},
    "Gemm with a bias": {"head": "Gemm", "flat_input": True, "bias": True},
    "bias": {"bias": True},
    "scores within a cap": {"capped": True},
    "classes on axis 1": {"classes_first": True},
    "ignored rows": {"ignore_index": -100},
    "ignored rows, classes on axis 1": {"ignore_index": 3, "classes_first": True},
    "sum": {"reduction": "sum"},
    "sum with ignored rows": {"reduction": "sum", "ignore_index": -100},
}


@pytest.mark.parametrize("batch", [BATCH, 4, None], ids=["known", "does not divide", "unknown"])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_a_frozen_weight_needs_the_scores_of_no_two_blocks_at_once(options, batch):
    plain, lowered = graphs(**options, batch=batch, trained=False)
    assert holds_scores(plain)
    assert not holds_scores(lowered)
    compare(plain, lowered, options.get("ignore_index"))


@pytest.mark.parametrize("batch", [BATCH, 4, None], ids=["known", "does not divide", "unknown"])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_a_trained_weight_reads_the_change_of_all_rows(options, batch):
    plain, lowered = graphs(**options, batch=batch)
    assert [op.type for op in lowered.operators].count("Scan") == 1
    assert "SoftmaxCrossEntropyLoss" not in [op.type for op in lowered.operators]
    compare(plain, lowered, options.get("ignore_index"))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_packed_weight_is_multiplied_by_blocks_too(dtype):
    packed, scales = test_contrib.packed(WORDS, 32, 4, 32)
    stored = {"w": packed, "s": (0.1 * scales).astype(dtype), "flat": np.array([-1, WORDS])}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("MatMulNBits", ["x", "w", "s"], ["p"], domain="com.microsoft", N=WORDS, K=32, block_size=32, bits=4),
        helper.make_node("Cast", ["p"], ["c"], to=1),
        helper.make_node("Reshape", ["c", "flat"], ["scores"]),
        helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "label"], ["loss"], ignore_index=-100),
    ]
    inputs = [helper.make_tensor_value_info("x", kind, ["B", 7, 32]), helper.make_tensor_value_info("label", 7, ["N"])]
    outputs = [helper.make_tensor_value_info("loss", 1, [])]
    weights = [numpy_helper.from_array(v, n) for n, v in stored.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    program = paddle.from_onnx(
        helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=opsets, ir_version=10)
    )
    program.inputs[0].stop_gradient = False
    with static.program_guard(program):
        found = [program.outputs[0], *static.gradients(program.outputs, program.inputs[:1])]
    plain, lowered = (compile(program, found, provider, shapes={"x": (4, 7, 32), "label": (28,)}) for provider in (None, "cpu"))
    whole = [{v.dims for op in graph.operators for v in op.outputs if v is not None} for graph in (plain, lowered)]
    assert (28, WORDS) in whole[0]
    assert not whole[1] & {(28, WORDS), (4, 7, WORDS)}
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(4, 7, 32)).astype(dtype), "label": rng.integers(0, WORDS, 28)}
    feed["label"][3:9] = -100
    for want, got in zip(run(plain, feed), run(lowered, feed), strict=True):
        np.testing.assert_allclose(
            got, want, rtol=2e-6 if dtype is np.float32 else 2e-3, atol=1e-6 if dtype is np.float32 else 1e-4
        )


def squared(op, loss, scores):
    return [op.Mul(loss, loss)]


def also_returned(op, loss, scores):
    return [loss, scores]


def also_read(op, loss, scores):
    return [loss, op.ArgMax(scores, axis=1)]


def read_twice(op, loss, scores):
    return [op.Add(loss, op.ReduceSum(op.Mul(scores, scores), keepdims=0))]


@pytest.mark.parametrize("outputs", [squared, also_returned, also_read, read_twice])
def test_scores_that_something_else_needs_stay_whole(outputs):
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [BATCH * LENGTH, WIDTH]), static.data("label", [BATCH * LENGTH], "int64")
    x.stop_gradient = False
    scores = op.MatMul(x, static.create_parameter([WIDTH, WORDS], "float32"))
    found = outputs(op, op.SoftmaxCrossEntropyLoss(scores, label), scores)
    found += static.gradients([op.ReduceSum(found[0], keepdims=0)], [x])
    plain, lowered = (compile(static.default_main_program(), found, p, state_as_inputs=True) for p in (None, "cpu"))
    assert "Scan" not in [o.type for o in lowered.operators]
    compare(plain, lowered)


@pytest.mark.parametrize("options", [{"weighed": True}, {"reduction": "none"}], ids=["weights of words", "a loss for each row"])
def test_losses_of_another_formula_stay_whole(options):
    plain, lowered = graphs(**options)
    assert holds_scores(lowered)
    compare(plain, lowered)


def test_evaluation_holds_the_scores_of_one_block():
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [None, WIDTH]), static.data("label", [None], "int64")
    loss = op.SoftmaxCrossEntropyLoss(op.MatMul(x, static.create_parameter([WIDTH, WORDS], "float32")), label, reduction="sum")
    plain, lowered = (compile(static.default_main_program(), [loss], p, state_as_inputs=True) for p in (None, "cpu"))
    assert holds_scores(plain)
    assert not holds_scores(lowered)
    compare(plain, lowered)


@pytest.mark.parametrize("head", ["tied", "MatMul"])
def test_a_frozen_weight_is_written_transposed_by_no_step(head):
    plain, lowered = graphs(head=head, trained=False)
    weight = {(WIDTH, WORDS), (WORDS, WIDTH)}
    turned = [{v.shape for op in graph.operators if op.type == "Transpose" for v in op.outputs} for graph in (plain, lowered)]
    assert turned[0] & weight and not turned[1] & weight


@pytest.mark.parametrize("rows", [0, 1, 2, 6, 7, 13, 31])
def test_few_rows_are_no_more_than_they_are(rows):
    """Blocks are equal, and less than one row for each is filled up"""
    plain, lowered = flat_graphs()
    feed = {**feed_of(plain), "x": np.ones((rows, WIDTH), np.float32), "label": np.arange(rows, dtype=np.int64) % WORDS}
    if rows:
        for want, got in zip(run(plain, feed), run(lowered, feed), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    else:  # which onnxruntime's own form refuses
        loss, gx, gw = run(lowered, feed)
        assert np.isnan(loss) and gx.shape == (0, WIDTH) and not gw.any()
    message = write_model(lowered)
    (scan,) = [node for node in message.graph.node if node.op_type == "Scan"]
    message.graph.output.extend([helper.make_tensor_value_info(scan.output[0], 1, None)])
    (losses,) = onnxruntime.InferenceSession(message.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        [scan.output[0]], feed
    )
    assert losses.shape[0] == max(-(-rows // 6), 1)
    assert rows <= losses.size < rows + len(losses) + (rows == 0)


@pytest.mark.parametrize("ignored", ["none", "some", "all but one", "all"])
def test_rows_that_do_not_count_change_nothing(ignored):
    plain, lowered = flat_graphs(ignore_index=-100)
    rng = np.random.default_rng(0)
    feed = {**feed_of(plain), "x": rng.normal(size=(13, WIDTH)).astype(np.float32), "label": rng.integers(0, WORDS, 13)}
    feed["label"][
        {"none": [], "some": [0, 5, 12], "all but one": np.delete(np.arange(13), 7), "all": np.arange(13)}[ignored]
    ] = -100
    for want, got in zip(run(plain, feed), run(lowered, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def test_words_that_are_hidden_make_nothing_nan_and_large_scores_lose_nothing():
    plain, lowered = flat_graphs()
    feed = {**feed_of(plain), "x": np.ones((13, WIDTH), np.float32), "label": np.full(13, WORDS - 1)}
    weight = next(name for name in feed if name not in ("x", "label"))
    for change in (lambda w: w * 1e4, lambda w: np.where(np.arange(WORDS) < 4, -np.inf, w).astype(np.float32)):
        changed = {**feed, weight: change(feed[weight])}
        loss = run(lowered, changed)[0]
        np.testing.assert_allclose(loss, run(plain, changed)[0], rtol=2e-6)
        assert np.isfinite(loss)


@pytest.mark.parametrize("dtype", [None, "float16", "bfloat16"])
@pytest.mark.parametrize(("is_tied", "is_adapted"), [(False, False), (True, False), (False, True)])
def test_mixed_precision_tied_embeddings_and_an_adapter_of_the_head(monkeypatch, dtype, is_tied, is_adapted):
    """An adapter adds a second product to the scores, which then stay whole"""
    op, program = Builder(static.default_main_program().global_block()), static.default_main_program()
    x, label = static.data("x", [None, WIDTH]), static.data("label", [None], "int64")
    x.stop_gradient = False
    weights = [static.create_parameter(shape, "float32") for shape in ([WORDS, WIDTH], [WIDTH, 2], [2, WORDS])]
    h = op.Add(x, op.Gather(weights[0], op.Abs(label))) if is_tied else x
    scores = op.MatMul(h, op.Transpose(weights[0], perm=[1, 0]))
    if is_adapted:
        scores = op.Add(scores, op.MatMul(op.MatMul(h, weights[1]), weights[2]))
    loss = op.SoftmaxCrossEntropyLoss(scores, label, ignore_index=-2)
    if dtype is not None:
        paddle.amp.to_mixed_precision(program, dtype=dtype)
    found = [loss, *static.gradients([loss], [x, *weights[: 3 if is_adapted else 1]])]
    blocks = compile(program, found, "cpu", state_as_inputs=True)
    monkeypatch.setattr(module, "_WIDE", 10**9)
    plain = compile(program, found, "cpu", state_as_inputs=True)
    assert [[op.type for op in graph.operators].count("Scan") for graph in (plain, blocks)] == [0, not is_adapted]
    feed = {
        v.name: np.random.default_rng(i).normal(size=[d or 13 for d in v.shape]).astype(np.float32) for i, v in enumerate(weights)
    }
    feed = {name: value for name, value in feed.items() if name in {v.name for v in plain.inputs}}
    label = np.where(np.arange(13) % 3, np.arange(13) % WORDS, -2)
    feed |= {"x": np.random.default_rng(9).normal(size=(13, WIDTH)).astype(np.float32), "label": label}
    epsilon = {None: 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    for want, got in zip(run(plain, feed), run(blocks, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2 * epsilon * np.abs(want).max())

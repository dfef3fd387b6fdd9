"""Labels that are no classes: refused where they are fed, and a loss and gradients of NaN where a graph computes them."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import errors, static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.bodies import loop_times, write_body
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.providers.losses import vocabulary
from onnxgrad.federated import Worker
from onnxgrad.training import Trainer

ROWS, WIDTH, CLASSES = 6, 5, 24
LABELS = np.array([0, 1, 2, 3, 23, 1])
PROVIDERS = (None, "cpu", "openvino", "webgpu")


@pytest.fixture
def blocks(monkeypatch):
    for name, value in {"_LARGE": 100, "_WIDE": 10, "_LEAST_ROWS": 4, "_MOST_ROWS": 6}.items():
        monkeypatch.setattr(vocabulary, name, value)


def network(loss_type, batch=ROWS, tied=True, classes_known=True, shift=0, weighed=False, **attributes):
    """A loss of computed labels with its gradients of scores and weight, one after the other, in the main program."""
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [batch, WIDTH]), static.data("label", [batch], "int64")
    x.stop_gradient = False
    weight = static.create_parameter([CLASSES, WIDTH] if tied else [WIDTH, CLASSES], "float32", name="weight")
    scores = op.MatMul(op.Tanh(x), op.Transpose(weight, perm=[1, 0]) if tied else weight)
    if not classes_known:
        scores = op.Slice(scores, [0], static.data("classes", [1], "int64"), [1])
    if loss_type == "NegativeLogLikelihoodLoss":
        scores = op.LogSoftmax(scores, axis=1)
    weights = [op.constant(np.linspace(0.5, 2, CLASSES, dtype=np.float32))] if weighed else []
    loss = op.emit(loss_type, (scores, op.Add(label, np.array(shift)), *weights), attributes)
    return [loss, *static.gradients([loss], [x, weight])]


def run(graph, label, shape=(ROWS, WIDTH), tied=True):
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=shape).astype(np.float32), "label": label, "classes": np.array([CLASSES])}
    feed["weight"] = rng.normal(size=(CLASSES, WIDTH) if tied else (WIDTH, CLASSES)).astype(np.float32)
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([name for name, _ in graph.outputs], {i.name: feed[i.name] for i in session.get_inputs()})


def passes(graph):
    return {rewrite.name for rewrite in graph.rewrites}


WRONG = (-1, -CLASSES, -CLASSES - 1, CLASSES, CLASSES + 7, 2**33, -(2**33))


@pytest.mark.parametrize("ignored", [None, -100, 3])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss_type", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_every_form_gives_nan(loss_type, reduction, ignored):
    attributes = {"reduction": reduction, **({} if ignored is None else {"ignore_index": ignored})}
    found = network(loss_type, **attributes)
    main = static.default_main_program()
    unguarded = compile(main, found, state_as_inputs=True, checks_labels=True)
    plain = run(unguarded, LABELS)
    for provider in PROVIDERS:
        graph = compile(main, found, provider, state_as_inputs=True)
        assert "label_range" in passes(graph)
        for want, got in zip(plain, run(graph, LABELS), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
        for wrong in (*WRONG, *([-100] if ignored != -100 else [])):
            label = LABELS.copy()
            label[2] = wrong
            loss, of_rows, of_weight = run(graph, label)
            if reduction == "none":
                assert np.isnan(loss).tolist() == [row == 2 for row in range(ROWS)]
                assert np.isnan(of_rows).any(axis=1).tolist() == [row == 2 for row in range(ROWS)]
            else:
                assert np.isnan(loss) and np.isnan(of_rows).any()
            assert np.isnan(of_weight).any()


@pytest.mark.parametrize(
    "attributes", [{}, {"ignore_index": -100}, {"reduction": "sum"}, {"ignore_index": 2, "reduction": "sum"}], ids=str
)
@pytest.mark.parametrize("batch", [ROWS, None])
def test_the_form_by_blocks_stays_and_gives_nan(blocks, attributes, batch):
    found = network("SoftmaxCrossEntropyLoss", batch, **attributes)
    graph = compile(static.default_main_program(), found, "cpu", state_as_inputs=True)
    assert {"label_range", "vocabulary"} <= passes(graph)
    plain = run(compile(static.default_main_program(), found, state_as_inputs=True, checks_labels=True), LABELS)
    for want, got in zip(plain, run(graph, LABELS), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    for wrong in WRONG:
        label = LABELS.copy()
        label[0] = wrong
        assert all(np.isnan(value).any() for value in run(graph, label))


@pytest.mark.parametrize("options", [{"classes_known": False}, {"weighed": True}, {"batch": None}], ids=str)
def test_the_guard_needs_no_known_shape(options):
    found = network("SoftmaxCrossEntropyLoss", ignore_index=-100, **options)
    graph = compile(static.default_main_program(), found, "cpu", state_as_inputs=True)
    assert np.isfinite(run(graph, LABELS)[0])
    assert all(np.isnan(value).any() for value in run(graph, np.where(LABELS == 2, CLASSES, LABELS)))


def test_labels_that_are_known_classes_cost_nothing():
    op = Builder(static.default_main_program().global_block())
    x = static.data("x", [2, 3])
    for label, guarded in (([0, 2], False), ([0, -100], False), ([0, 3], True), ([-1, 0], True)):
        loss = op.SoftmaxCrossEntropyLoss(x, op.constant(np.array(label)), ignore_index=-100)
        assert ("label_range" in passes(compile(static.default_main_program(), [loss]))) is guarded


def test_a_graph_that_is_guarded_is_not_guarded_again():
    found = network("SoftmaxCrossEntropyLoss")
    graph = compile(static.default_main_program(), found, state_as_inputs=True)
    again = compile(graph.program, [graph.of(v) for v in found], state_as_inputs=True)
    assert "label_range" not in passes(again)


# Fed -------------------------------------------------------------------------------------------------------------------

VIEWS = {
    "as they are": ([None], lambda op, label: label),
    "a column": ([None, 1], lambda op, label: op.Squeeze(label, [1])),
    "flat": ([None, 1], lambda op, label: op.Reshape(label, [-1])),
    "in three axes": ([None, 1, 1], lambda op, label: op.Squeeze(op.Squeeze(label, [1]), [1])),
    "there and back": ([None], lambda op, label: op.Squeeze(op.Unsqueeze(label, [1]), [1])),
    "identity": ([None], lambda op, label: op.Identity(label)),
}


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8", "int16"])
@pytest.mark.parametrize("view", VIEWS)
def test_labels_that_are_fed_are_refused_and_nothing_is_trained(view, dtype, trains):
    dims, seen = VIEWS[view]
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [None, WIDTH]), static.data("label", dims, dtype)
    rows = seen(op, label)
    rows = rows if dtype in ("int64", "int32") else op.Cast(rows, to=7)
    loss = F.cross_entropy(static.nn.fc(x, CLASSES), rows, ignore_index=-100)
    if trains:
        paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    (weight, *_) = static.default_main_program().all_parameters()
    before = weight.get_value()
    for good in (0, CLASSES - 1, *([-100] if not dtype.startswith("u") else [])):
        labels = np.full(LABELS.shape, good).astype(x.block.vars["label"].dtype.numpy)
        feed = {"x": np.ones((ROWS, WIDTH), np.float32), "label": labels.reshape([-1, *dims[1:]])}
        assert np.isfinite(executor.run(feed=feed, fetch_list=[loss])[0])
    weight.set_value(before)
    for wrong in (-1, CLASSES, -99, 127, *((2**31 - 1, -(2**31)) if dtype in ("int32", "int64") else ())):
        if wrong < 0 and dtype.startswith("u"):
            continue
        labels = LABELS.copy()
        labels[3] = wrong
        feed["label"] = labels.astype(label.dtype.numpy).reshape([-1, *dims[1:]])
        for value in (feed["label"], feed["label"].tolist(), onnxruntime.OrtValue.ortvalue_from_numpy(feed["label"])):
            with pytest.raises(errors.FeedError, match=f"'label' holds the label {wrong}; the loss that reads it has 24 classes"):
                executor.run(feed={**feed, "label": value}, fetch_list=[loss])
    np.testing.assert_array_equal(weight.get_value(), before)


def test_labels_that_are_fed_cost_no_operator():
    x, label = static.data("x", [None, CLASSES]), static.data("label", [None, 1], "int64")
    loss = F.cross_entropy(x, label)
    graph = compile(static.default_main_program(), [loss], "cpu", checks_labels=True)
    assert "label_range" not in passes(graph)
    assert [tuple(entry) for entry in graph.labels] == [("label", CLASSES, -100)]


def test_a_cast_to_fewer_bits_may_make_an_ignored_label():
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [None, 3]), static.data("label", [None], "int64")
    loss = op.SoftmaxCrossEntropyLoss(x, op.Cast(op.Cast(label, to=2), to=7), ignore_index=255)
    graph = compile(static.default_main_program(), [loss], checks_labels=True)
    assert not graph.labels and "label_range" in passes(graph)
    (value,) = static.Executor().run(feed={"x": np.zeros((2, 3), np.float32), "label": np.array([0, -1])}, fetch_list=[loss])
    np.testing.assert_allclose(value, np.log(3), rtol=1e-6)


def test_the_low_memory_step_refuses_too():
    x, label = static.data("x", [None, WIDTH]), static.data("label", [None], "int64")
    loss = F.cross_entropy(static.nn.fc(x, CLASSES), label)
    paddle.optimizer.Adam(0.1).minimize(loss)
    executor = static.Executor(memory="low")
    executor.run(static.default_startup_program())
    with pytest.raises(errors.FeedError, match="holds the label -1"):
        executor.run(feed={"x": np.ones((2, WIDTH), np.float32), "label": np.array([0, -1])}, fetch_list=[loss])


# Doors ---------------------------------------------------------------------------------------------------------------


def classifier():
    """A program that gives scores of 3 classes."""
    program = static.Program()
    with static.program_guard(program, static.Program()):
        x = static.data("x", [None, WIDTH])
        weight = static.create_parameter([WIDTH, 3], "float32", name="weight")
        weight.set_value(np.ones((WIDTH, 3), np.float32))
        program.global_block().outputs.append(paddle.matmul(x, weight))
    return program


@pytest.mark.parametrize("wrong", [-1, 3, -99])
def test_a_trainer_refuses_in_every_method(wrong):
    trainer = Trainer(classifier(), loss="cross_entropy", optimizer="sgd")
    data = {"x": np.ones((4, WIDTH), np.float32), "target": np.array([0, 1, wrong, 2])}
    for method in (trainer.step, trainer.evaluate, lambda data: trainer.fit(data, verbose=False)):
        with pytest.raises(errors.DataError, match=f"label {wrong}"):
            method(data)
    # A worker runs a written step, which does not know what is fed for labels.
    worker = Worker(trainer)
    before = worker.get()
    with pytest.raises(errors.TrainingError, match="nan"):
        worker.fit(data)
    for old, new in zip(before, worker.get(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("wrong", [-1, 3, 300, -100])
def test_eager_tensors_refuse_labels(wrong):
    paddle.disable_static()
    try:
        x = paddle.to_tensor(np.ones((2, 3), np.float32), stop_gradient=False)
        label = paddle.to_tensor(np.array([0, wrong]))
        if wrong == -100:
            assert np.isfinite(F.cross_entropy(x, label).numpy())
            return
        with pytest.raises(errors.FeedError, match=f"label {wrong}"):
            F.cross_entropy(x, label).numpy()
        with pytest.raises(errors.FeedError, match=f"label {wrong}"):
            F.cross_entropy(x, label * 1).numpy()
        for labels in (label, label * 1, label.unsqueeze(1)):
            # onnxruntime itself refuses what lies behind the last class, and names the operator.
            for loss in (F.cross_entropy, F.nll_loss, F.softmax_with_cross_entropy):
                with pytest.raises(errors.OnnxGradError, match="label -1" if wrong == -1 else "label|out of data bounds"):
                    paddle.grad(paddle.sum(loss(x, labels.reshape([-1] if loss is F.nll_loss else [-1, 1]))), x)[0].numpy()
    finally:
        paddle.enable_static()


LOSSES = {
    "smoothed": lambda x, label: F.cross_entropy(x, label, label_smoothing=0.1),
    "smoothed, weighed": lambda x, label: F.cross_entropy(x, label, paddle.ones([4]), label_smoothing=0.1),
    "margin": lambda x, label: F.multi_margin_loss(x, label),
    "dice": lambda x, label: F.dice_loss(F.softmax(x), paddle.unsqueeze(label, 1)),
    "softmax": lambda x, label: paddle.mean(F.softmax_with_cross_entropy(x, paddle.unsqueeze(label, 1))),
    "nll": lambda x, label: F.nll_loss(F.log_softmax(x), label),
    "cross_entropy": lambda x, label: F.cross_entropy(x, label),
}


@pytest.mark.parametrize("wrong", [-1, 4, -5, 300])
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_classes_gives_nan(name, wrong):
    x, label = static.data("x", [None, 4]), static.data("label", [None], "int64")
    x.stop_gradient = False
    loss = LOSSES[name](x, label * 1)
    (gradient,) = static.gradients([loss], [x])
    feed = {"x": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}
    executor = static.Executor()
    good, _ = executor.run(feed={**feed, "label": np.array([0, 3, 1])}, fetch_list=[loss, gradient])
    bad, of_scores = executor.run(feed={**feed, "label": np.array([0, wrong, 1])}, fetch_list=[loss, gradient])
    assert np.isfinite(good) and np.isnan(bad) and np.isnan(of_scores).any()


# In bodies, and where the loss is not computed ---------------------------------------------------------------------------


def if_body(op, scores, label, loss_type, attributes):
    def branch(program, name):
        block = program.new_block(op.block, name)
        build = Builder(block, key=name)
        block.outputs = [build.emit(loss_type, (scores, build.Add(label, np.array(0))), attributes)]
        return block

    program = op.block.program
    return op.If(static.data("chosen", [], "bool"), then_branch=branch(program, "then"), else_branch=branch(program, "else"))


def loop_body(op, scores, label, loss_type, attributes):
    def step(build, i, total):
        return build.Add(total, build.emit(loss_type, (scores, build.Add(label, build.Mul(i, np.array(0)))), attributes))

    start = op.constant(np.zeros((ROWS,) if attributes["reduction"] == "none" else (), np.float32))
    (total,) = loop_times(op, np.array(1), [("total", start)], step)
    return total


def scan_body(op, scores, label, loss_type, attributes):
    types = [("scores", TensorType(scores.dtype, (ROWS, CLASSES))), ("label", TensorType(label.dtype, (ROWS,)))]
    body = write_body(op, "scan", types, lambda build, x, at: build.emit(loss_type, (x, build.Add(at, np.array(0))), attributes))
    stacked = op.Scan(op.Unsqueeze(scores, [0]), op.Unsqueeze(label, [0]), body=body, num_scan_inputs=2)
    return op.Squeeze(stacked, [0])


def nested_body(op, scores, label, loss_type, attributes):
    types = [("scores", TensorType(scores.dtype, (ROWS, CLASSES))), ("label", TensorType(label.dtype, (ROWS,)))]

    def write(build, x, at):
        def branch(name):
            block = build.block.program.new_block(build.block, name)
            inner = Builder(block, key=name)
            block.outputs = [inner.emit(loss_type, (x, inner.Add(at, np.array(0))), attributes)]
            return block

        return build.If(chosen, then_branch=branch("then"), else_branch=branch("else"))

    chosen = static.data("chosen", [], "bool")
    stacked = op.Scan(
        op.Unsqueeze(scores, [0]), op.Unsqueeze(label, [0]), body=write_body(op, "scan", types, write), num_scan_inputs=2
    )
    return op.Squeeze(stacked, [0])


BODIES = {"If": if_body, "Loop": loop_body, "Scan": scan_body, "If in Scan": nested_body}


@pytest.mark.parametrize("ignored", [None, -100])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss_type", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("body", BODIES)
def test_losses_in_bodies_and_their_gradients_give_nan(body, loss_type, reduction, ignored):
    """-1 trained the last class"""
    attributes = {"reduction": reduction, **({} if ignored is None else {"ignore_index": ignored})}
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [ROWS, CLASSES]), static.data("label", [ROWS], "int64")
    x.stop_gradient = False
    scores = op.LogSoftmax(x, axis=1) if loss_type == "NegativeLogLikelihoodLoss" else x
    inside = BODIES[body](op, scores, label, loss_type, attributes)
    outside = op.emit(loss_type, (scores, op.Add(label, np.array(0))), attributes)
    (g,), (expected,) = (static.gradients([loss], [x]) for loss in (inside, outside))
    feed = {"x": np.random.default_rng(0).normal(size=(ROWS, CLASSES)).astype(np.float32), "chosen": np.array(True)}
    executor = static.Executor()

    def ran(label, *fetches):
        return executor.run(feed={**feed, "label": np.array(label)}, fetch_list=list(fetches))

    good = [0, 1, 2, CLASSES - 1, 1, 3 if ignored is None else ignored]
    for a, b in zip(ran(good, inside, g), ran(good, outside, expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    for wrong in (-1, -CLASSES, CLASSES, CLASSES + 7, 2**33, *([-100] if ignored is None else [])):
        bad = [0, 1, wrong, 2, 1, 3]
        for a, b in zip(ran(bad, inside, g), ran(bad, outside, expected), strict=True):
            assert np.isnan(a).any() and (np.isnan(a) == np.isnan(b)).all(), wrong
        (alone,) = ran(bad, g)
        assert np.isnan(alone).any(), wrong


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss_type", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_derivatives_give_nan_where_nobody_computes_the_loss(loss_type, reduction):
    """A gradient that was fetched without its loss, Jacobians, Hessians and gradients of each example were those of another class"""
    op = Builder(static.default_main_program().global_block())
    x, label = static.data("x", [ROWS, CLASSES]), static.data("label", [ROWS], "int64")
    x.stop_gradient = False
    w = static.create_parameter([CLASSES], "float32", name="w")
    w.set_value(np.linspace(0.5, 2, CLASSES, dtype=np.float32))
    h = x * w
    scores = op.LogSoftmax(h, axis=1) if loss_type == "NegativeLogLikelihoodLoss" else h
    loss = op.emit(loss_type, (scores, op.Add(label, np.array(0))), {"reduction": reduction})
    derivatives = [*static.gradients([loss], [x]), paddle.jacobian(loss, x), paddle.vjp(loss, w)[0]]
    derivatives += [paddle.jvp(loss, w, static.data("t", [CLASSES]))[0]]
    if reduction == "none":
        derivatives += [paddle.per_example_gradients(loss, w)[0]]
    else:
        derivatives += [paddle.hessian(loss, w)]
    feed = {"x": np.random.default_rng(0).normal(size=(ROWS, CLASSES)).astype(np.float32), "t": np.ones(CLASSES, np.float32)}
    for v in derivatives:
        for wrong, is_nan in ((-1, True), (CLASSES, True), (CLASSES - 1, False)):
            (found,) = static.Executor().run(feed={**feed, "label": np.array([0, 1, wrong, 2, 1, 3])}, fetch_list=[v])
            assert np.isnan(found).any() == is_nan, (v.name, wrong)

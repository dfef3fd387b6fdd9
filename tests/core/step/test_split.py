"""Gradients and their application as two models: together they are one training step."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ArgumentError

RANDOM = np.random.default_rng(0)
IMAGES, LABELS = RANDOM.normal(size=(8, 3)).astype(np.float32), RANDOM.integers(0, 2, 8)


class Runner:
    """A model and the part of the manifest that describes it."""

    def __init__(self, model, part):
        onnx.checker.check_model(model, full_check=True)
        assert {node.domain for node in model.graph.node} == {""}
        self.session = onnxruntime.InferenceSession(model.SerializeToString())
        self.part = part

    def __call__(self, given, state):
        held = {entry["name"]: state[entry["name"]] for entry in self.part["state"] + self.part["constants"]}
        results = dict(zip([o.name for o in self.session.get_outputs()], self.session.run(None, {**given, **held}), strict=True))
        state.update({entry["input"]: results[entry["output"]] for entry in self.part["state"]})
        return results


def network():
    image, label = static.data("image", ["N", 3]), static.data("label", ["N"], "int64")
    hidden = static.nn.batch_norm(static.nn.fc(image, 5), act="relu")
    loss = F.cross_entropy(static.nn.fc(F.dropout(hidden, 0.2), 2), label)
    optimizer = paddle.optimizer.AdamW(0.05, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5))
    optimizer.minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return loss, executor


def stored(manifest, folder):
    content = (folder / manifest["values"]).read_bytes()
    return {
        entry["name"]: np.frombuffer(content, entry["dtype"], np.prod(entry["shape"], dtype=int), entry["offset"]).reshape(
            entry["shape"]
        )
        for part in (manifest["gradients"], manifest["apply"])
        for entry in part["state"] + part["constants"]
    }


def test_two_files_train_as_the_program_does(tmp_path):
    loss, executor = network()
    paddle.save_split_training_step(loss.block.program, tmp_path / "step", [loss], batch_norm="local")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step.bin", "step.json", "step_apply.onnx", "step_gradients.onnx"]
    manifest = json.loads((tmp_path / "step.json").read_text())
    gradients, apply = (Runner(onnx.load(tmp_path / part["model"]), part) for part in (manifest["gradients"], manifest["apply"]))
    state = stored(manifest, tmp_path)
    feeds = {"image": IMAGES, "label": LABELS}
    for _ in range(4):
        results = gradients(feeds, state)
        apply({entry["gradient"]: results[entry["gradient"]] for entry in manifest["exchange"]}, state)
        (expected,) = executor.run(feed=feeds, fetch_list=[loss])
        np.testing.assert_allclose(results[manifest["gradients"]["fetches"][0]["name"]], expected, rtol=1e-6)


def test_exchange_is_one_gradient_for_each_parameter_and_nothing_else():
    loss, _ = network()
    _, _, manifest = paddle.to_split_training_step(loss.block.program, [loss], batch_norm="local")
    program = loss.block.program
    shapes = {entry["name"]: entry["shape"] for entry in manifest["apply"]["feeds"]}
    assert {entry["parameter"] for entry in manifest["exchange"]} == {p.name for p in program.parameters if p.trainable}
    assert {entry["gradient"] for entry in manifest["exchange"]} == set(shapes)
    for entry in manifest["exchange"]:
        assert shapes[entry["gradient"]] == list(program.find(entry["parameter"]).shape)
    assert [entry["name"] for entry in manifest["gradients"]["fetches"]] == [loss.name]
    assert manifest["gradients"]["learning_rate"] == [] and len(manifest["apply"]["learning_rate"]) == 1


def test_gradients_averaged_over_two_workers_are_those_of_the_whole_batch():
    x = static.data("x", ["N", 3])
    loss = paddle.mean(paddle.square(static.nn.fc(x, 1) - 1.0))
    paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    first, second, manifest = paddle.to_split_training_step(loss.block.program, [loss])
    gradients, apply = Runner(first, manifest["gradients"]), Runner(second, manifest["apply"])
    state = {t.name: onnx.numpy_helper.to_array(t) for model in (first, second) for t in model.graph.initializer}
    for _ in range(3):
        workers = [gradients({"x": part}, state) for part in (IMAGES[:4], IMAGES[4:])]
        apply({e["gradient"]: (workers[0][e["gradient"]] + workers[1][e["gradient"]]) / 2 for e in manifest["exchange"]}, state)
        executor.run(feed={"x": IMAGES})
    weight = loss.block.program.find("fc_0.w_0").get_value()
    np.testing.assert_allclose(state["fc_0.w_0"], weight, rtol=1e-5)


def test_a_program_without_optimizer_is_refused():
    loss = paddle.mean(static.nn.fc(static.data("x", ["N", 3]), 1))
    with pytest.raises(ArgumentError, match="minimize"):
        paddle.to_split_training_step(loss.block.program, [loss])


# Parts of a batch ------------------------------------------------------------------------------------------------------------

X, Y = RANDOM.normal(size=(8, 3)).astype(np.float32), RANDOM.integers(0, 4, 8)
SOME = Y.copy()
SOME[[0, 1, 2, 6]] = 5
FIRST_ONLY = Y.copy()
FIRST_ONLY[3:] = 5


def scores():
    return static.nn.fc(static.data("x", ["N", 3]), 4)


def labels():
    return static.data("label", ["N"], "int64")


def parameter(values):
    p = static.create_parameter([len(values)], "float32", default_initializer=paddle.nn.initializer.Assign(np.float32(values)))
    p.stop_gradient = True
    return p


def penalised(y):
    return F.cross_entropy(y, labels()) + 0.1 * paddle.mean(paddle.square(y.block.program.all_parameters()[0]))


def two_terms(y):
    return 0.5 * F.cross_entropy(y, labels()) - paddle.mean(paddle.tanh(y))


def onnx_loss(**attributes):
    return lambda y: y.block.build.SoftmaxCrossEntropyLoss(y, labels(), **attributes)


LOSSES = {
    "mean": (lambda y: F.cross_entropy(y, labels()), Y),
    "ignored labels": (lambda y: F.cross_entropy(y, labels(), ignore_index=5), SOME),
    "only ignored labels in one part": (lambda y: F.cross_entropy(y, labels(), ignore_index=5), FIRST_ONLY),
    "weights of classes": (lambda y: F.cross_entropy(y, labels(), weight=parameter([0.1, 3.0, 1.0, 0.5])), Y),
    "sum": (lambda y: F.cross_entropy(y, labels(), reduction="sum"), Y),
    "mean of squares": (lambda y: paddle.mean(paddle.square(y - 0.5)), None),
    "mean of sums": (lambda y: paddle.mean(paddle.sum(paddle.square(y), axis=1)), None),
    "mean of means": (lambda y: paddle.mean(paddle.mean(paddle.square(y), axis=0)), None),
    "penalty of weights": (penalised, Y),
    "two terms": (two_terms, Y),
    "ONNX's, ignored labels": (onnx_loss(ignore_index=5), SOME),
    "ONNX's, a part without labels": (onnx_loss(ignore_index=5), FIRST_ONLY),
    "ONNX's, sum": (onnx_loss(reduction="sum"), Y),
}


def together(results, manifest, name):
    """What the manifest says the parts make"""
    if manifest["reduction"] == "sum":
        return sum(r[name] for r in results)
    weighed = [(r[manifest["weight"]], r[name]) for r in results if r[manifest["weight"]]]
    return sum(w * v for w, v in weighed) / sum(w for w, _ in weighed)


@pytest.mark.parametrize("cut", [4, 3])
@pytest.mark.parametrize(("make", "label"), LOSSES.values(), ids=LOSSES)
def test_parts_make_the_step_of_the_whole_batch(make, label, cut):
    loss = make(scores())
    program, executor = loss.block.program, static.Executor()
    before = len(program.global_block().ops)
    paddle.optimizer.Adam(0.05, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)).minimize(loss)
    executor.run(static.default_startup_program())
    known = len(program.global_block().ops)
    first, second, manifest = paddle.to_split_training_step(program, [loss])
    assert len(program.global_block().ops) == known > before
    gradients, apply = Runner(first, manifest["gradients"]), Runner(second, manifest["apply"])
    state = {t.name: onnx.numpy_helper.to_array(t) for model in (first, second) for t in model.graph.initializer}
    feeds = {"x": X} if label is None else {"x": X, "label": label}
    for _ in range(4):
        results = [gradients({k: v[rows] for k, v in feeds.items()}, state) for rows in (slice(cut), slice(cut, None))]
        (expected,) = executor.run(program, feeds, [loss])
        np.testing.assert_allclose(together(results, manifest, loss.name), expected, rtol=2e-6)
        apply({e["gradient"]: together(results, manifest, e["gradient"]) for e in manifest["exchange"]}, state)
    for p in program.all_parameters():
        np.testing.assert_allclose(state[p.name], p.get_value(), rtol=2e-5, atol=1e-6)


UNKNOWN = {
    "root of a mean": (lambda y: paddle.sqrt(paddle.mean(paddle.square(y))), "comes from Sqrt"),
    "products of examples": (lambda y: paddle.mean(paddle.matmul(y, y, transpose_x=True)), "however large the batch is"),
    "sum and penalty": (
        lambda y: paddle.sum(y) + paddle.sum(paddle.square(y.block.program.all_parameters()[0])),
        "a term that does not depend on them",
    ),
    "means over different numbers": (
        lambda y: paddle.mean(y) + F.cross_entropy(y, labels(), ignore_index=5),
        "divided by different numbers",
    ),
    "weights that are trained": (
        lambda y: F.cross_entropy(y, labels(), weight=static.create_parameter([4], "float32")),
        "depend on the data",
    ),
}


@pytest.mark.parametrize(("make", "reason"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_loss_that_does_not_say_how_parts_add_up_is_refused(make, reason):
    loss = make(scores())
    paddle.optimizer.SGD(0.1).minimize(loss)
    with pytest.raises(ArgumentError, match=f"{reason}.*loss_weight="):
        paddle.to_split_training_step(loss.block.program, [loss])


def test_the_weight_may_be_named():
    y = scores()
    weight = paddle.cast(paddle.shape(y)[0], "float32")
    loss = paddle.sqrt(paddle.mean(paddle.square(y)))
    paddle.optimizer.SGD(0.1).minimize(loss)
    static.Executor().run(static.default_startup_program())
    manifest = paddle.to_split_training_step(loss.block.program, [loss], loss_weight=weight)[2]
    assert (manifest["reduction"], manifest["weight"]) == ("mean", weight.name)
    manifest = paddle.to_split_training_step(loss.block.program, [loss], loss_weight="sum")[2]
    assert (manifest["reduction"], manifest["weight"]) == ("sum", None)


def test_batch_statistics_are_refused_unless_each_part_may_have_its_own():
    loss, _ = network()
    with pytest.raises(ArgumentError, match=r"BatchNormalization.*batch_norm='local'"):
        paddle.to_split_training_step(loss.block.program, [loss])
    manifest = paddle.to_split_training_step(loss.block.program, [loss], batch_norm="local")[2]
    statistics = [entry["input"] for entry in manifest["gradients"]["state"] if entry["statistic"]]
    assert sorted(name.rpartition(".")[2] for name in statistics) == ["w_1", "w_2"]
    assert {entry["input"] for entry in manifest["gradients"]["state"]} - set(statistics) == {"dropout_step"}


def test_which_of_two_losses_is_meant_must_be_said():
    y = scores()
    losses = [F.cross_entropy(y, labels()), paddle.mean(paddle.square(y))]
    for loss in losses:
        paddle.optimizer.SGD(0.1).minimize(loss)
    static.Executor().run(static.default_startup_program())
    with pytest.raises(ArgumentError, match=r"2 variables may be the loss.*loss="):
        paddle.to_split_training_step(y.block.program, losses)
    assert paddle.to_split_training_step(y.block.program, losses, loss=losses[1])[2]["reduction"] == "mean"

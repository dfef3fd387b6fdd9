"""Micro-batches and ranks train what one process trains on the whole batch, whatever the parts count."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.training import Distillation, Term, Trainer
from tests.distributed.test_trainer import on_ranks
from tests.training import small

rng = np.random.default_rng(0)
EXAMPLES = 24
DATA = {
    "x": rng.normal(size=(EXAMPLES, 4)).astype(np.float32),
    "target": rng.integers(0, 3, EXAMPLES),
    "weight": np.where(np.arange(EXAMPLES) < 14, 0.1, rng.uniform(1, 3, EXAMPLES)).astype(np.float32),
}
UNEVEN = {**DATA, "target": np.where((np.arange(EXAMPLES) % 8 < 5) & (np.arange(EXAMPLES) > 5), -100, DATA["target"])}
"""Labels that count: six of the first six, and later none to three of eight."""
NONE = {**DATA, "target": np.where(np.arange(EXAMPLES) < 12, -100, DATA["target"])}
"""No label counts in the first half."""


def square(output, target):
    return paddle.mean(paddle.sum(output * output, axis=1))


def penalised(output, target):
    weights = [p for p in output.block.program.all_parameters() if p.name == "head.weight"]
    return paddle.mean(paddle.square(output)) + 0.1 * paddle.sum(paddle.square(weights[0]))


LABELS = Term("cross_entropy")
BESIDE = Term(square, dtype="int64", shape=[None], weight=0.3)
LOSSES = {
    "labels that count": LABELS,
    "smoothed": Term("cross_entropy", label_smoothing=0.1),
    "weights of examples": Term("cross_entropy", sample_weight="weight"),
    "weights of classes": Term("cross_entropy", class_weights=[1.0, 5.0, 0.2]),
    "two divisors": [LABELS, BESIDE],
    "a penalty": [LABELS, Term(penalised, dtype="int64", shape=[None], weight=0.2)],
}
SETTINGS = {"accumulation 4": (1, 4), "accumulation 3, 2 ranks": (2, 3), "2 ranks": (2, 1), "3 ranks": (3, 1), "7 ranks": (7, 1)}


def fitted(data, accumulate=1, batch_size=EXAMPLES, **options):
    options = {"optimizer": "sgd", "learning_rate": 0.5, "batch_norm": "frozen", **options}
    trainer = Trainer(
        small.model(small.TEXT.replace("Dropout (active, rate)", "Identity (active)")), accumulate=accumulate, **options
    )
    used = {name: array for name, array in data.items() if name in trainer.columns}
    history = trainer.fit(used, 3, used, batch_size=batch_size // accumulate, shuffle=False, verbose=False)
    return history, {p.name: np.array(p.get_value()) for p in trainer.trained}


def assert_like_one_process(setting, data, rtol=2e-5, **options):
    ranks, accumulate = SETTINGS[setting]
    history, expected = fitted(data, **options)
    results = (
        [fitted(data, accumulate, **options)]
        if ranks == 1
        else on_ranks(ranks, lambda transport: fitted(data, accumulate, distributed=options.get("distributed", True), **options))
    )
    for rows, weights in results:
        for name, value in expected.items():
            np.testing.assert_allclose(weights[name], value, rtol=rtol, atol=2e-6, err_msg=name)
        for row, wanted in zip(rows, history, strict=True):
            assert row["val_loss"] == pytest.approx(wanted["val_loss"], rel=2e-5)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("data", [UNEVEN, NONE], ids=["uneven labels", "parts without labels"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_parts_train_what_one_process_trains(setting, data, loss):
    assert_like_one_process(setting, data, loss=loss)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss_scale", [0, 1024.0])
def test_a_teacher_and_a_scaled_loss(setting, loss_scale):
    teacher = Distillation(small.model(), temperature=2.0, weight=0.4)
    assert_like_one_process(setting, UNEVEN, loss="cross_entropy", teacher=teacher, loss_scale=loss_scale, clip_norm=0.5)


@pytest.mark.parametrize("data", [UNEVEN, NONE], ids=["uneven labels", "parts without labels"])
@pytest.mark.parametrize("loss", [LABELS, [LABELS, BESIDE]], ids=["one divisor", "two divisors"])
@pytest.mark.parametrize("setting", ["2 ranks", "3 ranks"])
def test_synchronised_statistics(setting, loss, data):
    ranks, _ = SETTINGS[setting]
    history, expected = fitted(data, loss=loss, batch_norm="train")
    strategy = Strategy(batch_norm="sync")
    for rows, weights in on_ranks(ranks, lambda transport: fitted(data, loss=loss, batch_norm="train", distributed=strategy)):
        for name, value in expected.items():
            np.testing.assert_allclose(weights[name], value, rtol=2e-4, atol=1e-5, err_msg=name)
        assert [row["val_loss"] for row in rows] == pytest.approx([row["val_loss"] for row in history], rel=2e-4)


def test_a_step_in_which_nothing_counts_on_any_rank_says_so():
    """As one process does: the loss is 0 / 0"""
    nothing = {**DATA, "target": np.full(EXAMPLES, -100)}
    for accumulate in (1, 2):
        history, _ = fitted(UNEVEN, accumulate, loss=LABELS)
        assert np.isfinite([row["loss"] for row in history]).all()
    for loss in (LABELS, [LABELS, BESIDE]):
        with pytest.raises(TrainingError, match="the loss is nan"):
            fitted(nothing, loss=loss)

        def work(transport, loss=loss):
            with pytest.raises(TrainingError, match="the loss is nan"):
                fitted(nothing, loss=loss, distributed=True)

        on_ranks(3, work)


@pytest.mark.parametrize("batch_size", [1, 5, 24])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_evaluation_does_not_depend_on_the_size_of_a_batch(loss, batch_size):
    trainer = Trainer(small.model(), loss=loss, metrics=["accuracy"])
    used = {name: array for name, array in UNEVEN.items() if name in trainer.columns}
    expected = trainer.evaluate(used, batch_size=EXAMPLES)
    assert trainer.evaluate(used, batch_size=batch_size) == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_is_no_mean_is_refused_where_there_are_parts():
    def root(output, target):
        return paddle.sqrt(paddle.mean(paddle.square(output)))

    term = Term(root, dtype="int64", shape=[None])
    with pytest.raises(ArgumentError, match="comes from Sqrt"):
        Trainer(small.model(), loss=term, accumulate=2)
    trainer = Trainer(small.model(), loss=term)
    assert any("whatever their size" in remark for remark in trainer.remarks)


def in_batch_negatives(output, target):
    """Each example against all others of the batch"""
    scores = paddle.matmul(output, output, transpose_y=True)
    return paddle.mean(F.cross_entropy(scores, target, reduction="none"))


def centred(output, target):
    return paddle.mean(paddle.square(output - paddle.mean(output, axis=0, keepdim=True)))


def softmax_over_the_batch(output, target):
    return paddle.mean(F.softmax(output, axis=0) * output)


def branch_by_a_mean(output, target):
    scale = static.nn.cond(paddle.mean(output) > 0, lambda: paddle.full([1], 1.0), lambda: paddle.full([1], 2.0))
    return paddle.mean(paddle.square(output) * scale)


MIXING = {
    "triplet": ("triplet", "MatMul"),
    "in-batch negatives": (in_batch_negatives, "MatMul"),
    "less the mean of the batch": (centred, "Sub"),
    "softmax over the batch": (softmax_over_the_batch, "Softmax"),
    "a branch by a mean": (branch_by_a_mean, "Greater|If"),
}


@pytest.mark.parametrize(("loss", "operator"), MIXING.values(), ids=MIXING)
def test_a_loss_that_mixes_examples_is_refused_by_its_operator(loss, operator):
    """Ranks would train something else: each example would meet those of its part alone"""
    term = loss if isinstance(loss, str) else Term(loss, dtype="int64", shape=[None])
    with pytest.raises(ArgumentError, match=f"cut into parts.*({operator}).*keep the batch whole"):
        Trainer(small.model(), loss=term, accumulate=2, batch_norm="frozen")

    def work(transport):
        with pytest.raises(ArgumentError, match=f"cut into parts.*({operator})"):
            Trainer(small.model(), loss=term, distributed=True, batch_norm="frozen")

    on_ranks(2, work)
    Trainer(small.model(), loss=term, batch_norm="frozen")

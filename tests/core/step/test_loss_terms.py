"""Terms of losses: sums and divisors of parts of a batch, which make those of the whole batch."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.step.loss_terms import check_from_data, counts_examples, loss_terms, only_term
from onnxgrad.errors import ArgumentError

rng = np.random.default_rng(0)
FEED = {
    "x": rng.normal(size=(12, 3)).astype(np.float32),
    "label": np.where(np.arange(12) % 5 < 2, 3, rng.integers(0, 3, 12)),
    "w": np.arange(12, dtype=np.float32),
}
PARTS = (slice(0, 2), slice(2, 7), slice(7, 12))  # nothing counts in the first


def penalty():
    return paddle.sum(paddle.square(static.default_main_program().all_parameters()[0]))


def each(y):
    return paddle.mean(paddle.square(y), axis=1)


LOSSES = {
    "mean": (lambda y, label, w: paddle.mean(paddle.square(y)), 1),
    "mean of rows, twice and negative": (lambda y, label, w: -2.0 * paddle.mean(each(y)), 1),
    "labels that count": (lambda y, label, w: F.cross_entropy(y, label, ignore_index=3), 1),
    "weights of examples": (lambda y, label, w: paddle.sum(each(y) * w) / paddle.sum(w), 1),
    "sum": (lambda y, label, w: paddle.sum(y), 1),
    "mean and penalty": (lambda y, label, w: paddle.mean(y) + 0.1 * penalty(), 1),
    "sum and penalty": (lambda y, label, w: paddle.sum(y) + 0.1 * penalty(), 2),
    "two divisors": (lambda y, label, w: F.cross_entropy(y, label, ignore_index=3) - 0.5 * paddle.mean(y), 2),
    "two divisors, three terms": (
        lambda y, label, w: (
            (F.cross_entropy(y, label, ignore_index=3) + paddle.mean(y)) / 3.0 + paddle.mean(paddle.square(y)) + penalty()
        ),
        2,
    ),
    "sum and mean": (lambda y, label, w: paddle.sum(y) + paddle.mean(y), 2),
}


def network(make):
    x = static.data("x", ["N", 3])
    label, w = static.data("label", ["N"], "int64"), static.data("w", ["N"])
    y = static.nn.fc(x, 4)
    executor = static.Executor()
    loss = make(y, label, w)
    executor.run(static.default_startup_program())
    return executor, loss


def terms_of(loss):
    return loss_terms(loss, Builder(loss.block.program.global_block(), key="loss_weight"))


@pytest.mark.parametrize(("make", "count"), LOSSES.values(), ids=LOSSES)
def test_terms_of_parts_make_the_loss_of_the_whole(make, count):
    executor, loss = network(make)
    (expected,) = executor.run(feed=FEED, fetch_list=[loss])
    terms = terms_of(loss)
    assert len(terms) == count
    total = 0.0
    for term in terms:
        sums = np.zeros(2)
        for rows in PARTS:
            fetches = [term.value, *([] if term.weight is None else [term.weight])]
            value, *weight = executor.run(feed={name: array[rows] for name, array in FEED.items()}, fetch_list=fetches)
            weight = float(weight[0].reshape(())) if weight else 1.0
            sums += [float(value.reshape(())) * weight if weight else 0.0, weight]
        total += sums[0] / sums[1] if term.reduction == "mean" else sums[0]
    np.testing.assert_allclose(total, expected.reshape(()), rtol=1e-5, atol=1e-5)


def test_one_term_is_asked_for_where_parts_are_put_together_afterwards():
    _, loss = network(LOSSES["two divisors"][0])
    build = Builder(loss.block.program.global_block(), key="loss_weight")
    with pytest.raises(ArgumentError, match="divided by different numbers"):
        only_term(loss, None, build)
    assert only_term(loss, "sum", build).reduction == "sum"
    with pytest.raises(ArgumentError, match="loss_weight is a variable, 'sum' or None"):
        only_term(loss, 3, build)


def test_a_divisor_that_the_model_computes_is_named():
    _, loss = network(lambda y, label, w: paddle.mean(y))
    check_from_data(terms_of(loss)[0])
    scale = static.create_global_var([1], 2.0, "float32", persistable=True, name="learned_count")
    x = loss.block.program.inputs[0]
    scaled = paddle.sum(x) / paddle.sum(x * scale)
    (term,) = terms_of(scaled)
    with pytest.raises(ArgumentError, match="which the model computes \\(learned_count\\)"):
        check_from_data(term)


def test_a_mean_over_rows_counts_examples_and_one_over_labels_does_not():
    _, loss = network(lambda y, label, w: paddle.mean(y))
    assert counts_examples(terms_of(loss)[0])
    for name in ("labels that count", "weights of examples"):
        with static.program_guard(static.Program(), static.Program()):
            _, loss = network(LOSSES[name][0])
            assert not counts_examples(terms_of(loss)[0])

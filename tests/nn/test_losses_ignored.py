"""Which rows the mean of a cross-entropy counts, with one label ignored; in programs and eagerly."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import Executor, static

LOGITS = np.random.default_rng(0).normal(size=(5, 3))
WEIGHT = np.array([0.5, 2.0, 3.0])
LOSSES = -(LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True)))


def in_program(label, **options):
    program = static.Program()
    with static.program_guard(program):
        x, y = static.data("x", [None, 3], "float64"), static.data("y", [None] * label.ndim, "int64")
        weight = options.pop("weight", None)
        loss = F.cross_entropy(x, y, None if weight is None else paddle.to_tensor(weight), **options)
    return Executor().run(program, feed={"x": LOGITS, "y": label}, fetch_list=[loss])[0]


def eagerly(label, **options):
    weight = options.pop("weight", None)
    x = paddle.to_tensor(LOGITS, stop_gradient=False)
    found = F.cross_entropy(x, paddle.to_tensor(label), None if weight is None else paddle.to_tensor(weight), **options)
    found.backward()
    assert np.isfinite(x.grad.numpy()).all()
    return found.numpy()


@pytest.mark.parametrize("compute", [in_program, eagerly])
@pytest.mark.parametrize("ignored", [-100, -1, 1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("column", [False, True])
def test_the_mean(compute, ignored, weighted, column):
    """Recorded from Paddle 2.6 and 3.3 (ce_ignore_m100): a negative one without weights stays in the divisor"""
    label = np.array([0, ignored, 2, ignored, 0])
    kept = label != ignored
    share = WEIGHT[np.where(kept, label, 0)] * kept if weighted else kept.astype(float)
    rows = LOSSES[np.arange(5), np.where(kept, label, 0)] * share
    divisor = 5 if ignored < 0 and not weighted else share.sum()
    options = {"weight": WEIGHT} if weighted else {}
    found = compute(label[:, None] if column else label, ignore_index=ignored, **options)
    np.testing.assert_allclose(found, rows.sum() / divisor, rtol=1e-12)


@pytest.mark.parametrize("compute", [in_program, eagerly])
@pytest.mark.parametrize("options", [{}, {"weight": WEIGHT}, {"label_smoothing": 0.1}])
@pytest.mark.parametrize("ignored", [-100, 1])
def test_it_is_zero_where_all_rows_are_ignored(compute, options, ignored):
    assert compute(np.full(5, ignored), ignore_index=ignored, **options) == 0


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_nll_loss_is_zero_there_too(weight):
    x = paddle.to_tensor(LOGITS, stop_gradient=False)
    loss = F.nll_loss(x, paddle.to_tensor(np.full(5, 1)), None if weight is None else paddle.to_tensor(weight), ignore_index=1)
    loss.backward()
    assert loss.item() == 0 and not x.grad.numpy().any()

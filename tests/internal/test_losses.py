"""Formulas that have one purpose agree where they should, and differ where their docstrings say so."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.internal import losses


def computed(formula, *arrays):
    """A formula on arrays, in a program of its own."""
    with paddle.state.isolated():
        variables = [static.data(f"v{i}", array.shape, str(array.dtype)) for i, array in enumerate(arrays)]
        op = static.default_main_program().global_block().build
        feed = {v.name: array for v, array in zip(variables, arrays, strict=True)}
        return paddle.Executor().run(feed=feed, fetch_list=[formula(op, *variables)])[0]


@pytest.fixture
def scores():
    rng = np.random.default_rng(3)
    return rng.normal(size=(4, 3)).astype(np.float32), rng.random((4, 3)).astype(np.float32)


def test_logistic_losses_agree(scores):
    x, t = scores
    wanted = np.logaddexp(0.0, x) - x * t
    for formula in (losses.bounded_logistic, losses.logistic, losses.logistic_of_scores):
        np.testing.assert_allclose(computed(formula, x, t), wanted, rtol=1e-5)


def test_small_logistic_losses_are_exact_where_the_docstring_says_so():
    x, t = np.array([-20.0, 20.0], np.float32), np.array([0.0, 1.0], np.float32)
    np.testing.assert_allclose(computed(losses.bounded_logistic, x, t), [np.exp(-20.0)] * 2, rtol=1e-4)


def test_a_weight_of_positive_targets_counts_for_these_only():
    x, t, w = np.array([0.5, 0.5], np.float32), np.array([0.0, 1.0], np.float32), np.array([3.0, 3.0], np.float32)
    wanted = np.logaddexp(0.0, [0.5, -0.5]) * [1.0, 3.0]
    np.testing.assert_allclose(computed(losses.logistic, x, t, w), wanted, rtol=1e-6)


def test_divergences_agree_on_distributions(scores):
    p, t = (np.exp(v) / np.exp(v).sum(-1, keepdims=True) for v in scores)
    whole, each = (computed(formula, np.log(p), t) for formula in (losses.kl_divergence, losses.kl_of_positive))
    np.testing.assert_allclose(whole, each.sum(-1), rtol=1e-4, atol=1e-6)


def test_a_divergence_is_zero_where_the_target_is_not_positive():
    log, t = np.array([-np.inf, -1.0], np.float32), np.array([0.0, -0.5], np.float32)
    np.testing.assert_array_equal(computed(losses.kl_of_positive, log, t), [0.0, 0.0])


def test_huber_is_a_square_and_then_a_line():
    d = np.array([0.0, 0.1, -0.5, 2.0, -np.inf], np.float32)
    found = computed(lambda op, v: losses.huber(op, v, 0.5), d)
    np.testing.assert_allclose(found, [0.0, 0.005, 0.125, 0.875, np.inf], rtol=1e-5)

"""Metrics of all embeddings together, against plain loops and scipy."""

import numpy as np
import pytest

from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training.metrics import epoch
from onnxgrad.training.metrics.batch import check_metrics
from onnxgrad.training.metrics.epoch import EpochMetric

RNG = np.random.default_rng(5)
GROUPS = np.array([0, 0, -1, 1, 1, -2, 2, 2, -3, 3, 3, 2])


def of(name, y, target, batch=5):
    metric = EpochMetric(name)
    for first in range(0, len(y), batch):
        metric.add(y[first : first + batch], target[first : first + batch])
    return metric.value()


def ranks_by_loops(y, group):
    """The place of the nearest row of its group among the other rows, from 1, without others of the group"""
    unit = y / np.linalg.norm(y, axis=1, keepdims=True)
    for i in range(len(y)):
        positives = [j for j in range(len(y)) if j != i and group[j] == group[i] and group[i] >= 0]
        if positives:
            best = max(unit[i] @ unit[j] for j in positives)
            yield 1 + sum(unit[i] @ unit[j] >= best for j in range(len(y)) if group[j] != group[i])


@pytest.mark.parametrize("block", [1024, 4])
def test_recall_and_mrr_are_those_of_loops_in_whatever_pieces(monkeypatch, block):
    monkeypatch.setattr(epoch, "_BLOCK", block)
    y = RNG.normal(size=(12, 3))
    places = np.array(list(ranks_by_loops(y, GROUPS)))
    assert len(places) == 9 and 0 < (places <= 2).mean() < 1
    for count in (1, 2, 5):
        assert of(f"recall@{count}", y, GROUPS) == pytest.approx((places <= count).mean())
    assert of("mrr", y, GROUPS) == pytest.approx((1 / places).mean())


def test_a_tie_with_another_group_is_no_hit():
    """An encoder that gives all texts one vector finds nothing"""
    assert of("recall@1", np.ones((6, 2)), np.array([0, 0, 1, 1, 2, 2])) == 0.0
    assert of("recall@5", np.ones((6, 2)), np.array([0, 0, 1, 1, 2, 2])) == 1.0


def test_spearman_is_that_of_scipy_with_ties():
    stats = pytest.importorskip("scipy.stats")
    y, score = RNG.normal(size=(40, 4)), np.repeat(RNG.integers(0, 4, 20) / 3, 2)
    unit = y / np.linalg.norm(y, axis=1, keepdims=True)
    expected = stats.spearmanr((unit[0::2] * unit[1::2]).sum(1), score[0::2]).statistic
    assert of("spearman", y, score, batch=6) == pytest.approx(expected)
    x, target = RNG.integers(0, 5, 30).astype(float), RNG.normal(size=30)
    assert of("spearman", x[:, None], target[:, None]) == pytest.approx(stats.spearmanr(x, target).statistic)


@pytest.mark.parametrize("name", ["recall@1", "mrr"])
def test_groups_of_one_row_are_said(name):
    with pytest.raises(DataError, match="is not defined for this data"):
        of(name, np.eye(3), np.arange(3))


def test_what_is_no_embedding_is_refused():
    with pytest.raises(ArgumentError, match="for embeddings"):
        of("mrr", np.ones((2, 3, 4)), np.zeros(2, int))
    with pytest.raises(ArgumentError, match="rows 2 i and 2 i"):
        of("spearman", np.ones((3, 4)), np.zeros(3))


@pytest.mark.parametrize("name", ["recall@0", "recall@", "recall@x"])
def test_a_count_of_neighbours_is_a_number_from_1(name):
    with pytest.raises(ArgumentError, match="there is no metric"):
        check_metrics([name])

"""Metrics of all examples together, of which each rank evaluates some batches: those of one process."""

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training import Callback, Trainer
from onnxgrad.training.metrics.detection import AveragePrecision
from onnxgrad.training.metrics.epoch import EpochMetric
from tests.distributed.test_trainer import data, on_ranks, trainer
from tests.training.detection.pictures import file, shapes
from tests.training.small import line

ROWS = 44
"""In 11 batches of 4, so that ranks have unequal numbers of them."""


def evaluated(make, rows, batch_size=4):
    """The row of an evaluation, and how many batches were run for it"""

    def work(transport=None):
        t = make(transport is not None)
        runs, run = [], t.executor.run
        t.executor.run = lambda *args, **options: runs.append(1) or run(*args, **options)
        return t.evaluate(rows, batch_size=batch_size), len(runs)

    return work


def assert_the_same(work, ranks):
    expected, batches = work()
    several = on_ranks(ranks, work)
    assert [count for _, count in several] == [-(-(batches - rank) // ranks) for rank in range(ranks)]
    for row, _ in several:
        assert row.keys() == expected.keys()
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name
    return expected


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_detector(ranks):
    image, boxes, _ = shapes.pictures(5, 14)
    boxes[..., 1:] += np.random.default_rng(1).normal(0, 4, boxes[..., 1:].shape)  # the file knows them too well
    boxes[2:4, :, 0] = np.where(boxes[2:4, :, 0] >= 0, -2 - boxes[2:4, :, 0], -1)  # crowds alone
    rows = {"images": image, "boxes": boxes}

    def make(distributed):
        return Trainer(file("distributed_nms"), loss="detection", threads=1, distributed=distributed)

    row = assert_the_same(evaluated(make, rows, batch_size=2), ranks)
    assert 0.05 < row["map"] < row["map50"] < 1


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_classifier(ranks):
    pytest.importorskip("sklearn")
    names = ["accuracy", "auc", "average_precision", "f1", "perplexity", "mean_iou", "precision", "recall"]
    work = evaluated(lambda distributed: trainer(metrics=names, distributed=distributed), data(ROWS))
    assert set(names) < set(assert_the_same(work, ranks))


@pytest.mark.parametrize("ranks", [2, 3])
def test_numbers(ranks):
    rng = np.random.default_rng(2)
    x = rng.normal(0, 1, (ROWS, 2)).astype(np.float32)
    rows = {"x": x, "target": (x.sum(axis=1, keepdims=True) + rng.normal(0, 1, (ROWS, 1))).round().astype(np.float32)}

    def make(distributed):
        return trainer(line(), loss="mse", metrics=["rmse", "r2", "spearman"], distributed=distributed)

    assert_the_same(evaluated(make, rows), ranks)


def test_fewer_batches_than_ranks():
    assert_the_same(evaluated(lambda distributed: trainer(metrics=["f1"], distributed=distributed), data(6)), 3)


def test_a_callback_of_rank_0_evaluates_alone():
    """Others do not take part, so that it would wait for them for ever"""

    def make(distributed):
        rows = []

        class Looks(Callback):
            def on_epoch(self, trainer, row):
                rows.append(trainer.evaluate(data(ROWS), batch_size=4))

        t = trainer(metrics=["accuracy", "f1"], distributed=distributed)
        t.fit(data(16), 1, batch_size=8, callbacks=[Looks()])
        return rows, t.evaluate(data(ROWS), batch_size=4)

    for number, (rows, expected) in enumerate(on_ranks(2, lambda transport: make(True))):
        assert len(rows) == (number == 0)
        for row in rows:
            assert row == pytest.approx(expected, rel=1e-12)


def test_turns_give_back_the_order_of_batches():
    """Of equal scores the first one counts first, and pairs lie in rows that follow each other"""
    rng = np.random.default_rng(4)
    whole, parts = EpochMetric("map"), [EpochMetric("map") for _ in range(3)]
    for number in range(8):
        detections = [
            np.column_stack([rng.integers(0, 2, 9), np.full(9, 0.5), *rng.uniform(0, 9, (2, 9)), *rng.uniform(9, 20, (2, 9))])
        ]
        objects = [np.column_stack([rng.integers(0, 2, 4), *rng.uniform(0, 9, (2, 4)), *rng.uniform(9, 20, (2, 4))])]
        for metric in (whole, parts[number % 3]):
            metric.add(detections, objects)
    expected, empty = whole.value(), EpochMetric("map")
    empty.take([part.state() for part in parts])
    assert empty.value() == expected > 0
    empty.take([part.state() for part in parts[::-1]])
    assert empty.value() != expected
    with pytest.raises(DataError, match="the metric map is not defined"):
        empty.take([])
        empty.value()


def test_a_merged_metric_is_that_of_all_pictures():
    boxes = np.array([[0, 0, 0, 10, 10.0]])
    one, two = AveragePrecision(), AveragePrecision()
    one.add(np.array([[0, 0.9, 0, 0, 10, 10], [3, 0.8, 5, 5, 9, 9]]), boxes)
    two.add(np.zeros((0, 6)), np.array([[1, 0, 0, 5, 5.0]]))
    one.merge(two.state())
    assert one.of_classes() == pytest.approx({0: 1.0, 1: 0.0})
    one.merge(AveragePrecision().state())
    assert one.value() == pytest.approx(0.5)

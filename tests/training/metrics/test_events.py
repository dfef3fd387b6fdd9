"""Events in sounds: what counts as one, in how much time, and what cannot be counted."""

import numpy as np
import pytest

from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training.data.rows import Columns, Parts
from onnxgrad.training.metrics.epoch import EpochMetric
from onnxgrad.training.metrics.events import Events


def parts(*counts, seconds):
    example = np.repeat(np.arange(len(counts)), counts)
    return Parts(Columns({"x": example}), example, np.zeros(len(example)), np.array(seconds, float), "max")


def test_windows_that_follow_each_other_are_one_event():
    events = Events(0.5, "Sigmoid")
    scores = np.array([0.9, 0.8, 0.1, 0.6, 0.2, 0.7, 0.9])  # the last two are of another sound
    events.add(scores, np.zeros(7), parts(5, 2, seconds=[30, 6]))
    assert events.false == 3 and events.false_accepts() == pytest.approx(3 / (36 / 3600))


def test_a_sound_is_missed_where_no_window_is_above_the_threshold():
    events = Events(0.5, "Sigmoid")
    events.add(np.array([[0.1], [0.5], [0.2], [0.9]]), np.array([1, 1, 1, 1]), parts(2, 2, seconds=[1, 1]))
    assert events.misses() == 0.5  # 0.5 is not above 0.5


@pytest.mark.parametrize(
    ("kind", "scores"),
    [("", [[2.0], [-2.0]]), ("Sigmoid", [[0.88], [0.12]]), ("", [[0.0, 2.0], [1.0, -1.0]]), ("Softmax", [[0.1, 0.9], [0.9, 0.1]])],
)
def test_scores_become_probabilities(kind, scores):
    for threshold, missed in ((0.05, 0.0), (0.5, 0.5), (0.95, 1.0)):
        events = Events(threshold, kind)
        events.add(np.array(scores), np.ones(2), parts(1, 1, seconds=[1, 1]))
        assert events.misses() == missed


def test_batches_add_up():
    events = Events(0.5, "Sigmoid")
    for score in (0.9, 0.1):
        events.add(np.array([score]), np.zeros(1), parts(1, seconds=[1800]))
    assert events.false_accepts() == 1.0


def test_what_cannot_be_counted_is_refused():
    events = Events(0.5, "Sigmoid")
    for count in (events.false_accepts, events.misses):
        with pytest.raises(DataError, match="there are none"):
            count()
    with pytest.raises(ArgumentError, match=r"\[2, 3\]"):
        events.add(np.zeros((2, 3)), np.zeros(2), parts(1, 1, seconds=[1, 1]))
    with pytest.raises(DataError, match="counts events in sounds"):
        EpochMetric("misses").add(np.zeros(2), np.zeros(2))
    with pytest.raises(ArgumentError, match="from 0 to less than 1"):
        Events(1.0)


def test_the_threshold_is_in_the_name_of_the_metric():
    for name, threshold in (("misses@0.9", 0.9), ("misses", 0.5), ("false_accepts@.25", 0.25)):
        metric = EpochMetric(name, "Sigmoid")
        assert metric.events.threshold == threshold
    metric = EpochMetric("misses@0.8", "Sigmoid")
    metric.add_parts(np.array([0.7]), np.ones(1), parts(1, seconds=[1]))
    assert metric.value() == 1.0

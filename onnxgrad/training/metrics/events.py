"""Events heard in sounds: false accepts in an hour of sounds that hold none, and misses among those that hold one.

Tests: tests/training/metrics/test_events.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training.data.rows import Parts

__all__ = ["Events"]

Array = np.ndarray[Any, Any]


class Events:
    """Counts of sounds whose windows are above a threshold.

    Windows that follow each other and are all above it are one event. The threshold is a probability: of a single score, or of
    class 1 of two.

    Args:
        threshold: from 0 to 1; windows with a higher probability are events.
        kind: type of the operator that made the scores (Softmax, Sigmoid); empty for logits.

    Raises:
        ArgumentError: if the threshold is not between 0 and 1.
    """

    def __init__(self, threshold: float = 0.5, kind: str = "") -> None:
        if not 0 <= threshold < 1:
            raise ArgumentError(f"the threshold of an event is a probability from 0 to less than 1, not {threshold}.")
        self.threshold, self.kind = threshold, kind
        self.false, self.hours, self.missed, self.positive = 0, 0.0, 0, 0

    def add(self, y: Array, target: Array, parts: Parts) -> None:
        """Count the sounds of some windows.

        Args:
            y: scores of the windows, [windows], [windows, 1] or [windows, 2].
            target: of each window, above one half where its sound holds an event.
            parts: the sound of each window, and how long the sounds are.
        """
        above = self._probabilities(y) > self.threshold
        for number, first in enumerate(parts.firsts):
            of_sound = above[parts.example == parts.example[first]]
            if np.asarray(target[first]).reshape(-1)[0] > 0.5:
                self.positive += 1
                self.missed += not of_sound.any()
            else:
                self.hours += float(parts.seconds[number]) / 3600
                self.false += int((np.diff(of_sound.astype(np.int8), prepend=0) == 1).sum())

    def false_accepts(self) -> float:
        """Events in an hour of sounds that hold none.

        Raises:
            DataError: if there are no such sounds.
        """
        if not self.hours:
            raise DataError("false_accepts counts events in sounds of class 0, of which there are none. Add some, or leave it out.")
        return self.false / self.hours

    def misses(self) -> float:
        """The share of sounds that hold an event and of which no window is above the threshold.

        Raises:
            DataError: if there are no such sounds.
        """
        if not self.positive:
            raise DataError("misses counts sounds of class 1, of which there are none. Add some, or leave it out.")
        return self.missed / self.positive

    def _probabilities(self, y: Array) -> Array:
        y = np.asarray(y, np.float64)
        if y.ndim == 2 and y.shape[1] == 2:
            return np.asarray(y[:, 1] if self.kind == "Softmax" else 1 / (1 + np.exp(np.clip(y[:, 0] - y[:, 1], -700, 700))))
        if y.size != len(y):
            raise ArgumentError(
                f"events are counted of a single score, or of two classes; the output has shape {list(y.shape)}. Leave them out."
            )
        scores = y.reshape(-1)
        return scores if self.kind in ("Sigmoid", "HardSigmoid") else 1 / (1 + np.exp(np.clip(-scores, -700, 700)))

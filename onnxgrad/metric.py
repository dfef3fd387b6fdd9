"""paddle.metric: metrics that are accumulated over batches.

Tests: tests/paddle_suite/test_data_and_files.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from onnxgrad.core.ir.variable import Variable
from onnxgrad.eager.tensor import leaf
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import as_int, as_text, as_word, wrong_kind
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.static.metric import accuracy, area_under
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.search import argsort

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


class Metric:
    """Base: ``compute`` of a batch's tensors, ``update`` with its results, ``accumulate`` for the value so far, ``reset``.

    Args:
        name: the name of the metric; that of its class in small letters unless given.

    Raises:
        ArgumentTypeError: if the name is not a str.

    Example:
        >>> class Largest(paddle.metric.Metric):
        ...     def reset(self):
        ...         self.largest = 0.0
        ...     def update(self, scores):
        ...         self.largest = max(self.largest, float(scores.max()))
        ...     def accumulate(self):
        ...         return self.largest
        >>> metric = Largest()
        >>> metric.update(paddle.to_tensor([0.5, 2.0]))
        >>> metric.name(), metric.accumulate()
        ('largest', 2.0)
    """

    def __init__(self, name: str | None = "") -> None:
        self._name = as_text(self, "name", name) or type(self).__name__.lower()
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        raise NotImplementedError(f"{type(self).__name__} has no reset().")

    def update(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch.

        Args:
            args: what ``compute`` gave.
            kwargs: likewise, by name.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update().")

    def accumulate(self) -> float | Sequence[float]:
        """The value over all batches."""
        raise NotImplementedError(f"{type(self).__name__} has no accumulate().")

    def name(self) -> str | list[str]:
        """Return the name of the metric."""
        return self._name

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the arguments of ``update`` from predictions and labels.

        Args:
            args: tensors of a batch, such as predictions and labels.
            kwargs: likewise, by name.
        """
        return args


class Accuracy(Metric):
    """Count the fraction of rows whose label is among the k best scores.

    Args:
        topk: each k, above 0.
        name: 'acc' unless given.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if there is no k, or one is not positive.

    Example:
        >>> metric = paddle.metric.Accuracy()
        >>> x, y = paddle.to_tensor([[0.1, 0.9], [0.8, 0.2]]), paddle.to_tensor([[1], [1]])
        >>> metric.update(metric.compute(x, y)), metric.accumulate()
        (0.5, 0.5)
    """

    def __init__(self, topk: Sequence[int] = (1,), name: str | None = None) -> None:
        if isinstance(topk, str) or not isinstance(topk, Sequence):
            raise wrong_kind(self, "topk", "a tuple of ints", topk)
        self.topk = tuple(as_int(self, "an element of topk", k) for k in topk)
        if not self.topk or min(self.topk) < 1:
            raise ArgumentError(f"Accuracy: topk holds numbers from 1, not {topk!r}.")
        self.maxk = max(self.topk)
        super().__init__("acc" if name is None else name)

    def reset(self) -> None:
        self.total, self.count = [0.0] * len(self.topk), [0] * len(self.topk)

    def compute(self, pred: Variable, label: Variable, *args: object) -> Variable:
        """Return [rows, k]: whether the k-th best class is the label, which is a class or one-hot.

        Args:
            pred: scores [rows, classes].
            label: classes [rows] or [rows, 1], or one-hot [rows, classes].
            args: ignored.
        """
        best = argsort(pred, descending=True)[:, : self.maxk]
        if label.ndim == 1:
            label = label.reshape([-1, 1])
        elif label.shape[-1] != 1:
            label = label.argmax(axis=-1, keepdim=True)
        return (best == label.astype(best.dtype)).astype("float32")

    def update(self, correct: ArrayLike | Variable, *args: object) -> float | list[float]:
        correct = np.asarray(correct)
        rows = int(np.prod(correct.shape[:-1]))
        accuracies = []
        for i, k in enumerate(self.topk):
            right = float(correct[..., :k].sum())
            self.total[i] += right
            self.count[i] += rows
            accuracies.append(right / rows)
        return accuracies[0] if len(self.topk) == 1 else accuracies

    def accumulate(self) -> float | list[float]:
        accuracies = [total / count if count else 0.0 for total, count in zip(self.total, self.count, strict=True)]
        return accuracies[0] if len(self.topk) == 1 else accuracies

    def name(self) -> list[str]:
        return [self._name] if tuple(self.topk) == (1,) else [f"{self._name}_top{k}" for k in self.topk]


class _Counted(Metric):
    """Base of precision and recall, of probabilities and labels 0 and 1: counts true positives, and the rows of the denominator."""

    def reset(self) -> None:
        self.right = self.all = 0

    def update(self, preds: ArrayLike | Variable, labels: ArrayLike | Variable) -> None:
        chosen, true = np.asarray(preds).reshape(-1) > 0.5, np.asarray(labels).reshape(-1) == 1
        self.right += int((chosen & true).sum())
        self.all += int(self._rows(chosen, true).sum())

    def _rows(self, chosen: Any, true: Any) -> Any:
        raise NotImplementedError

    def accumulate(self) -> float:
        return self.right / self.all if self.all else 0.0


class Precision(_Counted):
    """Count true positives among those predicted, of probabilities and labels 0 and 1.

    Args:
        name: 'precision' unless given.

    Raises:
        ArgumentTypeError: if the name is not a str.

    Example:
        >>> metric = paddle.metric.Precision()
        >>> metric.update(np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1]))
        >>> metric.accumulate()
        0.5
    """

    def __init__(self, name: str = "precision") -> None:
        super().__init__(name)

    def _rows(self, chosen: Any, true: Any) -> Any:
        return chosen


class Recall(_Counted):
    """Count true positives among all positives, of probabilities and labels 0 and 1.

    Args:
        name: 'recall' unless given.

    Raises:
        ArgumentTypeError: if the name is not a str.

    Example:
        >>> metric = paddle.metric.Recall()
        >>> metric.update(np.array([0.9, 0.2, 0.8]), np.array([1, 1, 0]))
        >>> metric.accumulate()
        0.5
    """

    def __init__(self, name: str = "recall") -> None:
        super().__init__(name)

    def _rows(self, chosen: Any, true: Any) -> Any:
        return true


class Auc(Metric):
    """Compute the area under the ROC curve, from a histogram of the probability of class 1.

    Args:
        curve: 'ROC'.
        num_thresholds: how many bins the histogram has, above 0.
        name: of the metric.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if the curve is another, or there are no bins.

    Example:
        >>> metric = paddle.metric.Auc()
        >>> metric.update(np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]), np.array([[0], [1], [0]]))
        >>> metric.accumulate()
        1.0
    """

    def __init__(self, curve: Literal["ROC"] = "ROC", num_thresholds: int = 4095, name: str = "auc") -> None:
        as_word(self, "curve", curve, ("ROC",))
        self._bins = as_int(self, "num_thresholds", num_thresholds, above=0)
        super().__init__(name)

    def reset(self) -> None:
        self._counts = np.zeros((2, self._bins + 1), np.int64)

    def update(self, preds: ArrayLike | Variable, labels: ArrayLike | Variable) -> None:
        scores, true = np.asarray(preds)[:, 1], np.asarray(labels).reshape(-1).astype(bool)
        at = np.clip((scores * self._bins).astype(np.int64), 0, self._bins)
        for row, chosen in enumerate((~true, true)):
            self._counts[row] += np.bincount(at[chosen], minlength=self._bins + 1)

    def accumulate(self) -> float:
        negative, positive = (leaf(row, "float64") for row in self._counts)
        return float(area_under(LayerHelper("auc", positive).op, [positive, negative], "ROC"))


globals().update(absence_hooks(__name__))

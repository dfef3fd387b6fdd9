"""Metrics by name: numpy functions of an output and its target column that give one number per example."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.words import EPOCH_METRICS, BatchMetric
from onnxgrad.training.metrics.epoch import WHOLE, epoch_metric
from onnxgrad.training.surgery.activations import activation_before

__all__ = ["METRICS", "check_metrics", "classes_second", "is_whole", "metric_named"]

Array = np.ndarray[Any, Any]


def _accuracy(y: Array, target: Array, threshold: float = 0.0) -> Array:
    """Share of right classes: the largest score over axis 1, or for one score whether it is above a threshold against 0 and 1."""
    if y.ndim == target.ndim + 1 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == target.ndim + 1:
        return _counted(y.argmax(axis=1) == target, target)
    return _per_example((y > threshold) == (target > 0.5))


def _accuracy_of_probabilities(y: Array, target: Array) -> Array:
    return _accuracy(y, target, 0.5)


def _accuracy_of_distributions(y: Array, target: Array) -> Array:
    """Against classes, or against distributions: whether the largest elements along the last axis are the same ones"""
    if y.ndim != target.ndim:
        return _accuracy(y, target)
    return _per_example(y.argmax(axis=-1) == target.argmax(axis=-1))


def _top(count: int) -> Callable[[Array, Array], Array]:
    """Share of examples whose class is among the largest scores, so many of them."""

    def share(y: Array, target: Array) -> Array:
        best = np.argsort(-y, axis=1)[:, :count]
        return _counted((best == np.expand_dims(target, 1)).any(axis=1), target)

    return share


def _mae(y: Array, target: Array) -> Array:
    """Mean absolute error."""
    return _per_example(np.abs(y - target))


def _mse(y: Array, target: Array) -> Array:
    """Mean squared error."""
    return _per_example((y - target) ** 2)


def _counted(right: Array, target: Array) -> Array:
    """For each label that counts, which those of -100 do not"""
    values: Array = right[target != -100].astype(np.float64)
    return values


def classes_second(y: Array, target: Array, loss: Any, layout: str | None) -> tuple[Array, Array]:
    """An output and its target as metrics take them: classes along axis 1, of causal_lm each position with the word behind it."""
    if loss == "causal_lm":
        y, target = y[:, :-1], target[:, 1:]
    if layout == "NTC" and loss in ("causal_lm", "cross_entropy"):
        y = np.moveaxis(y, -1, 1)
    return y, target


def _per_example(values: Array) -> Array:
    means: Array = np.asarray(values, np.float64).reshape(len(values), -1).mean(axis=1)
    return means


METRICS: dict[BatchMetric, Callable[[Array, Array], Array]] = {"accuracy": _accuracy, "mae": _mae, "mse": _mse, "top5": _top(5)}


def is_whole(metric: Any) -> bool:
    """Return whether the metric is computed from all examples together."""
    return isinstance(metric, str) and WHOLE.fullmatch(metric) is not None


def check_metrics(metrics: Sequence[Any]) -> None:
    """Raise ArgumentError if one is unknown, OnnxGradError if it needs a package that is missing."""
    for metric in metrics:
        if is_whole(metric):
            epoch_metric(metric)
        else:
            metric_named(metric)


def metric_named(
    metric: str | Callable[[Array, Array], Any], output: Variable | None = None
) -> tuple[str, Callable[[Array, Array], Any]]:
    """A metric with its name.

    Args:
        metric: a name, or a function.
        output: what is measured. Scores that come from Sigmoid are probabilities, which ``accuracy`` compares with one half; other
            single scores are logits, which it compares with zero.

    Raises:
        ArgumentError: if there is none of that name.
    """
    if callable(metric):
        return getattr(metric, "__name__", "metric"), metric
    largest = re.fullmatch(r"top([1-9]\d*)", str(metric))
    if largest is not None:
        return metric, _top(int(largest[1]))
    if metric not in METRICS:
        known = sorted([*METRICS, *EPOCH_METRICS])
        raise ArgumentError(f"there is no metric {metric!r}. Use one of {known}, or a function.")
    if metric == "accuracy" and output is not None:
        activation = activation_before(output, _HOLDS)[0]
        return metric, _accuracy if activation is None else _HOLDS[activation.type]
    return metric, METRICS[metric]


_HOLDS: dict[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(("Sigmoid", "HardSigmoid"), _accuracy_of_probabilities),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _accuracy_of_distributions),
}
"""The accuracy of what an activation makes."""

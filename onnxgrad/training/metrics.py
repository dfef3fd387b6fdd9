"""Metrics by name: numpy functions of an output and its target column that give one number per example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError

__all__ = ["METRICS", "metric_named"]

Array = np.ndarray[Any, Any]


def _accuracy(y: Array, target: Array) -> Array:
    """Share of right classes: the largest score over axis 1, or for one score its sign (logits) against 0 and 1."""
    if y.ndim == target.ndim + 1:
        return _per_example(y.argmax(axis=1) == target)
    return _per_example((y > 0) == (target > 0.5))


def _top5(y: Array, target: Array) -> Array:
    """Share of examples whose class is among the five largest scores."""
    best = np.argsort(-y, axis=1)[:, :5]
    return _per_example((best == np.expand_dims(target, 1)).any(axis=1))


def _mae(y: Array, target: Array) -> Array:
    """Mean absolute error."""
    return _per_example(np.abs(y - target))


def _mse(y: Array, target: Array) -> Array:
    """Mean squared error."""
    return _per_example((y - target) ** 2)


def _per_example(values: Array) -> Array:
    means: Array = np.asarray(values, np.float64).reshape(len(values), -1).mean(axis=1)
    return means


METRICS: dict[str, Callable[[Array, Array], Array]] = {"accuracy": _accuracy, "mae": _mae, "mse": _mse, "top5": _top5}


def metric_named(metric: str | Callable[[Array, Array], Any]) -> tuple[str, Callable[[Array, Array], Any]]:
    """A metric with its name.

    Raises:
        ArgumentError: if there is none of that name.
    """
    if callable(metric):
        return getattr(metric, "__name__", "metric"), metric
    if metric not in METRICS:
        raise ArgumentError(f"there is no metric {metric!r}. Use one of {sorted(METRICS)}, or a function.")
    return metric, METRICS[metric]

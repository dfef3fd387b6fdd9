"""Weights of classes and examples in a loss, and smoothed labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.defaults import create_global_var
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["BALANCED", "Weighing", "balanced_weights"]

BALANCED = "balanced"
_SMOOTHED = ("cross_entropy", "bce_with_logits")


class Weighing:
    """Weights of the examples of one term.

    Args:
        loss: name of the loss, or a function.
        label_smoothing: share of a label that is spread over all classes (Szegedy et al. 2016), at least 0 and less than 1.
        class_weights: a number for each class, or ``"balanced"`` for n / (classes * count), which the training data gives.
        sample_weight: name of a column with a number for each example, or None.

    Raises:
        ArgumentError: if one of these does not fit the loss, or is no share or weight.
    """

    def __init__(
        self, loss: Any, label_smoothing: float = 0.0, class_weights: Any = None, sample_weight: str | None = None
    ) -> None:
        if not 0 <= label_smoothing < 1:
            raise ArgumentError(f"label_smoothing is a share of at least 0 and less than 1, not {label_smoothing}.")
        smoothed = loss in _SMOOTHED or (loss == "dpo" and class_weights is None) if isinstance(loss, str) else False
        if (label_smoothing or class_weights is not None) and not smoothed:
            message = "label_smoothing and class_weights are for the losses cross_entropy and bce_with_logits"
            raise ArgumentError(f"{message}, not {loss!r}. Leave them out.")
        self.balanced = isinstance(class_weights, str)
        if self.balanced and class_weights != BALANCED:
            raise ArgumentError(f"class_weights is a number for each class, or 'balanced', not {class_weights!r}.")
        self.weights = None if class_weights is None or self.balanced else [float(w) for w in class_weights]
        if self.weights is not None and (
            min(self.weights, default=-1.0) < 0 or not np.isfinite(self.weights).all() or not any(self.weights)
        ):
            raise ArgumentError(f"class_weights are numbers of at least 0, not all 0; not {class_weights}.")
        self.smoothing, self.sample_weight = float(label_smoothing), sample_weight
        self.state: Variable | None = None

    @property
    def is_plain(self) -> bool:
        return not self.smoothing and self.weights is None and not self.balanced and self.sample_weight is None

    def classes(self, op: Builder, count: Any, dtype: Any, key: str) -> Variable | None:
        """Return the class weights as a variable of the program; ``balanced`` weights are 1 until they are set."""
        if self.weights is None and not self.balanced:
            return None
        if not isinstance(count, int):
            raise ArgumentError("class_weights need an output with a known number of classes. Reshape it, or leave them out.")
        if self.weights is not None and len(self.weights) != count:
            raise ArgumentError(
                f"class_weights has {len(self.weights)} numbers, the output has {count} classes. Give one for each."
            )
        if self.weights is not None:
            return op.constant(np.asarray(self.weights, dtype.numpy))
        self.state = create_global_var([count], 1.0, dtype.name, persistable=True, name=f"class_weights.{key}")
        return self.state

    def mean(self, op: Builder, value: Variable, weight: Variable | None) -> Variable:
        """The mean of a loss of each example, weighed by the column; what is not one number for each example is averaged first"""
        if weight is None:
            return value if value.rank == 0 else op.ReduceMean(value, keepdims=0)
        if value.rank is None or value.rank == 0:
            raise ArgumentError("sample_weight needs a loss with a value for each example, which this one is not. Leave it out.")
        if value.rank > 1:
            value = op.ReduceMean(value, axes=list(range(1, value.rank)), keepdims=0)
        weight = weight if weight.dtype == value.dtype else op.Cast(weight, to=value.dtype.number)
        return op.Div(op.ReduceSum(op.Mul(value, weight), keepdims=0), op.ReduceSum(weight, keepdims=0))

    def class_loss(
        self, op: Builder, scores: Variable, label: Variable, is_log: bool, weight: Variable | None, key: str
    ) -> Variable:
        """Cross-entropy of scores [N, C, ...] with labels [N, ...]: with w of classes and s of examples,

        sum s ((1 - e) w[label] nll + e / C sum_c w[c] (-log p[c])) / sum s w[label], over the labels that are not -100
        """
        count = scores.dims[1] if scores.dims else None
        classes = self.classes(op, count, scores.dtype, key)
        arguments = [scores, label] if classes is None else [scores, label, classes]
        name = "NegativeLogLikelihoodLoss" if is_log else "SoftmaxCrossEntropyLoss"
        if not self.smoothing and weight is None:
            return op.emit(name, arguments, {"ignore_index": -100})
        value = op.emit(name, arguments, {"ignore_index": -100, "reduction": "none"})
        counted = op.Not(op.Equal(label, -100))
        weights = op.Cast(counted, to=scores.dtype.number)
        if classes is not None:
            weights = op.Mul(weights, op.Gather(classes, op.Where(counted, label, 0)))
        if self.smoothing:
            log = scores if is_log else op.LogSoftmax(scores, axis=1)
            if classes is not None:
                rank = scores.rank or 2
                log = op.Mul(log, classes if rank == 1 else op.Reshape(classes, [1, -1, *[1] * (rank - 2)]))
            spread = op.Where(counted, op.ReduceSum(log, axes=[1], keepdims=0), 0.0)
            if not isinstance(count, int):
                raise ArgumentError("label_smoothing needs an output with a known number of classes. Reshape it.")
            value = op.Sub(op.Mul(value, 1 - self.smoothing), op.Mul(spread, self.smoothing / count))
        if weight is not None:
            weight = weight if weight.dtype == value.dtype else op.Cast(weight, to=value.dtype.number)
            rank = label.rank or 1
            weight = op.Reshape(weight, [-1, *[1] * (rank - 1)]) if rank > 1 else weight
            value, weights = op.Mul(value, weight), op.Mul(weights, weight)
        return op.Div(op.ReduceSum(value, keepdims=0), op.ReduceSum(weights, keepdims=0))

    def smoothed(self, op: Builder, target: Variable) -> Variable:
        """Targets 0 and 1 of bce_with_logits as e / 2 and 1 - e / 2"""
        return op.Add(op.Mul(target, 1 - self.smoothing), self.smoothing / 2) if self.smoothing else target

    def binary(self, op: Builder, value: Variable, target: Variable, weight: Variable | None, key: str) -> Variable:
        """The mean of a loss of each element, with one weight for the target 0 and one for 1"""
        classes = self.classes(op, 2, value.dtype, key)
        if classes is None:
            return self.mean(op, value, weight)
        zero, one = op.Gather(classes, 0), op.Gather(classes, 1)
        weights = op.Add(zero, op.Mul(target, op.Sub(one, zero)))
        if weight is not None:
            rank = value.rank or 1
            weight = weight if weight.dtype == value.dtype else op.Cast(weight, to=value.dtype.number)
            weights = op.Mul(weights, op.Reshape(weight, [-1, *[1] * (rank - 1)]) if rank > 1 else weight)
        return op.Div(op.ReduceSum(op.Mul(value, weights), keepdims=0), op.ReduceSum(weights, keepdims=0))

    def balance(self, counts: dict[int, int] | None) -> str:
        """Set the weights of ``balanced`` by how often each class occurs; returns a line that says them.

        Raises:
            ArgumentError: if the data does not say that before it is read.
        """
        assert self.state is not None
        if not counts:
            raise ArgumentError(
                "class_weights='balanced' needs data that tells its labels before it is read. Give the weights as numbers."
            )
        weights = balanced_weights(counts, int(self.state.static_shape[0]))  # type: ignore[index]
        self.state.set_value(weights.astype(self.state.dtype.numpy))
        shown = ", ".join(f"{label}: {weights[label]:.4g}" for label in sorted(counts)[:8])
        return f"classes are weighed by n / (classes * count): {shown}{', ...' if len(counts) > 8 else ''}."


def balanced_weights(counts: dict[int, int], classes: int) -> Any:
    """Compute n / (number of classes that occur * count) for each class; 1 for a class that does not occur.

    Example:
        >>> balanced_weights({0: 6, 1: 2}, 3)
        array([0.66666667, 2.        , 1.        ])
    """
    known: Sequence[int] = [label for label in counts if 0 <= label < classes]
    total = sum(counts[label] for label in known)
    weights = np.ones(classes)
    for label in known:
        weights[label] = total / (len(known) * counts[label])
    return weights

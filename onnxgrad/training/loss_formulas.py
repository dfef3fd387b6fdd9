"""Losses by name.

Each takes the output and the target column, and returns one number, or one per example or element, whose mean is the loss.
Remarks say how the output was understood. Sources are named in the docstrings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgrad.errors import ArgumentError
from onnxgrad.ir.bodies import write_body
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.types import TensorType
from onnxgrad.ir.variable import Variable

__all__ = ["LOSSES"]


def _cross_entropy(op: Builder, y: Variable, label: Variable, remarks: list[str]) -> Variable:
    """-log p of the label, p = softmax of the logits over axis 1; Softmax before it is seen; label -100 does not count"""
    kind = _producer(y)
    if y.rank == 1:
        raise ArgumentError(f"cross_entropy needs class scores of rank 2 or more; {y!r} has rank 1. Use bce_with_logits.")
    if kind == "Softmax":
        logits = y.op.inputs[0] if y.op is not None else None
        remarks.append(f"{y.name} holds probabilities (it comes from Softmax); the loss uses the logits before it.")
        if logits is not None and _softmax_axis(y) in (1, -1 if y.rank == 2 else 1):
            return op.SoftmaxCrossEntropyLoss(logits, label, ignore_index=-100)  # type: ignore[no-any-return]
        return op.NegativeLogLikelihoodLoss(op.Log(op.Clip(y, 1e-12)), label, ignore_index=-100)  # type: ignore[no-any-return]
    if kind == "LogSoftmax":
        remarks.append(f"{y.name} holds log-probabilities (it comes from LogSoftmax).")
        return op.NegativeLogLikelihoodLoss(y, label, ignore_index=-100)  # type: ignore[no-any-return]
    remarks.append(f"{y.name} is taken as logits: the loss applies softmax.")
    return op.SoftmaxCrossEntropyLoss(y, label, ignore_index=-100)  # type: ignore[no-any-return]


def _producer(y: Variable) -> str:
    op = y.op
    while op is not None and op.type in ("Identity", "Cast") and op.inputs[0] is not None:
        op = op.inputs[0].op
    return "" if op is None else op.type


def _softmax_axis(y: Variable) -> int:
    return -1 if y.op is None else int(y.op.attr("axis"))


def _bce_with_logits(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """max(x, 0) - x t + log(1 + exp(-|x|)), the binary cross-entropy that cannot overflow"""
    if _producer(y) == "Sigmoid" and y.op is not None and y.op.inputs[0] is not None:
        remarks.append(f"{y.name} holds probabilities (it comes from Sigmoid); the loss uses the logits before it.")
        y = y.op.inputs[0]
    stable = op.Softplus(op.Neg(op.Abs(y)))
    return op.Add(op.Sub(op.Relu(y), op.Mul(y, target)), stable)  # type: ignore[no-any-return]


def _mse(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """(y - t)^2"""
    difference = op.Sub(y, target)
    return op.Mul(difference, difference)  # type: ignore[no-any-return]


def _l1(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """|y - t|"""
    return op.Abs(op.Sub(y, target))  # type: ignore[no-any-return]


def _smooth_l1(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """c (|d| - c / 2) with c = min(|d|, 1): d^2/2 near 0, |d| - 1/2 beyond 1 (Huber 1964; Girshick, "Fast R-CNN", 2015)"""
    size = op.Abs(op.Sub(y, target))
    inner = op.Min(size, 1.0)
    return op.Mul(inner, op.Sub(size, op.Mul(inner, 0.5)))  # type: ignore[no-any-return]


def _kl(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """sum of t (log t - log p) over the last axis, p = softmax of the output; 0 log 0 = 0 (Kullback and Leibler 1951)"""
    kind = _producer(y)
    log = y if kind == "LogSoftmax" else op.Log(op.Clip(y, 1e-12)) if kind == "Softmax" else op.LogSoftmax(y, axis=-1)
    remarks.append(
        f"{y.name} is taken as {'log-probabilities' if kind == 'LogSoftmax' else 'probabilities' if kind else 'logits'}."
    )
    entropy = op.Mul(target, op.Log(op.Clip(target, 1e-12)))
    return op.ReduceSum(op.Sub(entropy, op.Mul(target, log)), [-1], keepdims=0)  # type: ignore[no-any-return]


def _cosine(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """1 - cosine of the angle between output and target along the last axis"""
    return op.Sub(1.0, op.ReduceSum(op.Mul(_unit(op, y), _unit(op, target)), [-1], keepdims=0))  # type: ignore[no-any-return]


def _unit(op: Builder, x: Variable) -> Variable:
    square = op.ReduceSum(op.Mul(x, x), [-1], keepdims=1)
    return op.Div(x, op.Sqrt(op.Max(square, 1e-12)))  # type: ignore[no-any-return]


def _triplet(op: Builder, y: Variable, label: Variable, remarks: list[str]) -> Variable:
    """Batch-hard triplets with soft margin: log(1 + exp(farthest of the class - nearest of another))

    Hermans et al., "In Defense of the Triplet Loss", 2017.
    """
    if y.rank != 2:
        raise ArgumentError(f"triplet needs embeddings of shape [batch, size], not {y!r}.")
    square = op.ReduceSum(op.Mul(y, y), [1], keepdims=1)
    product = op.MatMul(y, op.Transpose(y, perm=[1, 0]))
    apart = op.Add(op.Sub(square, op.Mul(product, 2.0)), op.Transpose(square, perm=[1, 0]))
    distance = op.Sqrt(op.Max(apart, 1e-12))
    same = op.Cast(op.Equal(op.Unsqueeze(label, [1]), op.Unsqueeze(label, [0])), to=y.dtype.number)
    farthest = op.ReduceMax(op.Mul(distance, same), [1], keepdims=0)
    nearest = op.ReduceMin(op.Add(distance, op.Mul(same, 1e6)), [1], keepdims=0)
    return op.Softplus(op.Sub(farthest, nearest))  # type: ignore[no-any-return]


def _ctc(op: Builder, y: Variable, labels: Variable, remarks: list[str]) -> Variable:
    """-log of the summed probability of all alignments; class 0 is the blank, negative labels fill up the rows; inf if none fits

    Graves et al., "Connectionist Temporal Classification", 2006: forward variables in log space, by a Scan over the steps.
    """
    said = {"LogSoftmax": "log-probabilities", "Softmax": "probabilities"}.get(_producer(y), "logits")
    remarks.append(f"{y.name} is taken as {said} of shape [batch, steps, classes]; class 0 is the blank.")
    x = op.Cast(y, to=1) if y.dtype.name in ("float16", "bfloat16") else y
    scores = (
        x if said == "log-probabilities" else op.Log(op.Clip(x, 1e-30)) if said == "probabilities" else op.LogSoftmax(x, axis=-1)
    )
    never = op.constant(-1e30, x.dtype)
    path = _with_blanks(op, labels)
    size = op.Concat(op.Shape(labels, start=0, end=1), op.Shape(x, start=1, end=2), op.Shape(path, start=1), axis=0)
    emitted = op.GatherElements(scores, op.Expand(op.Unsqueeze(path, [1]), size), axis=2)
    again = op.Equal(path, _moved(op, path, 2, op.constant(0, path.dtype)))
    skip = op.Where(op.Or(op.Equal(path, np.array(0)), again), never, op.constant(0.0, x.dtype))
    start = op.Where(op.Equal(op.CumSum(op.Add(op.Mul(path, np.array(0)), np.array(1)), np.array(1)), np.array(1)), 0.0, never)

    def step(build: Builder, a: Variable, e: Variable) -> tuple[Variable]:
        reached = _log_add(build, a, _moved(build, a, 1, never), build.Add(_moved(build, a, 2, never), skip))
        return (build.Add(reached, e),)

    at = TensorType(x.dtype, (None, None))
    body = write_body(op, "ctc", [("reached", at), ("emitted", at)], step)
    final = op.Scan(start, op.Transpose(emitted, perm=[1, 0, 2]), body=body, num_scan_inputs=1)
    count = op.ReduceSum(op.Cast(op.GreaterOrEqual(labels, np.array(0)), to=7), [1], keepdims=1)
    last = op.Mul(count, np.array(2))
    on_blank = op.GatherElements(final, last, axis=1)
    on_label = op.GatherElements(final, op.Max(op.Sub(last, np.array(1)), np.array(0)), axis=1)
    on_label = op.Where(op.Equal(count, np.array(0)), never, on_label)
    found = op.Neg(_log_add(op, on_blank, on_label))
    return op.Where(op.GreaterOrEqual(found, 1e29), float("inf"), found)  # type: ignore[no-any-return]


def _with_blanks(op: Builder, labels: Variable) -> Variable:
    """blank, label, blank, label, ..., blank for each row"""
    real = op.Unsqueeze(op.Max(labels, np.array(0)), [2])
    pairs = op.Concat(op.Mul(real, np.array(0)), real, axis=2)
    return op.Pad(op.Flatten(pairs, axis=1), np.array([0, 0, 0, 1]))  # type: ignore[no-any-return]


def _moved(op: Builder, x: Variable, places: int, fill: Variable) -> Variable:
    """The columns moved to the right, the first ones filled"""
    wider = op.Pad(x, np.array([0, places, 0, 0]), fill)
    return op.Slice(wider, np.array([0]), np.array([-places]), np.array([1]))  # type: ignore[no-any-return]


def _log_add(op: Builder, *terms: Variable) -> Variable:
    """log of the sum of exponentials; finite where all terms are"""
    largest = op.Max(*terms)
    parts = [op.Exp(op.Sub(term, largest)) for term in terms]
    return op.Add(largest, op.Log(op.Sum(*parts)))  # type: ignore[no-any-return]


LOSSES: dict[str, Callable[[Builder, Variable, Variable, list[str]], Variable]] = {
    "bce_with_logits": _bce_with_logits,
    "cosine": _cosine,
    "cross_entropy": _cross_entropy,
    "ctc": _ctc,
    "huber": _smooth_l1,
    "kl": _kl,
    "l1": _l1,
    "mse": _mse,
    "smooth_l1": _smooth_l1,
    "triplet": _triplet,
}

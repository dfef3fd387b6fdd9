"""Measures of a classifier, and printing a value whenever it is computed.

Tests: tests/static/test_static.py.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, IllTyped
from onnxgrad.internal.arguments import as_kind, checked
from onnxgrad.static.input import create_global_var
from onnxgrad.tensor.layer import LayerHelper

__all__ = ["Print", "accuracy", "area_under", "auc"]


@checked
def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Share of rows whose label is among the ``k`` highest scores.

    Args:
        input: scores of shape [N, classes].
        label: integer classes of shape [N, 1] or [N].
        k: how many of the highest scores count.
        correct, total: accepted for compatibility; fetch the results instead.
        name: prefix of the names of the results in a program; None to count one.

    Returns:
        A float32 variable without axes.

    Example:
        >>> scores, label = static.data("scores", [None, 10]), static.data("label", [None, 1], "int64")
        >>> static.accuracy(scores, label, k=5).shape
        ()
    """
    layer = LayerHelper("accuracy", input, label, name=name)
    op = layer.op
    _, best = op.TopK(input, np.array([k]), outputs=2)
    rows = label if label.ndim == 2 else op.Unsqueeze(label, [1])
    hits = op.Cast(op.Equal(best, op.Cast(rows, to=7)), to=1)
    return layer.result("ReduceMean", op.ReduceMax(hits, [1], keepdims=0), keepdims=0)


@checked
def auc(
    input: Variable,
    label: Variable,
    curve: Literal["ROC", "PR"] = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Variable | None = None,
) -> tuple[Variable, Variable, list[Variable]]:
    """Area under the ROC curve, over all runs so far and over the last ones.

    Args:
        input: probabilities of shape [N, 2]; the second column is that of the positive class.
        label: 0 or 1, of shape [N, 1].
        curve: 'ROC' or 'PR'.
        num_thresholds: number of bins for the probabilities.
        topk: accepted for compatibility.
        slide_steps: over how many runs the second result goes; 0 for all.
        ins_tag_weight: a factor per row, of shape [N, 1].

    Returns:
        (the area over all runs, that over the last ``slide_steps``, the counting variables). ``clone(for_test=True)`` reads
        the counts and adds none.
    """
    as_kind("auc", "curve", curve, Literal["ROC", "PR"])
    if not input.is_float or label.is_float:
        raise IllTyped(f"auc takes probabilities and integer labels, not {input!r} and {label!r}.")
    layer = LayerHelper("auc", input, label)
    op, bins = layer.op, num_thresholds + 1
    positive = op.Cast(op.Reshape(label, np.array([-1])), to=11)
    weight = 1.0 if ins_tag_weight is None else op.Cast(op.Reshape(ins_tag_weight, np.array([-1])), to=11)
    scores = op.Cast(op.Reshape(op.Slice(input, [-1], [np.iinfo(np.int64).max], [1]), np.array([-1])), to=11)
    index = op.Cast(op.Clip(op.Mul(scores, float(num_thresholds)), 0.0, float(num_thresholds)), to=7)
    empty = op.constant(np.zeros(bins))
    counts = [op.ScatterElements(empty, index, op.Mul(rows, weight), reduction="add") for rows in (positive, op.Sub(1.0, positive))]
    program, states, windows, totals = layer.program, [], [], []
    for name, count in zip(("pos", "neg"), counts, strict=True):
        old = create_global_var([max(slide_steps, 1), bins], 0, "float64", name=f"{layer.name}.batch_stat_{name}")
        total = create_global_var([bins], 0, "float64", name=f"{layer.name}.stat_{name}")
        moved = op.Concat(op.Slice(old, [1], [np.iinfo(np.int64).max], [0]), op.Unsqueeze(count, [0]), axis=0)
        program.updates[old], program.updates[total] = moved, op.Add(total, count)
        program.version += 1
        totals.append(program.updates[total])
        windows.append(op.ReduceSum(moved, [0], keepdims=0) if slide_steps else totals[-1])
        states += [old, total]
    area = layer.result("Identity", area_under(op, totals, curve))
    return area, layer.result("Identity", area_under(op, windows, curve)), [states[0], states[2], states[1], states[3]]


def area_under(op: Builder, counts: list[Variable], curve: str) -> Variable:
    """Trapezoids under the curve, from the positive and negative counts in each bin of scores"""
    one = np.array(0)
    hits, misses = (op.CumSum(count, one, reverse=1) for count in counts)
    pad = op.constant(np.zeros(1))
    steps = []
    for values in (hits, misses):
        later = op.Concat(op.Slice(values, [1], [np.iinfo(np.int64).max], [0]), pad, axis=0)
        steps.append((values, later))
    (h, h_next), (m, m_next) = steps
    total_h, total_m = op.ReduceMax(hits, keepdims=0), op.ReduceMax(misses, keepdims=0)
    if curve == "ROC":
        area = op.ReduceSum(op.Mul(op.Sub(m, m_next), op.Mul(op.Add(h, h_next), 0.5)), keepdims=0)
        whole = op.Mul(total_h, total_m)
    else:
        precision = [
            op.Where(op.Greater(op.Add(a, b), 0.0), op.Div(a, op.Max(op.Add(a, b), 1e-12)), 1.0)
            for a, b in ((h, m), (h_next, m_next))
        ]
        area = op.ReduceSum(op.Mul(op.Sub(h, h_next), op.Mul(op.Add(*precision), 0.5)), keepdims=0)
        whole = total_h
    safe = op.Where(op.Greater(whole, 0.0), whole, 1.0)
    return op.Where(op.Greater(whole, 0.0), op.Div(area, safe), 0.0)


class _Printer:
    """Prints one value, at most ``first_n`` times."""

    def __init__(self, name: str, first_n: int, message: str | None, summarize: int, parts: dict[str, bool]) -> None:
        self.name, self.first_n, self.message, self.summarize, self.parts = name, first_n, message, summarize, parts
        self.count = 0

    def __call__(self, value: np.ndarray[Any, Any], place: Any) -> None:
        self.count += 1
        if 0 <= self.first_n < self.count:
            return
        flat = value.reshape(-1)
        shown = flat if self.summarize < 0 else flat[: self.summarize]
        text = " ".join(str(element) for element in shown) + (" ..." if len(shown) < len(flat) else "")
        lines = {
            "name": f"Variable: {self.name}",
            "place": f"  - place: {place!r}",
            "shape": f"  - shape: {list(value.shape)}",
            "type": f"  - dtype: {value.dtype.name}",
            "data": f"  - data: [{text}]",
        }
        head = [] if self.message is None else [self.message]
        print("\n".join([*head, *(line for part, line in lines.items() if self.parts[part])]))


@checked
def Print(  # noqa: N802
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: Literal["forward", "backward", "both"] = "both",
) -> Variable:
    """Print a value in every run of the program by an Executor.

    The value is fetched with the run and printed by Python; an exported model does not print.

    Args:
        input: any variable of the main block.
        first_n: print so many times only; -1 for always.
        message: printed first.
        summarize: how many elements; -1 for all.
        print_tensor_name, print_tensor_type, print_tensor_shape: which of these to print.
        print_tensor_layout, print_tensor_lod: accepted for compatibility.
        print_phase: accepted for compatibility; gradients are not printed. Fetch them.

    Returns:
        ``input`` under a new name.

    Raises:
        ArgumentError: inside a branch or loop, whose values cannot be fetched.
    """
    as_kind("Print", "print_phase", print_phase, Literal["forward", "backward", "both"])
    layer = LayerHelper("print", input)
    if layer.op.block.parent is not None:
        raise ArgumentError("Print: values inside a branch or loop cannot be fetched. Return them and print outside.")
    parts = {"name": print_tensor_name, "place": True, "shape": print_tensor_shape, "type": print_tensor_type, "data": True}
    output = layer.result("Identity", input)
    layer.program.plan.printers.append((output, _Printer(input.name, first_n, message, summarize, parts)))
    layer.program.version += 1
    return output

"""The exponentials of a labelled loss, taken once for the loss and for its gradient.

Tests: tests/core/providers/test_shared_exponentials.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import OPENVINO_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import operand_of, producer_of
from onnxgrad.core.graph.rewriting import Links, rewrite_operators
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import same_dim
from onnxgrad.core.ir.variable import Variable

__all__ = ["SHARED_EXPONENTIALS"]


def _shared_exponentials(graph: Graph, target: Target) -> int:
    """Take exp(x - max) and its sum once for a loss and for its gradient, where OpenVINO would take them once for each.

    log_softmax(x)[label] = x[label] - max - log(sum);  softmax(x) = exp(x - max) / sum
    """
    axes = _shared_scores(Links(graph))
    parts: dict[Variable, tuple[Variable, Variable, Variable]] = {}

    def parts_of(build: Any, x: Variable) -> tuple[Variable, Variable, Variable]:
        if x not in parts:
            most = build.ReduceMax(x, [axes[x]])
            powers = build.Exp(build.Sub(x, most))
            parts[x] = most, powers, build.ReduceSum(powers, [axes[x]])
        return parts[x]

    def at_index(build: Any, op: Operator) -> list[Variable | None] | None:
        x = operand_of(op.inputs[0], "LogSoftmax")
        if x is None or x not in axes:
            return None
        most, _, total = parts_of(build, x)
        picked = build.GatherElements(x, op.inputs[1], axis=axes[x])
        return [build.Sub(build.Sub(picked, most), build.Log(total))]

    def softmax(build: Any, op: Operator) -> list[Variable | None] | None:
        x = op.inputs[0]
        if x is None or x not in axes or not _is_along(op, axes[x]):
            return None
        _, powers, total = parts_of(build, x)
        return [build.Div(powers, total)]

    return rewrite_operators(graph, {"GatherElements": at_index, "Softmax": softmax})


def _shared_scores(links: Links) -> dict[Variable, int]:
    """Scores of a Softmax whose LogSoftmax is read at one index per row alone, and the axis of both."""
    axes = {}
    for op in links.graph.operators:
        log = producer_of(op.inputs[0], "LogSoftmax") if op.type == "GatherElements" and not op.domain else None
        if log is None:
            continue
        picked, index, x = op.inputs[0], op.inputs[1], log.inputs[0]
        if picked is None or x is None or x.dims is None or index is None or index.dims is None:
            continue
        axis = log.attr("axis") % len(x.dims)
        if axis != len(x.dims) - 1:
            continue  # Sums over channels of images take as long as what is spared.
        rows = [1 if i == axis else d for i, d in enumerate(x.dims)]
        alone = len(links.readers[picked]) == 1 and picked not in links.returned
        has_softmax = any(r.type == "Softmax" and not r.domain and _is_along(r, axis) for r in links.readers[x])
        if alone and has_softmax and _is_along(op, axis) and len(rows) == len(index.dims) and all(map(same_dim, rows, index.dims)):
            axes[x] = axis
    return axes


def _is_along(op: Operator, axis: int) -> bool:
    """Whether this is the axis of an operator of the scores' rank."""
    x = op.inputs[0]
    return x is not None and x.dims is not None and op.attr("axis") % len(x.dims) == axis


SHARED_EXPONENTIALS = Pass(
    "shared_exponentials", _shared_exponentials, after=("labelled_losses",), rounding="order", gain=OPENVINO_FORMS
)

"""Transpose the weights that a loop reads transposed once, before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, OPENVINO_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["HOIST_TRANSPOSES", "HOIST_TRANSPOSES_APART", "hoist_transposes"]

_FEW = COSTS.count("hoist_transposes.most_columns")


def _transposed(build: Any, weight: Variable) -> Variable | None:
    result: Variable = build.Transpose(weight, perm=[1, 0])
    return result


def _transposed_apart(build: Any, weight: Variable) -> Variable | None:
    """Through three axes: OpenVINO puts a Transpose of two back into each product. None where the halves of rows are unknown."""
    shape = weight.static_shape
    if shape is None or shape[0] % 2 or not shape[0]:
        return None
    rows, columns = shape
    halves = build.Transpose(build.Reshape(weight, [2, rows // 2, columns]), perm=[2, 0, 1])
    result: Variable = build.Reshape(halves, [columns, rows])
    return result


def hoist_transposes(graph: Graph, target: Target, transposed: Callable[[Any, Variable], Variable | None] = _transposed) -> int:
    """In bodies of Loop and Scan, W^T x with the W of the graph: the Gemm reads a W that is transposed before the loop.

    A Gemm with transA takes 1.7 times as long as one without (1024x256 by 256x32), and longer than turning W from four steps on.
    From about 200 columns on there is no difference.
    """
    if graph.types().isdisjoint(("Loop", "Scan")):
        return 0
    hoisted: dict[Variable, Variable | None] = {}
    written: list[Operator] = []
    count = 0
    for op in graph.operators:
        build = stage_builder(graph, op)
        for gemm in _products(op) if op.type in ("Loop", "Scan") and not op.domain else ():
            weight, x = gemm.inputs[:2]
            columns = None if x is None or x.dims is None else x.dims[0 if gemm.attr("transB") else 1]
            if weight is None or weight.block is not graph.program.global_block():
                continue
            if isinstance(columns, int) and columns > _FEW:
                continue
            if weight not in hoisted:
                hoisted[weight] = transposed(build, weight)
            turned = hoisted[weight]
            if turned is None:
                continue
            gemm.inputs = [turned, *gemm.inputs[1:]]
            gemm.attrs = {**gemm.attrs, "transA": 0}
            count += 1
        assert build.stage is not None
        name_results(graph, build.stage, build.key)
        written += [*build.stage, op]
    graph.operators = written
    graph.take_constants()
    return count


HOIST_TRANSPOSES = Pass("hoist_transposes", hoist_transposes, rounding="order", gain=CPU_FORMS)
HOIST_TRANSPOSES_APART = Pass(
    "hoist_transposes",
    lambda graph, target: hoist_transposes(graph, target, _transposed_apart),
    rounding="order",
    gain=OPENVINO_FORMS,
)
"""The same for OpenVINO, before loops are written out."""


def _products(op: Operator) -> Iterator[Operator]:
    """The Gemms in the bodies of an operator that read their first operand transposed."""
    for body in op.blocks():
        for inner in body.ops:
            yield from _products(inner)
            if inner.type == "Gemm" and not inner.domain and inner.attr("transA"):
                yield inner

"""Transpose the weights that a loop reads transposed once, before it."""

from __future__ import annotations

from collections.abc import Iterator

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["HOIST_TRANSPOSES", "hoist_transposes"]

_FEW = COSTS.count("hoist_transposes.most_columns")


def hoist_transposes(graph: Graph, target: Target) -> int:
    """In bodies of Loop and Scan, W^T x with the W of the graph: the Gemm reads a W that is transposed before the loop.

    A Gemm with transA takes 1.7 times as long as one without (1024x256 by 256x32), and longer than turning W from four steps on.
    From about 200 columns on there is no difference.
    """
    if graph.types().isdisjoint(("Loop", "Scan")):
        return 0
    hoisted: dict[Variable, Variable] = {}
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
                hoisted[weight] = build.Transpose(weight, perm=[1, 0])
            gemm.inputs = [hoisted[weight], *gemm.inputs[1:]]
            gemm.attrs = {**gemm.attrs, "transA": 0}
            count += 1
        assert build.stage is not None
        name_results(graph, build.stage, build.key)
        written += [*build.stage, op]
    graph.operators = written
    return count


HOIST_TRANSPOSES = Pass("hoist_transposes", hoist_transposes, rounding="order", gain=CPU_FORMS)


def _products(op: Operator) -> Iterator[Operator]:
    """The Gemms in the bodies of an operator that read their first operand transposed."""
    for body in op.blocks():
        for inner in body.ops:
            yield from _products(inner)
            if inner.type == "Gemm" and not inner.domain and inner.attr("transA"):
                yield inner

"""Rows that are added up into zeros, and these to a tensor of the same size: added up into that tensor."""

from __future__ import annotations

from onnxgrad.core.compile.cpu_rows import is_zero
from onnxgrad.core.compile.graph import Graph
from onnxgrad.core.compile.order import in_order
from onnxgrad.core.compile.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["scatter_into_sums"]


def scatter_into_sums(graph: Graph) -> None:
    """x + ScatterElements(zeros, i, y, add) as ScatterElements(x, i, y, add), as in the gradient of tied embeddings.

    onnxruntime works in place of x, so that two passes over memory and two tensors are left out, one of them a constant of zeros.
    """
    links = Links(graph)
    staged: list[Operator] = []
    for op in graph.operators:
        scattered = _sum(links, op)
        if scattered is None or op.outputs[0] is None:
            continue
        x, scatter = scattered
        build = stage_builder(graph, op)
        graph.replace(op.outputs[0], build.emit("ScatterElements", [x, *scatter.inputs[1:]], dict(scatter.attrs)))
        assert build.stage is not None
        name_results(graph, build.stage, build.key)
        staged += build.stage
    if staged:
        graph.operators = in_order([*graph.operators, *staged], graph.resolve)


def _sum(links: Links, op: Operator) -> tuple[Variable, Operator] | None:
    """What is scattered into zeros and then added to, and the operator that scatters"""
    if op.type != "Add" or op.domain:
        return None
    for x, y in (op.inputs, op.inputs[::-1]):
        made = None if y is None else links.makers.get(y)
        if made is None or made.type != "ScatterElements" or made.domain or made.attr("reduction") != "add" or x is None or x is y:
            continue
        alone = y not in links.returned and len(links.readers[y]) == 1  # type: ignore[index]
        same = x.static_shape is not None and x.static_shape == y.static_shape  # type: ignore[union-attr]
        if alone and same and made.inputs[0] is not None and is_zero(made.inputs[0]):
            return x, made
    return None

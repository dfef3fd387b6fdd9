"""Large tables that rows are looked up in, and their gradients: one tensor of the table's size where the plain form holds three."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import is_zero, operand_of, producer_of
from onnxgrad.core.graph.rewriting import Links, rewrite_operators
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.sizes import bytes_of
from onnxgrad.core.ir.variable import Variable

__all__ = ["EMBEDDING_GRADIENTS", "lean_embedding_gradients"]

_LARGE = COSTS.count("embedding_gradients.smallest_zeros")
_LARGE_PRODUCT = COSTS.count("embedding_gradients.smallest_product")
"""Bytes."""


def lean_embedding_gradients(graph: Graph, target: Target) -> int:
    """Read rows of a transposed table as columns, and let gradients of tables hold less.

    In backward passes: a sum of a gradient with rows that are added up in zeros adds them to the gradient; other zeros of at least
    1 MB are written in the run, since as a constant onnxruntime would hold and copy them; and a product of at least 16 MB that is
    transposed is computed transposed.

    A decoder whose last product reads the table of its tokens: 148 MB instead of 443 for 50,257 tokens of 768 numbers.
    """
    types, count = graph.types(), 0
    if types >= {"Gather", "Transpose"}:
        count += rewrite_operators(graph, {"Gather": _columns})
        graph.settle()
    if "Gemm" in types and any(op.type == "Transpose" and _is_large(op) for op in graph.operators):
        count += rewrite_operators(graph, {"Transpose": _turned(Links(graph))})
    if "ScatterElements" in types:
        links = Links(graph)
        count += rewrite_operators(graph, dict.fromkeys(("Add", "Sum"), lambda build, op: _added_onto(build, op, links)))
    graph.settle()
    count += rewrite_operators(graph, {"ScatterElements": _into_new_zeros})
    graph.settle()
    return count


EMBEDDING_GRADIENTS = Pass("embedding_gradients", lean_embedding_gradients, rounding="order", gain=CPU_FORMS)


def _columns(build: Any, op: Operator) -> list[Variable | None] | None:
    """Rows of a transposed weight as its columns, transposed: a step would write all of the table to read some rows of it."""
    transpose, index = producer_of(op.inputs[0], "Transpose"), op.inputs[1]
    weight = None if transpose is None else transpose.inputs[0]
    if weight is None or weight.rank != 2 or not weight.persistable or op.attr("axis") or index is None or index.rank is None:
        return None
    if bytes_of(weight) < _LARGE or transpose is None or transpose.attr("perm") not in (None, [1, 0]):
        return None
    return [build.Transpose(build.Gather(weight, index, axis=1), perm=[*range(1, index.rank + 1), 0])]


def _turned(links: Links) -> Any:
    def form(build: Any, op: Operator) -> list[Variable | None] | None:
        """(A B)^T = B^T A^T."""
        product = op.inputs[0]
        gemm = links.makers[product] if product is not None and _is_alone(links, product) else None
        if gemm is None or product is None or gemm.type != "Gemm" or gemm.domain or gemm.role is not Role.BACKWARD:
            return None
        if len(gemm.inputs) > 2 or op.attr("perm") != [1, 0] or not _is_large(op):
            return None
        sides = {"transA": 1 - gemm.attr("transB"), "transB": 1 - gemm.attr("transA"), "alpha": gemm.attr("alpha")}
        return [build.Gemm(*gemm.inputs[::-1], **sides)]

    return form


def _is_large(transpose: Operator) -> bool:
    product = transpose.inputs[0]
    return product is not None and bytes_of(product) >= _LARGE_PRODUCT


def _added_onto(build: Any, op: Operator, links: Links) -> list[Variable | None] | None:
    """g + scatter(zeros, rows) as scatter(g, rows)."""
    result = op.outputs[0]
    if op.role is not Role.BACKWARD or len(op.inputs) < 2 or result is None or result.dims is None or None in result.dims:
        return None
    if any(v is None or v.dims != result.dims for v in op.inputs):
        return None
    operands = [v for v in op.inputs if v is not None]
    rows = [v for v in operands if _is_alone(links, v) and _adds_to_zeros(links.makers[v])]
    rows = rows[1:] if len(rows) == len(operands) else rows
    added = set(rows)
    others = [v for v in operands if v not in added]
    if not rows:
        return None
    whole = others[0] if len(others) == 1 else build.Sum(*others)
    for v in rows:
        scatter = links.makers[v]
        whole = build.ScatterElements(whole, *scatter.inputs[1:], axis=scatter.attr("axis"), reduction="add")
    return [whole]


def _is_alone(links: Links, v: Variable) -> bool:
    """Return whether an operator computes it for one reader, which reads it once."""
    return v in links.makers and v not in links.returned and len(links.readers[v]) == 1


def _adds_to_zeros(op: Operator) -> bool:
    zeros = op.inputs[0] if op.type == "ScatterElements" and not op.domain and op.attr("reduction") == "add" else None
    return zeros is not None and is_zero(zeros)


def _into_new_zeros(build: Any, op: Operator) -> list[Variable | None] | None:
    """Zeros that depend on the index: onnxruntime neither computes them early nor keeps them, and they become the result."""
    zeros, index, updates = op.inputs
    expand = producer_of(zeros, "Expand")
    shape = None if expand is None else expand.inputs[1]
    if op.role is not Role.BACKWARD or not _adds_to_zeros(op) or shape is None or zeros is None or index is None:
        return None
    if bytes_of(zeros) < _LARGE:
        return None
    first = build.Slice(build.Reshape(operand_of(index, "Expand") or index, [-1]), [0], [1])
    nothing = build.Mul(build.ReduceSum(first, keepdims=0), 0)
    fresh = build.Expand(build.Cast(nothing, to=zeros.dtype.number), shape)
    return [build.ScatterElements(fresh, index, updates, axis=op.attr("axis"), reduction="add")]

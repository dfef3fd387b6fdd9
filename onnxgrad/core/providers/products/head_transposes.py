"""Products between the heads of attention, so that onnxruntime's products transpose their operands and no Transpose does.

Heads come from Transpose([0, 2, 1, 3]). Where a product reads one with its last axes swapped, onnxruntime joins the two Transposes
to one that moves single elements, on one thread, beside the one that others read. A Reshape between them keeps them apart, and the
swap becomes a flag of the product.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.order import in_order
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import same_dim
from onnxgrad.core.ir.variable import Variable

__all__ = ["HEAD_TRANSPOSES", "turn_heads_in_products"]


def turn_heads_in_products(graph: Graph, target: Target) -> int:
    """Remove Transposes of the last two axes around products in rank 4: pairs of them, and those of (A^T B)^T, which is B^T A."""
    before = graph.replacements
    links: Links | None = None
    for step in (_undo, _swap_product, _keep_apart):
        # Each begins at a Transpose of the last two axes.
        if not any(_swaps_last_two(op) for op in graph.operators):
            break
        links = links or Links(graph)
        if _each(graph, links, step):
            links = None
    return graph.replacements - before


HEAD_TRANSPOSES = Pass("head_transposes", turn_heads_in_products, rounding="order", gain=CPU_FORMS)


def _each(graph: Graph, links: Links, form: Any) -> bool:
    """Write a form wherever it applies, and return whether it does anywhere"""
    before = graph.replacements
    staged: list[Operator] = []
    for op in graph.operators:
        if op.type not in ("Transpose", "MatMul"):
            continue
        build = stage_builder(graph, op)
        replacement = form(build, links, op)
        if replacement is not None and build.stage is not None:
            old, new = replacement
            graph.replace(old, new)
            name_results(graph, build.stage, build.key)
            staged += build.stage
    if staged:
        graph.operators = in_order([*graph.operators, *staged], graph.resolve)
    if graph.replacements == before:
        return False
    graph.settle()
    return True


def _swaps_last_two(op: Operator) -> bool:
    return op.type == "Transpose" and op.attr("perm") == [0, 1, 3, 2]


def _swapped(links: Links, v: Variable | None) -> Variable | None:
    """Return the operand of the Transpose that computes ``v`` by swapping the last two of four axes, or None."""
    op = None if v is None else links.makers.get(v)
    return op.inputs[0] if op is not None and _swaps_last_two(op) else None


def _undo(build: Any, links: Links, op: Operator) -> tuple[Variable, Variable] | None:
    inner = _swapped(links, op.inputs[0]) if _swaps_last_two(op) else None
    out = op.outputs[0] if op.outputs else None
    return None if inner is None or out is None or out in links.returned else (out, inner)


def _product(links: Links, v: Variable | None) -> Operator | None:
    """The MatMul of two tensors of rank 4 whose result is ``v``, if it has but one reader"""
    op = None if v is None else links.makers.get(v)
    alone = op is not None and op.type == "MatMul" and not op.domain and v not in links.returned
    return op if alone and len(links.readers.get(v, ())) == 1 and all(x is not None and x.rank == 4 for x in op.inputs) else None  # type: ignore[arg-type, union-attr]


def _swap_product(build: Any, links: Links, op: Operator) -> tuple[Variable, Variable] | None:
    product = _product(links, op.inputs[0]) if _swaps_last_two(op) else None
    first = None if product is None else _swapped(links, product.inputs[0])
    if product is None or first is None or op.outputs[0] is None:
        return None
    return op.outputs[0], build.MatMul(build.Transpose(product.inputs[1], perm=[0, 1, 3, 2]), first)


def _keep_apart(build: Any, links: Links, op: Operator) -> tuple[Variable, Variable] | None:
    """Write a product that reads transposed heads with their axes swapped, and its scale, with the heads in one axis."""
    if op.type != "MatMul" or op.domain or any(v is None or v.rank != 4 for v in op.inputs) or op.outputs[0] is None:
        return None
    plain = [_swapped(links, v) for v in op.inputs]
    if not any(v is not None and _is_transposed(links, v) for v in plain):
        return None
    operands = [v if s is None else s for v, s in zip(op.inputs, plain, strict=True)]
    a, b = (v.dims for v in operands)  # type: ignore[union-attr]
    out = op.outputs[0]
    sizes = [*a[1:], *b[1:], *(out.dims or (None,))[1:]]  # type: ignore[index]
    if not all(isinstance(d, int) and d > 0 for d in sizes) or not same_dim(a[0], b[0]) or a[1] != b[1]:  # type: ignore[index]
        return None
    flat = [build.Reshape(v, [-1, *v.dims[2:]]) for v in operands]  # type: ignore[union-attr, index]
    matrices = [f if s is None else build.Transpose(f, perm=[0, 2, 1]) for f, s in zip(flat, plain, strict=True)]
    result, scaled = build.MatMul(*matrices), _scale(links, out)
    if scaled is not None:
        result, out = build.Mul(result, scaled[1]), scaled[0]
    assert out.dims is not None
    return out, build.Reshape(result, [-1, *out.dims[1:]])


def _is_transposed(links: Links, v: Variable) -> bool:
    """Return whether a value is the result of a Transpose that a swap of its axes would be joined with."""
    op = links.makers.get(v)
    return op is not None and op.type == "Transpose" and op.attr("perm") != [0, 1, 3, 2]


def _scale(links: Links, v: Variable) -> tuple[Variable, Variable] | None:
    """The product with a constant number that is all that reads ``v``, and the number"""
    readers = links.readers.get(v, [])
    if len(readers) != 1 or v in links.returned or readers[0].type != "Mul" or readers[0].domain or readers[0].outputs[0] is None:
        return None
    others = [x for x in readers[0].inputs if x is not v]
    known = len(others) == 1 and others[0] is not None and others[0].value is not None and others[0].static_shape in ((), (1,))
    return (readers[0].outputs[0], others[0]) if known else None  # type: ignore[return-value]

"""Matrix products in other forms than they are written in: without a Transpose behind them, and without an odd inner size.

Tests: tests/core/providers/test_turned_products.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import OPENVINO_FORMS, Form, Pass
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import Links
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["EVEN_PRODUCTS", "TURNED_PRODUCTS"]

_FEWEST = 1025
"""Terms from which on the parts are worth their operators."""


def turned_products(graph: Graph) -> dict[str, Form]:
    """(A B)^T = B^T A^T, where nothing else reads the product: the gradient of a weight that a file transposes first.

    A Transpose is a pass over memory of its own, in OpenVINO by a kernel without vectors.
    """
    links = Links(graph)

    def form(build: Any, op: Operator) -> list[Variable | None] | None:
        product = op.inputs[0]
        made = None if product is None else links.makers.get(product)
        if made is None or product is None or product.rank != 2 or op.attr("perm") not in (None, [1, 0]):
            return None
        if made.domain or made.type not in ("Gemm", "MatMul") or product in links.returned or len(links.readers[product]) > 1:
            return None
        if len(made.inputs) > 2 or any(v is None or v.rank != 2 for v in made.inputs):
            return None
        turns = {"transA": made.attr("transB") or 0, "transB": made.attr("transA") or 0} if made.type == "Gemm" else {}
        sides = {name: 1 - turns.get(name, 0) for name in ("transA", "transB")}
        return [build.Gemm(*made.inputs[::-1], **sides, alpha=made.attr("alpha") if made.type == "Gemm" else 1.0)]

    return {"Transpose": form}


TURNED_PRODUCTS = Pass("turned_products", forms=turned_products, rounding="order", gain=OPENVINO_FORMS)


def _even(build: Any, op: Operator) -> list[Variable | None] | None:
    """A product over an odd number of terms: over all but the last, and the last as a product of a column and a row.

    AMX multiplies pairs of bfloat16, and OpenVINO has no such kernel for an odd number: 6 times as slow for 50,257 words.
    """
    x, w = op.inputs[:2]
    shape = None if w is None else w.static_shape
    if x is None or shape is None or len(shape) != 2 or not x.rank or x.rank < 2 or len(op.inputs) > 2:
        return None
    turns = 1 if op.type == "Gemm" and op.attr("transB") else 0
    if op.type == "Gemm" and (op.attr("transA") or op.attr("alpha") != 1.0):
        return None
    terms = shape[turns]
    if terms % 2 == 0 or terms < _FEWEST or x.dtype.name != "float32":
        return None
    last = x.rank - 1
    operands = build.Slice(x, [0], [terms - 1], [last]), build.Slice(w, [0], [terms - 1], [turns])
    most = build.Gemm(*operands, transB=1) if turns else build.MatMul(*operands)
    row = build.Slice(w, [terms - 1], [terms], [turns])
    column = build.Slice(x, [terms - 1], [terms], [last])
    return [build.Add(most, build.Mul(column, build.Reshape(row, [1, -1]) if turns else row))]


EVEN_PRODUCTS = Pass("even_products", forms=dict.fromkeys(("Gemm", "MatMul"), _even), rounding="order", gain=OPENVINO_FORMS)

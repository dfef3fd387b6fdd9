"""Matrix products in other forms than they are written in: without a Transpose behind them, in parts, without an odd inner size.

Tests: tests/core/providers/test_turned_products.py.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import OPENVINO_FORMS, Form, Pass
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import operand_of
from onnxgrad.core.graph.rewriting import Links
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["EVEN_PRODUCTS", "PARTED_PRODUCTS", "TURNED_PRODUCTS"]

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


_MANY_WORDS = 40_000
"""Columns of a matrix from which on its products are faster by parts, in bfloat16."""
_ALIGNED = 8
"""Of a multiple of so many, the transposed matrix is read as fast whole."""
_PART = 4096
_MULTIPLE = 32


def _parted(build: Any, op: Operator) -> list[Variable | None] | None:
    """The gradients of a product with a vocabulary by parts of its words: G^T X one below the other, and the sum of the G W."""
    g, w = op.inputs[:2]
    if g is None or w is None or len(op.inputs) > 2 or g.static_shape is None or w.static_shape is None:
        return None
    if g.rank != 2 or w.rank != 2 or g.static_shape[1] < _MANY_WORDS or g.dtype.name != "float32":
        return None
    parts = _parts(g.static_shape[1])
    if op.attr("transA"):
        if op.attr("transB") or g.static_shape[1] % _ALIGNED == 0:
            return None
        columns = build.Split(g, parts, axis=1, outputs=len(parts))
        return [build.Concat(*(build.Gemm(part, w, transA=1, alpha=op.attr("alpha")) for part in columns), axis=0)]
    turned = operand_of(w, "Transpose", [1, 0]) if op.attr("transB") else w
    if turned is None or op.attr("alpha") != 1.0:
        return None
    columns = build.Split(g, parts, axis=1, outputs=len(parts))
    rows = build.Split(turned, parts, axis=0, outputs=len(parts))
    # First the last ones, whose number may be odd: what is added up already is a third operand of the others.
    total = build.Gemm(columns[-1], rows[-1])
    for column, row in zip(columns[:-1], rows[:-1], strict=True):
        total = build.Gemm(column, row, total)
    return [total]


def _parts(words: int) -> np.ndarray[Any, Any]:
    """The words of each part: multiples of 32, and the rest in the last one."""
    number = ceil(words / _PART)
    sizes = np.full(number, words // number // _MULTIPLE * _MULTIPLE, np.int64)
    sizes[-1] += words - sizes.sum()
    return sizes


PARTED_PRODUCTS = Pass(
    "parted_products", forms={"Gemm": _parted}, after=(TURNED_PRODUCTS.name,), rounding="order", gain=OPENVINO_FORMS
)


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


EVEN_PRODUCTS = Pass(
    "even_products",
    forms=dict.fromkeys(("Gemm", "MatMul"), _even),
    after=(PARTED_PRODUCTS.name,),
    rounding="order",
    gain=OPENVINO_FORMS,
)

"""Products of few rows with a large weight: the weight first."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Form, Pass
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["SWAP_GEMM_OPERANDS"]

_FEWEST, _MOST = COSTS.count("small_m.fewest_rows"), COSTS.count("small_m.most_rows")
_ROWS = (*range(_FEWEST, _MOST + 1), COSTS.count("small_m.further_rows"))
_LARGE = COSTS.count("small_m.smallest_weight")


def swapped_gemm(graph: Graph) -> dict[str, Form]:
    """x W^T as (W x^T)^T, for 16 to 32 or 64 rows and a weight W of at least 2^18 numbers that is an input.

    onnxruntime packs the second operand of a product in each run, which takes as long as so few rows; 0.6 to 0.9 of the time.
    Not as a Gemm: its optimiser would turn that back. A weight that is a constant is packed when the session is opened.
    """
    weights = set(graph.inputs)

    def form(build: Any, op: Operator) -> list[Variable | None] | None:
        x, w = op.inputs[:2]
        added = op.inputs[2] if len(op.inputs) > 2 else None
        if x is None or w not in weights or w is None or w.dtype.name != "float32" or op.attr("transA") or not op.attr("transB"):
            return None
        rows, shape = None if x.dims is None else x.dims[0], w.static_shape
        if rows not in _ROWS or shape is None or shape[0] * shape[1] < _LARGE:
            return None
        if op.attr("alpha") != 1.0 or (added is not None and op.attr("beta") != 1.0):
            return None
        y = build.Transpose(build.MatMul(w, build.Transpose(x, perm=[1, 0])), perm=[1, 0])
        return [y if added is None else build.Add(y, added)]

    return {"Gemm": form}


SWAP_GEMM_OPERANDS = Pass("swap_gemm_operands", forms=swapped_gemm, rounding="order", gain=CPU_FORMS)

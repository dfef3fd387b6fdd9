"""Write the error for a graph that onnxruntime does not run.

Tests: tests/core/graph_passes/test_float64.py.
"""

from __future__ import annotations

from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph_passes.float64 import FORMS, is_double
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.types import TensorType

__all__ = ["refusal"]

_WITHOUT_FORM = ("GRU", "LSTM", "MaxRoiPool", "Multinomial", "RNN", "Resize", "RoiAlign")


def refusal(graph: Graph, device: str, error: Exception) -> str:
    """Return why onnxruntime refuses a graph, and what to do, if an operator's element type is the reason; else its own message."""
    operators = list(all_operators_of(graph.program.global_block()))
    reason = None if device != "cpu" else _without_float64(operators, str(error)) or _in_bfloat16(operators, error)
    return reason or f"onnxruntime refuses the program: {error}"


def _without_float64(operators: list[Operator], message: str) -> str | None:
    for op in sorted(operators, key=lambda op: op.role):
        if op.type in message and is_double(op) and (op.type in FORMS or op.type in _WITHOUT_FORM):
            form = "a form of it for known ranks and sizes only" if op.type in FORMS else "no other form of it"
            return (
                f"{op}: onnxruntime's CPU provider does not compute {op.type} in float64, and onnxgrad has {form}. "
                "Cast its operands to float32 and its results back, or use float32 throughout."
            )
    return None


def _in_bfloat16(operators: list[Operator], error: Exception) -> str | None:
    results = (v for op in operators for v in op.outputs if v is not None and isinstance(v.type, TensorType))
    if any(v.dtype.name == "bfloat16" for v in results):
        return f"onnxruntime's CPU provider does not compute in bfloat16: {error}. Use dtype='float16', or a CUDAPlace."
    return None

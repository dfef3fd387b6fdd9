"""Passes of onnxruntime's optimiser that change the results of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onnxgrad.core.ir.operator import Operator

__all__ = ["unsafe_passes"]


def unsafe_passes(operators: Iterable[Operator]) -> list[str]:
    """Names of those to leave out, for these operators:

    ExpandElimination drops an Expand of one row to none, and the row stays. MatmulTransposeFusion multiplies a transposed matrix by
    a vector as if it were not transposed (onnxruntime 1.32).
    """
    listed = list(operators)
    passes = {"ExpandElimination": _expands_to_nothing, "MatmulTransposeFusion": _multiplies_a_vector}
    return [name for name, applies in passes.items() if _any(applies, listed)]


def _any(applies: Callable[[Operator], bool], operators: Iterable[Operator]) -> bool:
    """Whether it applies to one of these operators or of those in their bodies"""
    return any(applies(op) or any(_any(applies, body.ops) for body in op.blocks()) for op in operators)


def _expands_to_nothing(op: Operator) -> bool:
    return op.type == "Expand" and not op.domain and any(v is not None and v.dims is not None and 0 in v.dims for v in op.outputs)


def _multiplies_a_vector(op: Operator) -> bool:
    """Whatever stands between a Transpose and the product, other passes may take away"""
    if op.type != "MatMul" or op.domain or len(op.inputs) != 2:
        return False
    b = op.inputs[1]
    return b is not None and b.rank in (1, None)

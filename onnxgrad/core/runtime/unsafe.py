"""Passes of onnxruntime's optimiser that change the results of a graph."""

from __future__ import annotations

from collections.abc import Iterable

from onnxgrad.core.ir.operator import Operator

__all__ = ["unsafe_passes"]


def unsafe_passes(operators: Iterable[Operator]) -> list[str]:
    """Names of those to leave out: ExpandElimination drops an Expand of one row to none, and the row stays."""
    return ["ExpandElimination"] if any(map(_expands_to_nothing, operators)) else []


def _expands_to_nothing(op: Operator) -> bool:
    if op.type == "Expand" and not op.domain:
        return any(v is not None and v.dims is not None and 0 in v.dims for v in op.outputs)
    return any(_expands_to_nothing(inner) for body in op.blocks() for inner in body.ops)

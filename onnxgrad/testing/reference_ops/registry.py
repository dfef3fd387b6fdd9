"""The list of corrected operators."""

from __future__ import annotations

from onnx.reference.op_run import OpRun

__all__ = ["CORRECTED", "corrected"]

CORRECTED: list[type[OpRun]] = []


def corrected(operator: type[OpRun]) -> type[OpRun]:
    """Use this class in place of onnx's own"""
    CORRECTED.append(operator)
    return operator

"""Norms of the gradients of a step, as one more output of it.

Tests: tests/training/report/test_report.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.optimizer.master import is_narrow

__all__ = ["append_norms"]


def append_norms(program: Program, gradients: Sequence[Variable], scale: Variable | None = None) -> Variable:
    """Euclidean norms of gradients as one float32 vector, in their order; divided by a scale of the loss, [1], if there is one.

    Graphs that do not fetch it are as they were.
    """
    op = Builder(program.global_block(), role=Role.BACKWARD, key="gradient_norms")
    wide = [op.Cast(g, to=1) if is_narrow(g) else g for g in gradients]
    norms = [op.Reshape(op.ReduceL2(g, keepdims=0), [1]) for g in wide]
    whole: Variable = op.Concat(*[n if n.dtype.name == "float32" else op.Cast(n, to=1) for n in norms], axis=0)
    if scale is not None:
        whole = op.Div(whole, scale)
    program.version += 1
    return whole

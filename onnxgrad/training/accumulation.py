"""Gradient accumulation: micro-batches add their gradients up, and the optimizer is given the mean of several.

Both are operators of one program, whose plan says which state each run replaces and which is replaced when the sums are applied.

Tests: tests/training/test_accumulation.py, tests/training/test_trainer.py.
"""

from __future__ import annotations

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.plan import Accumulation
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.master import float32_gradients
from onnxgrad.optimizer.optimizer import Optimizer, Pairs

__all__ = ["SUM", "add_up"]

SUM = "@ACCUMULATED"
"""The end of the name of a sum of gradients."""


def add_up(program: Program, pairs: Pairs, optimizer: Optimizer, runs: int) -> None:
    """Let each run of a program add its gradients up, and the optimizer take the mean of so many runs.

    What is appended to the program afterwards and replaces state, does so when the sums are applied.

    Args:
        program: with its backward pass.
        pairs: parameters and their gradients.
        optimizer: whose update is appended.
        runs: in an update.

    Raises:
        ArgumentError: if the shape of a parameter is unknown.
    """
    op = Builder(program.global_block(), role=Role.OPTIMIZE, key="accumulate")
    cleared: dict[Variable, Variable] = {}
    means: Pairs = []
    for p, g in float32_gradients(op, pairs):
        shape = p.static_shape
        if shape is None:
            raise ArgumentError(f"gradients of {p.name} cannot be added up: its shape is unknown. Give it known dimensions.")
        total = program.create_global_var(f"{p.name}{SUM}", np.zeros(shape, g.dtype.numpy))
        program.updates[total] = op.Add(total, g)
        # Zeros of its shape, whatever it holds: NaN times 0 would stay.
        cleared[total] = op.Cast(op.Less(total, total), to=total.dtype.number)
        means.append((p, op.Mul(total, 1.0 / runs)))
    program.plan.accumulation = Accumulation(runs, cleared, frozenset(program.updates))
    optimizer.apply_gradients(means)
    program.version += 1

"""Gradient accumulation: micro-batches add their gradients up, and the optimizer is given the gradient of all of them as one batch.

A mean over examples is added up as its sum and its divisor (``core.step.loss_terms``), which are divided when they are applied: so
each example counts alike, however many of them, or of the tokens that count, a micro-batch has. Both are operators of one program,
whose plan says which state each run replaces and which is replaced when the sums are applied.

Tests: tests/training/test_accumulation.py, tests/training/test_trainer.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.origin import WEIGHED_GRADIENT, Origin
from onnxgrad.core.ir.plan import Accumulation, LossTerm
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.master import float32_gradients
from onnxgrad.optimizer.optimizer import Optimizer, Pairs

__all__ = ["SUM", "add_up"]

SUM = "@ACCUMULATED"
"""The end of the name of a sum of gradients, or of weights."""


def add_up(
    program: Program,
    terms: Sequence[LossTerm],
    gradients: Sequence[Pairs],
    optimizer: Optimizer,
    runs: int,
    overflows: Variable | None = None,
) -> None:
    """Let each run of a program add its gradients up, and the optimizer take the gradient of so many runs together.

    What is appended to the program afterwards and replaces state, does so when the sums are applied.

    Args:
        program: with its backward pass.
        terms: of the loss, ``of_parts``.
        gradients: of each term, the parameters and its gradients.
        optimizer: whose update is appended.
        runs: in an update.
        overflows: whether the run has gradients that are not finite; its weights then do not count, as its gradients are 0.

    Raises:
        ArgumentError: if the shape of a parameter is unknown.
    """
    op = Builder(program.global_block(), role=Role.OPTIMIZE, key="accumulate")
    cleared: dict[Variable, Variable] = {}
    divisors: set[Variable] = set()
    parts: dict[Variable, list[Variable]] = {}
    for number, (term, pairs) in enumerate(zip(terms, gradients, strict=True)):
        end = SUM if number == 0 else f"{SUM}.{number}"
        divisor = None
        if term.weight is not None:
            total = _sum_of_weights(op, program, term.weight, f"loss_weight{end}", overflows)
            cleared[total] = _zeros(op, total)
            divisors.add(total)
            divisor = op.Where(op.Equal(total, 0.0), 1.0, total)  # where nothing counted, all sums are 0
        for p, g in float32_gradients(op, pairs):
            shape = p.static_shape
            if shape is None:
                raise ArgumentError(f"gradients of {p.name} cannot be added up: its shape is unknown. Give it known dimensions.")
            total = program.create_global_var(f"{p.name}{end}", np.zeros(shape, g.dtype.numpy))
            if term.weight is not None:
                g = _weighed(op, g, term.weight)
            program.updates[total] = op.Add(total, g)
            cleared[total] = _zeros(op, total)
            part = total if divisor is None else op.Div(total, op.Cast(divisor, to=total.dtype.number))
            parts.setdefault(p, []).append(part)
    program.plan.accumulation = Accumulation(runs, cleared, frozenset(program.updates), tuple(terms), frozenset(divisors))
    optimizer.apply_gradients([(p, each[0] if len(each) == 1 else op.Sum(*each)) for p, each in parts.items()])
    program.version += 1


def _weighed(op: Builder, g: Variable, weight: Variable) -> Variable:
    """The gradient of a mean times its weight"""
    product: Variable = op.Mul(g, op.Cast(weight, to=g.dtype.number))
    assert product.op is not None
    product.op.origin = Origin("Accumulation", WEIGHED_GRADIENT, g)
    return product


def _sum_of_weights(op: Builder, program: Program, weight: Variable, name: str, overflows: Variable | None) -> Variable:
    """Add up the weights of a term, and return the state that holds their sum"""
    total = program.create_global_var(name, np.zeros((), np.float32))
    counted = op.Cast(weight, to=total.dtype.number)
    if overflows is not None:
        counted = op.Where(overflows, 0.0, counted)
    program.updates[total] = op.Add(total, counted)
    return total


def _zeros(op: Builder, total: Variable) -> Variable:
    """Zeros of the shape of a sum, whatever it holds: NaN times 0 would stay"""
    zeros: Variable = op.Cast(op.Less(total, total), to=total.dtype.number)
    return zeros

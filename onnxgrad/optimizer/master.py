"""Master weights: a 16-bit parameter is updated in float32, with float32 state, and written back in 16 bits.

In 16 bits Adam's epsilon is 0, squares of gradients overflow or vanish, and a step smaller than a thousandth of a weight is none.
The master weight holds what the parameter would be. Where somebody else has set the parameter since, by loading weights say, the
two no longer round to the same number, and the master weight starts from the parameter again; so it needs no start value either.

Tests: tests/optimizer/test_master_weights.py.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable

__all__ = ["MASTER", "Master", "float32_gradients", "is_narrow", "master_of", "master_value"]

Pairs: TypeAlias = "list[tuple[Variable, Variable]]"

MASTER = "_fp32_master"
"""What Paddle puts behind the name of the parameter."""
_FLOAT32 = 1


class Master(NamedTuple):
    """The parameter that a master weight belongs to, and the value that an update starts from."""

    parameter: Variable
    value: Variable


def is_narrow(p: Variable) -> bool:
    return p.dtype.name in ("float16", "bfloat16")


def master_of(p: Variable) -> Variable | None:
    """The master weight that an optimizer made for a parameter, which others share."""
    return p.block.program.global_block().vars.get(f"{p.name}{MASTER}_0")


def master_value(op: Builder, p: Variable, master: Variable) -> Variable:
    """Return the master weight at this point of the program where the parameter still is its rounded value; else the parameter"""
    updates = p.block.program.updates
    wide, present = updates.get(master, master), op.Cast(updates.get(p, p), to=_FLOAT32)
    rounded = op.Cast(op.Cast(wide, to=p.dtype.number), to=_FLOAT32)
    value: Variable = op.Where(op.Equal(rounded, present), wide, present)
    return value


def float32_gradients(op: Builder, pairs: Pairs) -> Pairs:
    """The gradients of 16-bit parameters in float32, in which their norms do not overflow"""
    return [(p, op.Cast(g, to=_FLOAT32) if is_narrow(p) and is_narrow(g) else g) for p, g in pairs]

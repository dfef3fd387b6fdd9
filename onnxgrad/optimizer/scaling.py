"""Dynamic loss scaling as operators of the step: 16-bit gradients neither vanish nor, for more than a step, overflow.

Tests: tests/optimizer/test_master_weights.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.origin import SCALED_LOSS, Origin
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable

__all__ = ["ScalePolicy", "keep_state", "overflow", "scaled_loss", "update_scale"]

_SMALLEST_SCALE = 1.0


class ScalePolicy(NamedTuple):
    """How the scale changes: by which ratio, after how many steps with finite, or with infinite, gradients."""

    incr_every_n_steps: int
    decr_every_n_nan_or_inf: int
    incr_ratio: float
    decr_ratio: float


def scaled_loss(op: Builder, loss: Variable, scale: Variable) -> Variable:
    """The loss times a scale of shape [1], in 32 bits at least."""
    wide = op.Cast(loss, to=1) if loss.dtype.name in ("float16", "bfloat16") else loss
    found: Variable = op.Mul(wide, op.Cast(op.Squeeze(scale, [0]), to=wide.dtype.number))
    assert found.op is not None
    found.op.origin = Origin("LossScale", SCALED_LOSS, loss)
    return found


def overflow(op: Builder, gradients: list[Variable]) -> Variable:
    """Whether an element of any gradient is infinite or NaN: their sum times 0 is then NaN, else 0."""
    sums = [op.Cast(op.ReduceSum(op.Mul(g, 0.0), keepdims=0), to=1) for g in gradients]
    total = op.Sum(*sums)
    assert total.op is not None
    total.op.reduction = "any"
    return op.IsNaN(total)


def update_scale(
    op: Builder, policy: ScalePolicy, found_inf: Variable, scale: Variable, good: Variable, bad: Variable
) -> dict[Variable, Variable]:
    """The new values of the scale and of the two counters of steps since it changed."""
    zero = np.array([0], np.int32)
    one = np.array([1], np.int32)
    good_now = op.Where(found_inf, zero, op.Add(good, one))
    bad_now = op.Where(found_inf, op.Add(bad, one), zero)
    grows = op.GreaterOrEqual(good_now, np.array([policy.incr_every_n_steps], np.int32))
    shrinks = op.GreaterOrEqual(bad_now, np.array([policy.decr_every_n_nan_or_inf], np.int32))
    larger = op.Mul(scale, float(policy.incr_ratio))
    larger = op.Where(op.IsInf(larger), scale, larger)
    smaller = op.Max(op.Mul(scale, float(policy.decr_ratio)), _SMALLEST_SCALE)
    return {
        scale: op.Where(grows, larger, op.Where(shrinks, smaller, scale)),
        good: op.Where(grows, zero, good_now),
        bad: op.Where(shrinks, zero, bad_now),
    }


def keep_state(op: Builder, program: Program, before: dict[Variable, Variable], found_inf: Variable) -> None:
    """Let the state that this step updates, running statistics included, keep its value where gradients overflow.

    ``before`` is ``program.updates`` from before the optimizer: what another optimizer did then stays.
    """
    for v, new in list(program.updates.items()):
        earlier = before.get(v)
        by_another = earlier is not None and earlier.op is not None and earlier.op.role is Role.OPTIMIZE
        if earlier is new and by_another:
            continue
        op.key = f"{v.name}@KEPT"
        old = earlier if earlier is not None and by_another else v
        program.updates[v] = op.Where(found_inf, old, new)

"""Dynamic loss scaling as operators of the step: 16-bit gradients neither vanish nor, for more than a step, overflow.

``static.amp.decorate`` and a Trainer scale the loss by it; ``amp.GradScaler`` does the same on the host, for eager tensors.

Tests: tests/optimizer/test_master_weights.py, tests/amp/test_static.py, tests/training/test_float16.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.origin import SCALED_LOSS, Origin
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.optimizer.master import float32_gradients
from onnxgrad.optimizer.optimizer import Optimizer, Pairs

__all__ = ["LossScaler", "ScalePolicy"]

_SMALLEST_SCALE = 1.0


class ScalePolicy(NamedTuple):
    """How the scale changes: by which ratio, after how many steps with finite, or with infinite, gradients."""

    incr_every_n_steps: int
    decr_every_n_nan_or_inf: int
    incr_ratio: float
    decr_ratio: float


class LossScaler:
    """The scale of the loss of one program: its state, and the operators that scale, unscale and adapt.

    Args:
        optimizer: whose update is appended, and among whose state the scale is.
        start: the first scale.
        policy: how it changes.
        is_dynamic: whether it does.
        parts: runs whose gradients are added up. The scaled loss of each is its part of theirs, so that a part does not overflow
            where the whole batch does not.

    Attributes:
        scale: the state that holds it, [1]; None before ``begin``.
        found_inf: whether an element of a gradient is infinite or NaN; None before gradients are unscaled.
    """

    def __init__(self, optimizer: Optimizer, start: float, policy: ScalePolicy, is_dynamic: bool = True, parts: int = 1) -> None:
        self.parts = parts
        self._optimizer, self._start, self.policy, self._is_dynamic = optimizer, start, policy, is_dynamic
        self.scale: Variable | None = None
        self.found_inf: Variable | None = None

    def begin(self, program: Program) -> Variable:
        """Add the scale to the state of a program."""
        self.scale = self._optimizer._state(program, "loss_scaling", np.array([self._start], np.float32))
        return self.scale

    def scaled(self, loss: Variable) -> Variable:
        """Multiply a loss by the scale, in 32 bits at least."""
        assert self.scale is not None
        op = Builder(loss.block, role=Role.BACKWARD, key="scaled_loss")
        wide = op.Cast(loss, to=1) if loss.dtype.name in ("float16", "bfloat16") else loss
        factor = op.Cast(op.Squeeze(self.scale, [0]), to=wide.dtype.number)
        if self.parts > 1:
            factor = op.Div(factor, float(self.parts))
        scaled: Variable = op.Mul(wide, factor)
        assert scaled.op is not None
        scaled.op.origin = Origin("LossScale", SCALED_LOSS, loss)
        return scaled

    def apply(self, pairs: Pairs, startup_program: Program | None = None) -> None:
        """Append the update from gradients of the scaled loss. A step that overflows changes nothing but the scale.

        Args:
            pairs: parameters and gradients of the scaled loss.
            startup_program: receives the initialisation of the state; None for the default one.
        """
        program = pairs[0][0].block.program
        before = dict(program.updates)
        op, unscaled = self._unscaled(pairs)
        assert self.found_inf is not None
        self._optimizer.apply_gradients(unscaled, startup_program)
        keep_state(op, program, before, self.found_inf)
        self._adapt(op, program)

    def finite(self, pairs: Pairs) -> Pairs:
        """Gradients of the loss itself, to be added up over several runs: those of a run that overflows are 0."""
        op, unscaled = self._unscaled(pairs)
        kept = [(p, op.Where(self.found_inf, 0.0, g)) for p, g in unscaled]
        self._adapt(op, pairs[0][0].block.program)
        return kept

    def _unscaled(self, pairs: Pairs) -> tuple[Builder, Pairs]:
        """Gradients divided by the scale, in 32 bits at least"""
        assert self.scale is not None
        op = Builder(pairs[0][0].block.program.global_block(), role=Role.OPTIMIZE, key="loss_scaling")
        self.found_inf = overflow(op, [g for _, g in pairs])
        inverse = op.Reciprocal(op.Squeeze(self.scale, [0]))
        if self.parts > 1:
            inverse = op.Mul(inverse, float(self.parts))
        unscaled: Pairs = []
        for p, g in float32_gradients(op, pairs):
            op.key = f"{p.name}@UNSCALED"
            unscaled.append((p, op.Mul(g, op.Cast(inverse, to=g.dtype.number))))
        op.key = "loss_scaling"
        return op, unscaled

    def _adapt(self, op: Builder, program: Program) -> None:
        """Append the update of the scale and of its counters"""
        if self._is_dynamic:
            assert self.scale is not None and self.found_inf is not None
            names = ("num_good_steps", "num_bad_steps")
            good, bad = (self._optimizer._state(program, name, np.zeros(1, np.int32)) for name in names)
            op.key = "loss_scaling"
            program.updates.update(update_scale(op, self.policy, self.found_inf, self.scale, good, bad))
        program.version += 1


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

    ``before`` is ``program.updates`` from before the optimizer: what another optimizer did then stays, and what the user wrote.
    """
    for v, new in list(program.updates.items()):
        earlier = before.get(v)
        by_another = earlier is not None and earlier.op is not None and earlier.op.role is Role.OPTIMIZE
        by_another = by_another or (earlier is not None and program.overwritten.get(v) is earlier)
        if earlier is new and by_another:
            continue
        op.key = f"{v.name}@KEPT"
        old = earlier if earlier is not None and by_another else v
        program.updates[v] = op.Where(found_inf, old, new)

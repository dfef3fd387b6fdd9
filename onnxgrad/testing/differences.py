"""A derivative by finite differences, with an estimate of its error.

Ridders, "Accurate computation of F'(x) and F'(x)F''(x)", 1982: central differences for shrinking steps, extrapolated to step 0; the
entry whose neighbours agree best is taken. What rounding adds is measured, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["Estimate", "differentiate", "kink_at_zero", "noise_of"]

Function: TypeAlias = Callable[[float], float]
_ENOUGH = 1e-5
_MOST = 40


class Estimate(NamedTuple):
    """A derivative, the bound of its error, and the step that it was computed with."""

    value: float
    error: float
    step: float


def differentiate(
    f: Function, step: float, noise: float, *, claimed: float = 0.0, tiny: float = 0.0, shrink: float = 4.0, steps: int = 12
) -> Estimate:
    """The derivative of ``f`` at 0.

    Args:
        f: a function of one number. Where it is not finite, the step is left out.
        step: the largest step.
        noise: what rounding does to a value of ``f``; see ``noise_of``.
        claimed: a derivative that the estimate is to be compared with. Of a function that stays within bounds, small steps are
            needed to tell a large one; where rounding forbids them, the error reaches to it.
        tiny: the step that the noise was measured with.
        shrink: each step is so many times smaller than the one before.
        steps: how many are tried. Fewer are, once the estimate is good, or rounding is all that is left.

    Returns:
        The best estimate; its error is infinite if no two steps gave numbers.

    Example:
        >>> estimate = differentiate(lambda t: math.sin(40 * t), 0.3, 1e-16)
        >>> abs(estimate.value - 40) < estimate.error < 1e-3
        True
    """
    best = Estimate(math.nan, math.inf, step)
    before: list[float] = []
    good, seen = 0, [math.inf, -math.inf]
    hidden = 0

    def may_hide(h: float) -> bool:
        """Return whether the claimed slope could change within this step, so that values stay as close as they are"""
        spread = seen[1] - seen[0]
        return spread > 0.0 and abs(claimed) * (h if spread > 8.0 * noise else tiny) > 0.2 * spread

    for i in range(_MOST):
        h = step / shrink**i
        up, down = f(h), f(-h)
        rounding = 2.0 * noise / h
        if not math.isfinite(up - down):
            before = []
            continue
        seen = [min(seen[0], up, down), max(seen[1], up, down)]
        row = [(up - down) / (2.0 * h)]
        for j, old in enumerate(before, 1):
            factor = shrink ** (2 * j)
            row.append((factor * row[-1] - old) / (factor - 1.0))
        estimate = _best_of(row, before, rounding, h)
        before = row
        # Steps that agree by chance, all across the same stairs, say, are contradicted by smaller ones.
        if estimate.error < best.error or abs(estimate.value - best.value) > estimate.error + best.error:
            best = estimate
        good = good + 1 if estimate.error <= _ENOUGH * abs(estimate.value) else 0
        if may_hide(h):
            hidden = i + 1
            if rounding > abs(claimed) or hidden == _MOST:
                return best._replace(error=max(best.error, abs(best.value - claimed)))
        elif good >= 2 or rounding > max(best.error, estimate.error) or i + 1 >= max(steps, hidden + 4):
            break
    return best


def _best_of(row: list[float], before: list[float], rounding: float, h: float) -> Estimate:
    """Return the entry of a row of the tableau that is closest to the entries it was extrapolated from"""
    best = Estimate(math.nan, math.inf, h)
    for j, value in enumerate(row if before else ()):
        others = [before[0]] if j == 0 else [row[j - 1], before[j - 1]]
        error = max(abs(value - other) for other in others) + rounding
        if error < best.error:
            best = Estimate(value, error, h)
    return best


def noise_of(f: Function, at: float, tiny: float) -> float:
    """Estimate the rounding error of ``f`` near 0, from second differences over steps that are too small for anything else.

    Args:
        f: a function of one number.
        at: its value at 0.
        tiny: a step that changes the last digits of its operands.
    """
    seconds = [f(k * tiny) + f(-k * tiny) - 2.0 * at for k in (8.0, 12.0, 20.0)]
    # Three independent errors, weighted 1, 1 and -2, have the variance 6.
    return 2.0 * math.sqrt(sum(second * second for second in seconds) / (6.0 * len(seconds)))


def kink_at_zero(f: Function, at: float, step: float, noise: float) -> float:
    """By how much the slopes of ``f`` to the right and to the left of 0 differ; 0 if it is no more than rounding."""
    jumps = [(f(h) + f(-h) - 2.0 * at) / h for h in (step, step / 2.0)]
    jump = abs(2.0 * jumps[1] - jumps[0])  # what is left as the step goes to 0
    return jump if jump > 40.0 * noise / step else 0.0

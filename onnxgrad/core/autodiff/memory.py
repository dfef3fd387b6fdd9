"""Which tensors to keep for the backward pass: a model of the memory of a step, and the cuts that make its peak small.

Tensors live from the operator that makes them to the last that reads them, in the order of the program (``graph/order.py`` sees
to it that onnxruntime runs them in this order). Recomputing the operators between two cuts holds what crosses the cuts from the
forward pass on, and what the backward pass reads in between only while its gradients are computed. Weights and what lives between
runs are not counted; gradients of parameters live to the end of the step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.autodiff.checkpoints import is_recomputed, sampled_masks
from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.sizes import Sizes, bytes_of
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, MemoryBudgetError

__all__ = ["MemoryPlan", "OperatorCosts", "choose_cuts", "measure", "plan_memory", "smallest_peak"]

Array = np.ndarray[Any, Any]

_CANDIDATES = COSTS.count("memory.most_cut_points")
_WITHIN = COSTS.number("memory.over_the_smallest_peak")
_WORTH = COSTS.number("memory.share_of_the_whole_peak")
_NEVER = np.inf


class MemoryPlan(NamedTuple):
    """The cuts of a forward pass, and the bytes that a step takes with them by the model."""

    cuts: tuple[int, ...]
    """Numbers of operators: what crosses the cut point before one of these is kept. After the last, nothing is recomputed."""
    peak: int
    peak_without: int
    recomputed: int
    """The number of operators before the last cut: these run twice, but for those that sample random numbers."""
    operators: int


class OperatorCosts(NamedTuple):
    """Bytes by forward operator, in the order of the program."""

    saved: Array
    """Made there and read by the backward pass."""
    fixed: Array
    """Made there and never recomputed, such as the mask of Dropout."""
    forward: Array
    """Alive there in the forward pass, without what is saved."""
    backward: Array
    """Most that the backward pass has alive while it differentiates this operator, and of gradients when it comes to it."""
    arriving: Array
    crossing: Array
    """Rows of (operator that makes a tensor, last one that reads it, bytes)."""
    uncuttable: Array
    """Whether a value that is no tensor crosses the cut point before an operator."""


# Measuring -----------------------------------------------------------------------------------------------------------


def measure(
    operators: list[Operator],
    staged: list[Operator],
    spans: list[tuple[Operator, set[Operator]]],
    targets: Iterable[Variable],
    results: Iterable[Variable],
    counted: bool = True,
) -> OperatorCosts:
    """The costs of a forward pass and the backward pass staged for it.

    Args:
        operators: of the forward pass.
        staged: of the backward pass, those that are needed.
        spans: forward operators from the last to the first, each with the operators staged for it.
        targets: what is differentiated.
        results: the gradients that are returned.
        counted: whether these count. They say nothing where the batch is a guess, being as large whatever it is.
    """
    count = len(operators)
    read_back = {v for op in staged for v in op.operands() if v is not None}
    last = {v: t for t, op in enumerate(operators) for v in op.operands() if v is not None}
    last.update(dict.fromkeys(targets, count))
    masks = sampled_masks(operators)
    saved, fixed, alive = (np.zeros(count + 1) for _ in range(3))
    crossing = []
    odd = np.zeros(count + 2, int)
    for t, op in enumerate(operators):
        again = is_recomputed(op, masks)
        for v in op.outputs:
            if v is None or v.value is not None:
                continue
            size, end = bytes_of(v), last.get(v, t)
            if not again or v in masks:
                fixed[t] += size if end > t or v in read_back else 0
                continue
            if v in read_back:
                saved[t] += size
            else:
                alive[t] += size
                alive[min(end, count - 1) + 1] -= size
            crossing.append((t, end, size))
            if not isinstance(v.type, TensorType):
                odd[t + 1] += 1
                odd[end + 1] -= 1
    backward, arriving = _backward(operators, staged, spans, set(results), counted)
    moving = np.cumsum(alive)[:count]
    return OperatorCosts(
        saved[:count], fixed[:count], moving, backward, arriving, np.array(crossing), np.cumsum(odd)[: count + 1] > 0
    )


def _backward(
    operators: list[Operator],
    staged: list[Operator],
    spans: list[tuple[Operator, set[Operator]]],
    results: set[Variable],
    counted: bool,
) -> tuple[Array, Array]:
    """For each forward operator: the most alive while it is differentiated, and what is alive when the backward pass gets there"""
    peaks, alive = _peaks(staged, results, counted)
    number = {op: t for t, op in enumerate(operators)}
    backward, arriving = np.zeros(len(operators)), np.zeros(len(operators) + 1)
    position = {op: i for i, op in enumerate(staged)}
    reached = {number[op]: [position[inner] for inner in own if inner in position] for op, own in spans if op in number}
    now = 0.0
    for t in reversed(range(len(operators))):
        arriving[t] = now
        inside = reached.get(t)
        if inside:
            backward[t] = max(peaks[i] for i in inside)
            now = alive[max(inside)]
        else:
            backward[t] = now
    return backward, arriving


def _peaks(operators: list[Operator], results: set[Variable], counted: bool) -> tuple[list[float], list[float]]:
    """Bytes of the operators' results alive during each, and after it; the gradients asked for, if counted, to the end"""
    last = {v: i for i, op in enumerate(operators) for v in op.operands() if v is not None}
    ends: list[list[int]] = [[] for _ in operators]
    now, during, after = 0, [], []
    for i, op in enumerate(operators):
        for v in op.outputs:
            if v is not None:
                returned = v in results
                size = bytes_of(v) if counted or not returned else 0
                now += size
                if not returned:
                    ends[last.get(v, i)].append(size)
        during.append(float(now))
        now -= sum(ends[i])
        after.append(float(now))
    return during, after


# Choosing ------------------------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """For cuts i < j of the candidates: what recomputing between them takes, and what cutting at j adds to what is held"""

    points: Array
    recompute: Array
    """[i, j]: bytes while the operators from i to j are recomputed and differentiated, beside what is held at i."""
    hold: Array
    """[i, j]: bytes that are held at j more than at i."""
    rest: Array
    """[i]: bytes, beside what is held, while the operators from i on are run and differentiated without recomputation."""


def choose_cuts(costs: OperatorCosts, budget: float | None = None) -> MemoryPlan | None:
    """The cuts that recompute the least within the budget; None where nothing fits.

    Without a budget: within a twentieth of the smallest peak, and none where that would save less than a tenth.
    Whatever the cuts, no operator runs more than twice, so the last cut decides what recomputation costs.
    """
    table = _tabulate(costs)
    without = float(table.rest[0])
    if budget is None:
        budget = _smallest_peak(table) * _WITHIN
        budget = without if budget > _WORTH * without else budget
    best = _within(table, budget)
    if best is None:
        return None
    path, peak = best
    cuts = tuple(int(table.points[i]) for i in path)
    return MemoryPlan(cuts, round(peak), round(without), cuts[-1] if cuts else 0, len(costs.saved))


def smallest_peak(costs: OperatorCosts) -> int:
    """The smallest peak that any choice of cuts reaches, to the hundredth."""
    return math.ceil(_smallest_peak(_tabulate(costs)))


def _smallest_peak(table: _Table) -> float:
    without = float(table.rest[0])
    low, high = 0.0, without
    while high - low > high / 200:
        middle = (low + high) / 2
        best = _within(table, middle)
        low, high = (middle, high) if best is None else (low, best[1])
    return high


def plan_memory(costs: OperatorCosts, budget: int | None, sizes: Sizes) -> MemoryPlan:
    """``choose_cuts``, with errors for the user.

    Raises:
        ArgumentError: if a budget is given and the size of a dimension is not.
        MemoryBudgetError: if nothing keeps the budget.
    """
    if budget is not None and sizes.assumed:
        raise ArgumentError(
            f"a memory_budget needs the size of every unknown dimension; {', '.join(sorted(sizes.assumed))} is not given. "
            "Pass sizes={name: size}, or one number for all."
        )
    plan = choose_cuts(costs, budget)
    if plan is None:
        least, without = smallest_peak(costs), round(float(_tabulate(costs).rest[0]))
        raise MemoryBudgetError(
            f"no choice of checkpoints keeps a memory_budget of {budget} bytes: the smallest peak within reach is "
            f"{least} bytes (without recomputation {without}). Make the batch smaller, or the budget larger."
        )
    return plan


def _candidates(costs: OperatorCosts) -> tuple[Array, Array]:
    """Cut points and the bytes that cross them: for each part of what is saved, the point where least does"""
    count = len(costs.saved)
    change = np.zeros(count + 2)
    if len(costs.crossing):
        start, end, size = costs.crossing.T
        np.add.at(change, start.astype(int) + 1, size)
        np.add.at(change, end.astype(int) + 1, -size)
    across = np.cumsum(change)[: count + 1]
    across[costs.uncuttable] = _NEVER
    saved = np.cumsum(costs.saved)
    part = np.floor(saved / max(saved[-1], 1) * _CANDIDATES) if count > _CANDIDATES else np.arange(count)
    best: dict[float, int] = {}
    for t in range(1, count):
        held = best.get(part[t - 1])
        if across[t] != _NEVER and (held is None or across[t] < across[held]):
            best[part[t - 1]] = t
    points = np.array([0, *sorted(best.values())])
    return points, across[points]


def _tabulate(costs: OperatorCosts) -> _Table:
    points, across = _candidates(costs)
    many, count = len(points), len(costs.saved)
    ends = np.append(points, count)
    saved = np.concatenate([[0], np.cumsum(costs.saved)])
    fixed = np.concatenate([[0], np.cumsum(costs.fixed)])
    while_back = saved[1:] + costs.backward
    while_again = saved[1:] + costs.forward
    back = np.array([while_back[a:b].max() for a, b in pairwise(ends)])
    again = np.array([while_again[a:b].max() for a, b in pairwise(ends)])
    overlap = _overlaps(costs.crossing, points)
    recompute, hold, rest = np.full((many, many), _NEVER), np.full((many, many), _NEVER), np.zeros(many)
    for i in range(many):
        backs, agains = np.maximum.accumulate(back[i:]), np.maximum.accumulate(again[i:])
        own = fixed[ends[i + 1 :]] - fixed[points[i]]
        needed = own - saved[points[i]] + np.maximum(backs, agains + costs.arriving[ends[i + 1 :] - 1])
        recompute[i, i + 1 :], rest[i] = needed[:-1], needed[-1]
        hold[i, i + 1 :] = own[:-1] + across[i + 1 :] - overlap[i, i + 1 :]
    return _Table(points, recompute, hold, rest)


def _overlaps(crossing: Array, points: Array) -> Array:
    """[i, j]: bytes of the tensors that cross both cuts"""
    many = len(points)
    if not len(crossing):
        return np.zeros((many, many))
    start, end, size = crossing.T
    first = np.searchsorted(points, start, side="right")
    final = np.searchsorted(points, end, side="right") - 1
    counted = np.zeros((many + 1, many + 1))
    crosses = final >= first
    np.add.at(counted, (first[crosses], final[crosses]), size[crosses])
    upto = np.cumsum(counted, axis=0)
    return np.cumsum(upto[:, ::-1], axis=1)[:, ::-1][:many, :many]


def _within(table: _Table, budget: float) -> tuple[list[int], float] | None:
    """The cuts up to the earliest possible last one, and the peak with them; None if every choice exceeds the budget"""
    many = len(table.points)
    held, peak, before = np.full(many, _NEVER), np.full(many, _NEVER), np.zeros(many, int)
    held[0] = peak[0] = 0.0
    for j in range(many):
        if j:
            needed = held[:j] + table.recompute[:j, j]
            total = np.where(needed <= budget, held[:j] + table.hold[:j, j], _NEVER)
            before[j] = int(np.argmin(total))
            held[j] = total[before[j]]
            peak[j] = max(peak[before[j]], needed[before[j]])
        whole = max(peak[j], held[j] + table.rest[j])
        if whole <= budget:
            path = []
            while j:
                path.append(j)
                j = before[j]
            return path[::-1], float(whole)
    return None

"""Cut a training step: gradients on one side, the optimizer's updates on the other, in parts.

Tests: tests/core/runtime/test_low_memory.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod
from typing import NamedTuple

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.plan import make_plan
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import bytes_of
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["SMALL", "Cut", "cut_exchanged", "cut_step", "exchanged_gradients", "is_applied", "is_graded", "is_small", "saves_much"]

SMALL = COSTS.count("cut.largest_small_state")
"""Elements up to which a tensor costs nothing to hold twice."""


MUCH = COSTS.count("cut.smallest_saving")
"""Bytes from which on one copy of the state is worth sessions of their own for what applies the gradients."""


class Cut(NamedTuple):
    """A training step in parts, each a pure function of the state before the step, gradients and ``shared``.

    Attributes:
        updates: the state that the step replaces, and its new values.
        gradients: what the optimizer's operators read of the passes before them.
        others: new values of state that these passes compute: running statistics, counters.
        shared: small values that several parts read, such as a norm of all gradients; they are computed first.
        small: new values of small state, which are computed with them.
        parts: of the large state, what has to be replaced together.
    """

    updates: dict[Variable, Variable]
    gradients: list[Variable]
    others: list[Variable]
    shared: list[Variable]
    small: list[Variable]
    parts: list[list[Variable]]

    @property
    def computed(self) -> list[Variable]:
        """The gradients that a run computes; sums of several runs are state."""
        return [v for v in self.gradients if not v.persistable]


def is_applied(new: Variable) -> bool:
    """Whether a new value of state comes from an optimizer."""
    return new.op is not None and new.op.role is Role.OPTIMIZE


def is_graded(v: Variable) -> bool:
    """Whether what an optimizer reads depends on the loss, and not on state or statistics alone."""
    return v.is_float and not (v.op is not None and v.op.type == "BatchNormalization")


def is_small(v: Variable) -> bool:
    shape = v.static_shape
    return shape is not None and prod(shape) <= SMALL


def exchanged_gradients(program: Program, applied: list[Variable]) -> list[Variable]:
    """List the gradients: what the optimizer's operators read of the passes before them."""
    plan = make_plan(program, applied)
    grads: dict[Variable, None] = {}
    for op in plan.operators:
        if op.role is Role.OPTIMIZE:
            for v in op.operands():
                if v is not None and v.op is not None and v.op.role is not Role.OPTIMIZE and not v.persistable and v.value is None:
                    grads[plan.resolve(v)] = None
    return list(grads)


def cut_step(program: Program, turn: Turn = "whole", *, always: bool = False, sums: Collection[Variable] = ()) -> Cut | None:
    """Cut a program where its optimizers read gradients; None if it has none, or if they read what is fed, and, unless ``always``
    is set, if it has a small state only.

    Two states belong to one part if a large value leads to the new values of both, or one is read for the other's.

    Args:
        program: is not changed.
        turn: which of its state is replaced.
        always: cut a program whose state is small, too.
        sums: state that holds gradients of several micro-batches, to be read as gradients are: it belongs to no part.
    """
    added = set(sums)
    updates = {v: new for v, new in program.plan.updates(program.updates, turn).items() if v not in added}
    applied = {v: new for v, new in updates.items() if is_applied(new)}
    large = [v for v in applied if not is_small(v)]
    if not (applied if always else large):
        return None
    plan = make_plan(program, applied.values())
    operators = [op for op in plan.operators if op.role is Role.OPTIMIZE]
    fed = set(program.inputs)
    if any(plan.resolve(v) in fed for op in operators for v in op.operands() if v is not None):
        return None
    parts = _Parts(large)
    # For each value what it leads to: states of parts, or None for what is computed before all parts.
    leads: dict[Variable, set[Variable | None]] = {}
    for v, new in applied.items():
        leads.setdefault(plan.resolve(new), set()).add(None if is_small(v) else v)
    for op in reversed(operators):
        targets: set[Variable | None] = set().union(*(leads.get(v, ()) for v in op.outputs if v is not None))
        if not targets:
            continue
        if all(v is None or is_small(v) for v in op.outputs):
            if None in targets or parts.differ(targets):
                targets = {None}
        else:
            parts.join(targets)
        leads.update((output, targets) for output in op.outputs if output is not None)
        for operand in op.operands():
            if operand is None:
                continue
            read = plan.resolve(operand)
            if read in parts.known:
                parts.join({*targets, read})
            leads[read] = leads.get(read, set()) | targets
    produced = {v for op in operators for v in op.outputs if v is not None}
    shared = dict.fromkeys(
        v
        for op in operators
        for v in map(plan.resolve, (v for v in op.operands() if v is not None))
        if v in produced and leads.get(v) == {None} and any(o is not None and leads.get(o, {None}) != {None} for o in op.outputs)
    )
    small = [new for v, new in applied.items() if is_small(v)]
    gradients = [*exchanged_gradients(program, list(applied.values())), *sums]
    others = [new for new in updates.values() if not is_applied(new)]
    return Cut(updates, gradients, others, list(shared), list(dict.fromkeys(small)), parts.groups())


def cut_exchanged(program: Program, turn: Turn = "whole") -> Cut:
    """Cut a program whose gradients, or where they are added up whose sums, are exchanged by ranks before they are applied.

    Raises:
        ArgumentError: if it has no optimizer, or one that reads what is fed.
    """
    accumulation = program.plan.accumulation
    # What ranks exchange of sums they do where these lie.
    sums = accumulation.sums if turn == "apply" and accumulation is not None else []
    cut = cut_step(program, turn, always=True, sums=sums)
    if cut is None:
        raise ArgumentError("no optimizer updates this program from gradients alone. Call minimize; it may read nothing fed.")
    return cut


def saves_much(program: Program, turn: Turn = "whole", cut: Cut | None = None) -> bool:
    """Whether a second copy of the state takes much more than all gradients, which a step that is cut holds at once.

    Without a cut whether it may be so. No where gradients have 16 bits: as outputs they are rounded, in one graph they may not be.
    """
    if cut is None:
        return sum(map(bytes_of, program.plan.updates(program.updates, turn))) >= MUCH
    if any(v.is_float and v.dtype.bits < 32 for v in cut.gradients):
        return False
    return sum(bytes_of(v) for part in cut.parts for v in part) - sum(map(bytes_of, cut.gradients)) >= MUCH


class _Parts:
    """Sets of states that grow together."""

    def __init__(self, states: list[Variable]) -> None:
        self.known = dict.fromkeys(states)
        self._above: dict[Variable, Variable] = {}

    def _top(self, v: Variable) -> Variable:
        while v in self._above:
            v = self._above[v]
        return v

    def differ(self, states: Iterable[Variable | None]) -> bool:
        return len({self._top(v) for v in states if v is not None}) > 1

    def join(self, states: Iterable[Variable | None]) -> None:
        tops = list(dict.fromkeys(self._top(v) for v in states if v is not None))
        for v in tops[1:]:
            self._above[v] = tops[0]

    def groups(self) -> list[list[Variable]]:
        parts: dict[Variable, list[Variable]] = {}
        for v in self.known:
            parts.setdefault(self._top(v), []).append(v)
        return list(parts.values())

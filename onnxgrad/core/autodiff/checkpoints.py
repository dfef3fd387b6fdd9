"""Recomputation: keep the checkpoints, recompute the segments between them in the backward pass.

A segment's copy reads its checkpoints through a barrier, ``x + 0 * g`` in effect, where ``g`` is an element of the incoming
gradient. Without it onnxruntime's common-subexpression elimination merges the copy with the original, and with a barrier
that does not depend on the gradient the copy runs early and saves nothing (decision 6 in docs/develop/decisions). The barrier
ends in a step, so it carries no gradient itself. Random samples are not taken again.
Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.traits import RANDOM
from onnxgrad.core.ir.types import SequenceType, TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["Recompute", "crossing_variables", "cuts_after", "is_recomputed", "sampled_masks"]


class Recompute:
    """Which operators are recomputed, and what replaces their results meanwhile.

    Args:
        operators: of the forward pass.
        cuts: numbers of operators; segments end before them. What follows the last is not recomputed.
        held: the tensors that are kept.
        stage: receives the copies.
    """

    def __init__(self, operators: list[Operator], cuts: Iterable[int], held: Iterable[Variable], stage: list[Operator]) -> None:
        self.stage = stage
        self.current: dict[Variable, Variable] = {}
        self.copies: dict[Operator, Operator] = {}
        ends = sorted(set(cuts))
        self._segments = [operators[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        self._segment_of = {op: number for number, ops in enumerate(self._segments) for op in ops}
        self._entered: set[int] = set()
        self._held = set(held) | sampled_masks(operators)

    def enter(self, op: Operator, builder: Callable[[str], Builder], arriving: Variable) -> None:
        """Called before an operator is differentiated: stages the copy of its segment the first time."""
        number = self._segment_of.get(op)
        if number is None or number in self._entered:
            return
        self._entered.add(number)
        again = [inner for inner in self._segments[number] if is_recomputed(inner, self._held)]
        inside = {v for inner in again for v in inner.outputs}
        mapping: dict[Variable, Variable] = {}
        zero: Variable | None = None
        build = builder(f"recompute_{number}")
        for inner in again:
            for v in inner.operands():
                if v is None or v in inside or v in mapping or not _can_wait(v):
                    continue
                if zero is None:
                    zero = _zero_from(build, arriving)
                mapping[v] = _behind(build, v, zero)
        waiting = dict(mapping)
        suffix = len(self._segments) - 1 - number
        copies = copy_operators(again, mapping, build.block, lambda v: f"{v.name}.subprog_{suffix}")
        for copy in copies:
            copy.role = Role.BACKWARD
        self.stage.extend(copies)
        self.copies.update(zip(again, copies, strict=True))
        for inner in again:
            for v in inner.outputs:
                if v is not None and v not in self._held:
                    self.current[v] = mapping[v]
        for v, w in waiting.items():
            self.current.setdefault(v, w)


def cuts_after(operators: list[Operator], checkpoints: Iterable[Variable]) -> list[int]:
    """The numbers of the operators that follow the producers of the checkpoints."""
    producers = {v.op for v in checkpoints if v.op is not None}
    return [i + 1 for i, op in enumerate(operators) if op in producers]


def crossing_variables(operators: list[Operator], cuts: Iterable[int]) -> list[Variable]:
    """Return the variables that are computed before one of the cuts and read after it."""
    produced_at = {v: i for i, op in enumerate(operators) for v in op.outputs if v is not None}
    ends = sorted(set(cuts))
    variables: dict[Variable, None] = {}
    for i, op in enumerate(operators):
        for v in op.operands():
            if v is not None and v in produced_at and bisect_right(ends, produced_at[v]) < bisect_right(ends, i):
                variables[v] = None
    return list(variables)


def sampled_masks(operators: Iterable[Operator]) -> set[Variable]:
    """The masks that the training forms of Dropout sample: a byte for each element, against several operators each."""
    masks: dict[Operator, Variable] = {}
    for op in operators:
        if op.replaces is not None and op.replaces.type == "Dropout":
            masks.update((op.replaces, v) for v in op.outputs if v is not None and _is_bool(v))
    return set(masks.values())


def _is_bool(v: Variable) -> bool:
    return isinstance(v.type, TensorType) and v.type.dtype.name == "bool"


def is_recomputed(op: Operator, held: set[Variable]) -> bool:
    """Return whether a segment recomputes an operator: it samples no numbers, and not all its results are held."""
    if op.type in RANDOM or op.expansion is not None:
        return False
    return not all(v is None or v in held or v.value is not None for v in op.outputs)


def _can_wait(v: Variable) -> bool:
    """Return whether a barrier can be put before what reads ``v``; weights and constants are there anyway."""
    if (v.is_leaf and not v.is_data) or v.persistable:
        return False
    return isinstance(v.type, TensorType) and v.dtype.name != "string"


def _behind(op: Builder, v: Variable, zero: Variable) -> Variable:
    """``v``, but not before ``zero`` is known"""
    if _is_bool(v):
        return op.Or(v, op.Cast(zero, to=v.dtype.number))
    return op.Add(v, op.Cast(zero, to=v.dtype.number))


def _zero_from(op: Builder, g: Variable) -> Variable:
    """A zero that cannot be computed before ``g``. Clip passes a gradient at its bounds, Floor none."""
    if not isinstance(g.type, TensorType):
        size = op.SequenceLength(g) if isinstance(g.type, SequenceType) else op.OptionalHasElement(g)
        return op.Clip(op.Cast(size, to=1), 0.0, 0.0)
    first = op.Slice(op.Reshape(g, [-1]), [0], [1])
    if g.dtype.name not in ("float32", "float64"):
        first = op.Cast(first, to=1)
    zero: Variable = op.Floor(op.Clip(op.ReduceSum(first, keepdims=0), 0.0, 0.0))
    return zero

"""Recomputation: keep the checkpoints, compute the segments between them again in the backward pass.

A segment's copy reads its checkpoints through a barrier, ``x + 0 * g`` in effect, where ``g`` is an element of the incoming
gradient. Without it onnxruntime's common-subexpression elimination merges the copy with the original, and with a barrier
that does not depend on the gradient the copy runs early and saves nothing (measured: see docs/architecture.md).
Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
"""

from __future__ import annotations

from collections.abc import Callable

from onnxgrad.ir.builder import Builder
from onnxgrad.ir.operator import Operator, Role
from onnxgrad.ir.traverse import copy_operators
from onnxgrad.ir.variable import Variable

__all__ = ["Recompute"]

_RANDOM = ("Dropout", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


class Recompute:
    """Which operators are computed again, and what stands for their results meanwhile."""

    def __init__(self, operators: list[Operator], checkpoints: list[Variable], stage: list[Operator]) -> None:
        self.stage = stage
        self.current: dict[Variable, Variable] = {}
        self.copies: dict[Operator, Operator] = {}
        self._segment_of: dict[int, int] = {}
        self._segments: list[list[Operator]] = []
        self._entered: set[int] = set()
        self._held = {id(v) for v in checkpoints}
        self._cut(operators, checkpoints)

    def _cut(self, operators: list[Operator], checkpoints: list[Variable]) -> None:
        """Split the operators at the producers of the checkpoints; those after the last are not recomputed."""
        producers = {id(v.op) for v in checkpoints if v.op is not None}
        segment: list[Operator] = []
        for op in operators:
            segment.append(op)
            if id(op) in producers:
                self._segments.append(segment)
                segment = []
        for number, ops in enumerate(self._segments):
            for op in ops:
                self._segment_of[id(op)] = number

    def enter(self, op: Operator, builder: Callable[[str], Builder], arriving: Variable) -> None:
        """Called before an operator is differentiated: stages the copy of its segment the first time."""
        number = self._segment_of.get(id(op))
        if number is None or number in self._entered:
            return
        self._entered.add(number)
        segment = self._segments[number]
        again = [inner for inner in segment if self._is_recomputed(inner)]
        inside = {id(v) for inner in again for v in inner.outputs}
        mapping: dict[Variable, Variable] = {}
        zero: Variable | None = None
        build = builder(f"recompute_{number}")
        for inner in again:
            for v in inner.operands():
                if v is None or id(v) in inside or v in mapping or (v.is_leaf and not v.is_data) or v.persistable:
                    continue
                if v.type is None or not hasattr(v.type, "dtype") or v.dtype.name in ("bool", "string"):
                    continue
                if zero is None:
                    zero = _zero_from(build, arriving)
                mapping[v] = build.Add(v, build.Cast(zero, to=v.dtype.number))
        suffix = len(self._segments) - 1 - number
        block = build.block
        copies = copy_operators(again, mapping, block, lambda v: f"{v.name}.subprog_{suffix}")
        for copy in copies:
            copy.role = Role.BACKWARD
        self.stage.extend(copies)
        self.copies.update(zip(again, copies, strict=True))
        for inner in again:
            for v in inner.outputs:
                if v is not None and id(v) not in self._held:
                    self.current[v] = mapping[v]
        for v, w in mapping.items():
            if id(v) not in inside:
                self.current.setdefault(v, w)

    def _is_recomputed(self, op: Operator) -> bool:
        if op.type in _RANDOM or op.expansion is not None:
            return False
        return not all(v is None or id(v) in self._held or v.value is not None for v in op.outputs)


def _zero_from(op: Builder, g: Variable) -> Variable:
    """A zero that cannot be computed before ``g``."""
    first = op.Slice(op.Reshape(g, [-1]), [0], [1])
    zero: Variable = op.Clip(op.ReduceSum(first, keepdims=0), 0.0, 0.0)
    return zero

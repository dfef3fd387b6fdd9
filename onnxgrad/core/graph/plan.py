"""The operators that a set of results needs, in order, and the originals that their expansions replace.

onnxruntime executes dead nodes, so everything that is run or written goes through here first.

Tests: tests/core/compile/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable

__all__ = ["Plan", "make_plan"]


class Plan:
    """Needed operators, the leaves they read, and for each replaced output the one computed instead."""

    __slots__ = ("aliases", "leaves", "operators")

    def __init__(self, operators: list[Operator], leaves: list[Variable], aliases: dict[Variable, Variable]) -> None:
        self.operators = operators
        self.leaves = leaves
        self.aliases = aliases

    def resolve(self, v: Variable) -> Variable:
        """The variable that is really computed for ``v``."""
        while v in self.aliases:
            v = self.aliases[v]
        return v


def make_plan(program: Program, outputs: Iterable[Variable], inputs: Iterable[Variable] = ()) -> Plan:
    """Find the operators that ``outputs`` need in the main block; ``inputs`` are leaves, and not computed."""
    outputs, stopped = list(outputs), set(inputs)
    aliases: dict[Variable, Variable] = {}
    while True:
        plan = _sweep(program, outputs, aliases, stopped)
        fresh = _expansions_in_use(plan.operators, aliases)
        if not fresh:
            return plan
        aliases.update(fresh)


def _sweep(program: Program, outputs: list[Variable], aliases: dict[Variable, Variable], inputs: set[Variable]) -> Plan:
    plan = Plan([], [], aliases)
    inside = set(program.global_block().ops)
    reads = dict.fromkeys(plan.resolve(v) for v in outputs)
    operands: dict[Operator, list[Variable]] = {}
    waiting = [v for v in reads if v not in inputs]
    while waiting:
        op = waiting.pop().op
        if op is None or op in operands or op not in inside or _is_stored(op):
            continue
        operands[op] = [plan.resolve(v) for v in op.operands() if v is not None]
        waiting += (v for v in operands[op] if v.op is not None and v not in inputs)
    if operands:
        plan.operators = [op for op in program.global_block().ops if op in operands]
    for op in reversed(plan.operators):
        reads.update(dict.fromkeys(operands[op]))
    plan.leaves = [v for v in reads if v.is_leaf or v.persistable or v in inputs]
    return plan


def _is_stored(op: Operator) -> bool:
    """Return whether the scope holds the value of this operator"""
    first = op.outputs[0] if op.outputs else None
    return first is not None and first.value is not None and first.persistable


def _expansions_in_use(operators: list[Operator], aliases: dict[Variable, Variable]) -> dict[Variable, Variable]:
    """Outputs of originals whose expansion is live."""
    fresh: dict[Variable, Variable] = {}
    for op in operators:
        original = op.replaces or (op if op.expansion is not None and op.expansion.always else None)
        if original is None or original.expansion is None:
            continue
        for v, w in zip(original.outputs, original.expansion.outputs, strict=True):
            if v is not None and w is not None and v not in aliases:
                fresh[v] = w
    return fresh

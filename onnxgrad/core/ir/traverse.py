"""Walk over a program in linear time: what a body captures, what a result needs, which operators depend on a value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block
    from onnxgrad.core.ir.operator import Operator
    from onnxgrad.core.ir.variable import Variable

__all__ = [
    "all_operators_of",
    "captured_variables",
    "dependent_operators",
    "needed_and_read",
    "needed_operators",
    "readers_in",
    "substitute",
]


def captured_variables(operator: Operator) -> list[Variable]:
    """Variables that the bodies of an operator read and do not define, in order of first use, parameters included."""
    captures: dict[Variable, None] = {}
    defined: set[Variable] = set()
    inside: set[Block] = set()
    for body in operator.blocks():
        _collect(body, defined, captures, inside)
    return list(captures)


def _collect(block: Block, defined: set[Variable], captures: dict[Variable, None], inside: set[Block]) -> None:
    # What one body defines, another one beside it cannot read, so that all share these sets.
    inside.add(block)
    defined.update(block.inputs)
    for op in block.ops:
        for v in op.inputs:
            if v is not None and v not in defined and not _is_local(v, inside):
                captures[v] = None
        for body in op.blocks():
            _collect(body, defined, captures, inside)
        defined.update(v for v in op.outputs if v is not None and not v.persistable)
    for v in block.outputs:
        if v not in defined and not _is_local(v, inside):
            captures[v] = None


def _is_local(v: Variable, inside: set[Block]) -> bool:
    """A constant of a body, or of one around it; a parameter counts as captured wherever its array is stored."""
    return v.block in inside and v.value is not None and not v.persistable


def all_operators_of(block: Block) -> Iterator[Operator]:
    """Operators of a block and of the bodies inside it."""
    for op in block.ops:
        yield op
        for body in op.blocks():
            yield from all_operators_of(body)


def readers_in(operators: Iterable[Operator]) -> defaultdict[Variable, list[tuple[Operator, int]]]:
    """List the operators that read each variable, with the index of the input: an operator that reads it twice stands twice."""
    readers: defaultdict[Variable, list[tuple[Operator, int]]] = defaultdict(list)
    for op in operators:
        for index, v in enumerate(op.inputs):
            if v is not None:
                readers[v].append((op, index))
    return readers


def needed_operators(
    operators: list[Operator], outputs: Iterable[Variable | None], known: Container[Variable] = ()
) -> list[Operator]:
    """List the operators, in order, that the outputs depend on, without operators that only compute ``known`` variables."""
    return needed_and_read(operators, outputs, known)[0]


def needed_and_read(
    operators: list[Operator], outputs: Iterable[Variable | None], known: Container[Variable] = ()
) -> tuple[list[Operator], set[Variable]]:
    """``needed_operators``, and the variables that these read or that are outputs, but for the ``known`` ones that they read."""
    wanted = {v for v in outputs if v is not None}
    kept: list[Operator] = []
    for op in reversed(operators):
        for v in op.outputs:
            if v in wanted:  # None is not
                kept.append(op)
                wanted.update([read for read in op.operands() if read is not None and read not in known])
                break
    kept.reverse()
    return kept, wanted


def dependent_operators(operators: Iterable[Operator], sources: Iterable[Variable]) -> list[Operator]:
    """The operators, in order, that depend on the sources."""
    reached = set(sources)
    dependents: list[Operator] = []
    for op in operators:
        if any(v in reached for v in op.operands() if v is not None):
            dependents.append(op)
            reached.update(v for v in op.outputs if v is not None)
    return dependents


def substitute(operators: Iterable[Operator], mapping: dict[Variable, Variable]) -> None:
    """Let the operators, and the bodies inside them, read ``mapping[v]`` instead of ``v``."""
    changed = mapping.keys()
    for op in operators:
        if not changed.isdisjoint(op.inputs):
            op.inputs = [None if v is None else mapping.get(v, v) for v in op.inputs]
        if op.origin is not None and op.origin.of in mapping:
            op.origin = op.origin._replace(of=mapping[op.origin.of])
        for body in op.blocks():
            substitute(body.ops, mapping)
            body.outputs = [mapping.get(v, v) for v in body.outputs]

"""Linear walks over a program: what a body captures, what a result needs, how operators are copied."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block

__all__ = [
    "all_operators_of",
    "captured",
    "copy_block",
    "copy_operators",
    "dependent_operators",
    "needed_operators",
    "substitute",
]


def captured(operator: Operator) -> list[Variable]:
    """Variables that the bodies of an operator read and do not define, in order of first use, parameters included."""
    found: dict[Variable, None] = {}
    for body in operator.blocks():
        _collect(body, set(), found, {body})
    return list(found)


def _collect(block: Block, defined: set[Variable], found: dict[Variable, None], inside: set[Block]) -> None:
    defined = defined.union(block.inputs)
    reads: list[Variable | None] = []
    for op in block.ops:
        for v in op.inputs:
            if v is not None and v not in defined and not _is_local(v, inside):
                found[v] = None
        for body in op.blocks():
            _collect(body, defined, found, inside | {body})
        defined.update(v for v in op.outputs if v is not None and not v.persistable)
    reads.extend(block.outputs)
    for v in reads:
        if v is not None and v not in defined and not _is_local(v, inside):
            found[v] = None


def _is_local(v: Variable, inside: set[Block]) -> bool:
    """A constant of a body, or of one around it; a parameter counts as captured wherever its array is stored."""
    return v.block in inside and v.value is not None and not v.persistable


def all_operators_of(block: Block) -> Iterator[Operator]:
    """Operators of a block and of the bodies inside it."""
    for op in block.ops:
        yield op
        for body in op.blocks():
            yield from all_operators_of(body)


def needed_operators(
    operators: list[Operator], outputs: Iterable[Variable | None], known: Container[Variable] = ()
) -> list[Operator]:
    """The operators, in order, that the outputs depend on, without those that only compute what is ``known``."""
    wanted = {v for v in outputs if v is not None}
    kept: list[Operator] = []
    for op in reversed(operators):
        if any(v is not None and v in wanted for v in op.outputs):
            kept.append(op)
            wanted.update(v for v in op.operands() if v is not None and v not in known)
    kept.reverse()
    return kept


def copy_operators(
    operators: Iterable[Operator],
    mapping: dict[Variable, Variable],
    block: Block,
    name_of: Callable[[Variable], str],
) -> list[Operator]:
    """Copies that read ``mapping[v]`` instead of ``v``. New outputs are entered into ``mapping``; nothing is appended."""
    copies = []
    for op in operators:
        copy = op.blank_copy(block, [None if v is None else mapping.get(v, v) for v in op.inputs])
        for key, value in op.attrs.items():
            if hasattr(value, "ops"):
                copy.attrs[key] = copy_block(value, mapping, block, name_of)
            elif isinstance(value, list) and value and hasattr(value[0], "ops"):
                copy.attrs[key] = [copy_block(body, mapping, block, name_of) for body in value]
            else:
                copy.attrs[key] = value
        if op.origin is not None and op.origin.of in mapping:
            copy.origin = op.origin._replace(of=mapping[op.origin.of])
        for v in op.outputs:
            copy.outputs.append(None if v is None else _copy_variable(v, mapping, block, copy, name_of))
        copies.append(copy)
    return copies


def copy_block(block: Block, mapping: dict[Variable, Variable], parent: Block, name_of: Callable[[Variable], str]) -> Block:
    """A body copied under another parent block, with every inner name made by ``name_of``."""
    copy = parent.program.new_block(parent, block.name)
    copy.doc, copy.metadata = block.doc, block.metadata
    for v in block.inputs:
        copy.inputs.append(copy.register(_copy_variable(v, mapping, copy, None, name_of)))
    for v in block.initializers:
        if not v.persistable and v not in mapping:
            copy.initializers.append(copy.register(_copy_variable(v, mapping, copy, None, name_of)))
    for op in copy_operators(block.ops, mapping, copy, name_of):
        if not (op.outputs and op.outputs[0] is not None and op.outputs[0].persistable):
            copy.append(op)
    copy.outputs = [mapping.get(v, v) for v in block.outputs]
    return copy


def _copy_variable(
    v: Variable, mapping: dict[Variable, Variable], block: Block, op: Operator | None, name_of: Callable[[Variable], str]
) -> Variable:
    if v.persistable:
        return v
    copy = Variable(block, name_of(v), v.type, op)
    copy.value, copy.entries, copy._stop = v.value, v.entries, v._stop
    mapping[v] = copy
    return copy


def dependent_operators(operators: Iterable[Operator], sources: Iterable[Variable]) -> list[Operator]:
    """The operators, in order, that depend on the sources."""
    reached = set(sources)
    found: list[Operator] = []
    for op in operators:
        if any(v in reached for v in op.operands() if v is not None):
            found.append(op)
            reached.update(v for v in op.outputs if v is not None)
    return found


def substitute(operators: Iterable[Operator], mapping: dict[Variable, Variable]) -> None:
    """Let the operators, and the bodies inside them, read ``mapping[v]`` instead of ``v``."""
    for op in operators:
        op.inputs = [None if v is None else mapping.get(v, v) for v in op.inputs]
        if op.origin is not None and op.origin.of in mapping:
            op.origin = op.origin._replace(of=mapping[op.origin.of])
        for body in op.blocks():
            substitute(body.ops, mapping)
            body.outputs = [mapping.get(v, v) for v in body.outputs]

"""A program without com.microsoft operators, and the types of their results: both from what they are written out in.

Tests: tests/core/rules/test_contrib.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.forms import naming_operator
from onnxgrad.core.ir.infer import FOREIGN, Found, infer_leniently
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN, OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.domains import expands
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.rules.contrib.node import ContribNode
from onnxgrad.core.rules.registry import Entry, find_entry
from onnxgrad.errors import ModelError, OnnxGradError, UnsupportedGradient

__all__: list[str] = []


def _entry_of(operator: Operator) -> Entry | None:
    """Return the function that expands an operator of onnxruntime, whatever its domain; None for other operators."""
    if operator.domain not in ("", CONTRIB_DOMAIN) or operator.schema is not None:
        return None
    entry = find_entry(operator)
    return entry if entry is not None and entry.beside else None


@expands(CONTRIB_DOMAIN)
def expand_contrib(program: Program) -> None:
    """Write out every com.microsoft operator of the table, in place; others stay. The program is lifted to opset 21.

    Raises:
        ModelError: naming an operator in a form that has no expansion.
    """
    version = program.opset_version() or 1
    read: list[Variable] = []
    for block in list(program.blocks):
        ops, block.ops = block.ops, []
        for operator in ops:
            entry = _entry_of(operator)
            if entry is not None:
                read.extend(v for v in operator.inputs if v is not None)
                program.set_opset_version(max(version, OLDEST_WITH_RULES))
                with naming_operator(operator, "expand it"):
                    _write_out(block, operator, entry)
                program.set_opset_version(version)
            else:
                infer_leniently(operator)
                block.ops.append(operator)
    _drop_unread(program, read)
    if version < OLDEST_WITH_RULES:
        lift(program)
    program.version += 1


def _drop_unread(program: Program, candidates: list[Variable]) -> None:
    """Remove initializers that nothing reads any more, such as packed weights"""
    used = {v for block in program.blocks for op in block.ops for v in op.inputs}
    used |= {v for block in program.blocks for v in block.outputs}
    for v in candidates:
        if v.value is not None and v.op is None and not v.is_data and v not in used and v.name in v.block.vars:
            v.block.initializers = [other for other in v.block.initializers if other is not v]
            program.parameters = [other for other in program.parameters if other is not v]
            del v.block.vars[v.name]


def _write_out(block: Block, operator: Operator, entry: Entry) -> None:
    """Append the expansion; its results become the operator's output variables"""
    assert entry.function is not None
    start = len(block.ops)
    first = next(v for v in operator.outputs if v is not None)
    build = Builder(block, key=first.name)
    build.simplify = True
    try:
        results = entry.function(build, ContribNode(operator, alone=True))
    except UnsupportedGradient as error:
        raise ModelError(str(error)) from error
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    for index, old in enumerate(operator.outputs):
        if old is None:
            continue
        new = results[index] if index < len(results) else None
        if new is None:
            raise ModelError(f"{operator}: its output {old.name!r} has no form in standard operators. Leave expand= out.")
        if not any(new is v for op in block.ops[start:] for v in op.outputs) or any(new is v for v in operator.outputs):
            new = build.Identity(new)
        _replace(block, start, new, old)


def _replace(block: Block, start: int, new: Variable, old: Variable) -> None:
    for op in block.ops[start:]:
        op.inputs = [old if v is new else v for v in op.inputs]
        op.outputs = [old if v is new else v for v in op.outputs]
        if any(v is old for v in op.outputs):
            old.op = op
    old.type, old.entries = new.type, new.entries
    del block.vars[new.name]


def _infer(operator: Operator) -> Found:
    """Types of an operator's results: those of its expansion, written into a program of its own"""
    unknown: Found = [(None, None)] * len(operator.outputs)
    entry = _entry_of(operator)
    if entry is None or entry.function is None or any(v is not None and v.type is None for v in operator.inputs):
        return unknown
    program = Program()
    program.is_oracle = operator.block.program.is_oracle
    program.set_opset_version(max(operator.block.program.opset_version() or 1, OLDEST_WITH_RULES))
    block = program.global_block()
    inputs = [None if v is None else _stand_in(block, v) for v in operator.inputs]
    copy = Operator(block, operator.type, inputs, list(operator.outputs), operator.attrs, operator.domain)
    try:
        with naming_operator(copy, "infer what it gives", infers=False):  # it would come here again
            results = entry.function(Builder(block, [], Role.BACKWARD), ContribNode(copy))
    except OnnxGradError:
        return unknown  # it is refused, with the reason, when its gradient is asked for
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    types: Found = [(None, None) if r is None else (r.type, r.entries) for r in results]
    return [*types, *unknown][: len(unknown)]


def _stand_in(block: Block, v: Variable) -> Variable:
    copy = Variable(block, "", v.type)
    copy.entries = v.entries
    return copy


FOREIGN[CONTRIB_DOMAIN] = FOREIGN[""] = _infer

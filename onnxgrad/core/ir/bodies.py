"""Writing and cutting sub-graphs: bodies of If, Loop, Scan and SequenceMap.

Tests: tests/core/autodiff/test_loops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traverse import needed_operators, substitute
from onnxgrad.core.ir.types import BOOL_SCALAR, INDEX, SequenceType, Type
from onnxgrad.core.ir.variable import Variable

__all__ = [
    "as_tuple",
    "drop_unread",
    "finish_body",
    "loop_times",
    "map_sequence",
    "move_into",
    "reads_of",
    "write_body",
]

T = TypeVar("T")


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return the outputs of a builder call, one or several, as a tuple."""
    return results if isinstance(results, tuple) else (results,)


def write_body(op: Builder, name: str, types: Sequence[tuple[str, Type | None]], write: Callable[..., Any]) -> Block:
    """A body with inputs of these names and types whose outputs are what ``write(build, *inputs)`` returns."""
    program = op.block.program
    block = program.new_block(op.block, name)
    for label, type in types:
        v = Variable(block, program.fresh_name(f"{op.key}/{name}/{label}"), type)
        block.inputs.append(block.register(v))
    build = Builder(block, key=f"{op.key}/{name}", role=op.role)
    build.simplify = op.simplify
    finish_body(block, as_tuple(write(build, *block.inputs)), build)
    return block


def finish_body(block: Block, values: Sequence[Variable], build: Builder) -> None:
    """Make ``values`` the outputs of a body: each computed inside, and no variable twice."""
    inside = {v for op in block.ops for v in op.outputs}
    outputs: list[Variable] = []
    for v in values:
        taken = any(v is other for other in outputs)
        outputs.append(v if v in inside and not taken else build.Identity(v))
    block.outputs = outputs


def loop_times(op: Builder, count: Any, starts: Sequence[tuple[str, Variable]], step: Callable[..., Any]) -> tuple[Variable, ...]:
    """Loop ``count`` times over states: ``step(build, i, *states)`` returns the new states, then values to stack."""

    def write(build: Builder, i: Variable, condition: Variable, *states: Variable) -> Any:
        return (condition, *as_tuple(step(build, i, *states)))

    types = [("i", INDEX), ("condition", BOOL_SCALAR), *((name, start.type) for name, start in starts)]
    body = write_body(op, "loop", types, write)
    return as_tuple(op.Loop(count, None, *(start for _, start in starts), outputs=len(body.outputs) - 1, body=body))


def map_sequence(op: Builder, sequences: Sequence[Variable], write: Callable[..., Any]) -> Variable:
    """A sequence of what ``write(build, *elements)`` makes of the elements of sequences of one length."""
    types = [(f"element_{i}", v.type.element if isinstance(v.type, SequenceType) else None) for i, v in enumerate(sequences)]
    return op.SequenceMap(*sequences, body=write_body(op, "map", types, write))


def move_into(shell: Block, inner: Block, arguments: Sequence[Variable | None]) -> dict[Variable, Variable]:
    """Move the operators of a body to the end of another, where ``arguments`` replace its inputs.

    Returns:
        The replacement of each input.
    """
    replaced = {v: w for v, w in zip(inner.inputs, arguments, strict=True) if w is not None}
    substitute(inner.ops, replaced)
    for v in inner.initializers:
        v.block = shell
        shell.initializers.append(shell.register(v))
    for op in inner.ops:
        for result in op.outputs:
            if result is not None:
                result.block = shell
        shell.append(op)
        for body in op.blocks():
            body.parent = shell
    shell.program.blocks = [b for b in shell.program.blocks if b is not inner]
    return replaced


def reads_of(operators: Iterable[Operator]) -> set[Variable]:
    """All that operators read, in their bodies too."""
    return {v for op in operators for v in op.operands() if v is not None}


def drop_unread(op: Operator, keep: set[Variable]) -> None:
    """Remove the outputs of a Loop or Scan that are not kept, with what computes them in the body."""
    body: Block = op.attrs["body"]
    lead = 1 if op.type == "Loop" else 0
    states = len(op.inputs) - 2 if op.type == "Loop" else len(op.inputs) - op.attrs["num_scan_inputs"]
    unread = [i for i, v in enumerate(op.outputs) if v is None or v not in keep]
    # A state of a Loop can go if it is a tape, so that nothing but the tape itself reads it.
    dropped = {i for i in unread if i >= states or (lead and _only_feeds_itself(body, 2 + i, lead + i))}
    if not dropped:
        return
    for name in ("scan_output_axes", "scan_output_directions"):
        if op.attrs.get(name):
            op.attrs[name] = [value for j, value in enumerate(op.attrs[name]) if states + j not in dropped]
    for v in (op.outputs[i] for i in dropped):
        if v is not None and op.block.vars.get(v.name) is v:
            del op.block.vars[v.name]
    op.outputs = _without(op.outputs, dropped)
    body.outputs = _without(body.outputs, {lead + i for i in dropped})
    if lead:
        arguments = {2 + i for i in dropped if i < states}
        op.inputs = _without(op.inputs, arguments)
        for v in (body.inputs[i] for i in arguments):
            body.vars.pop(v.name, None)
        body.inputs = _without(body.inputs, arguments)
    keep_needed(body)


def _without(items: list[T], dropped: set[int]) -> list[T]:
    return [item for i, item in enumerate(items) if i not in dropped]


def _only_feeds_itself(body: Block, argument: int, output: int) -> bool:
    v, new = body.inputs[argument], body.outputs[output]
    readers = [op for op in body.ops if any(v is w for w in op.operands())]
    return all(op is new.op for op in readers) and not any(v is w for w in body.outputs)


def keep_needed(body: Block) -> None:
    """Drop the operators of a body that its outputs do not need."""
    body.ops = needed_operators(body.ops, body.outputs)
    computed = {v for op in body.ops for v in op.outputs}
    body.vars = {name: v for name, v in body.vars.items() if v.op is None or v in computed}

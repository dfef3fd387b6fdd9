"""Programs as text: one operator a line, with the types and shapes of its results.

Tests: tests/core/ir/test_summary.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.types import OptionalType, SequenceType, TensorType, Type, shown_type
from onnxgrad.core.ir.variable import Parameter, Variable

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block
    from onnxgrad.core.ir.program import Program

__all__ = ["block_text", "program_text", "type_text"]

_HEADINGS = {Role.FORWARD: "# forward", Role.BACKWARD: "# backward", Role.OPTIMIZE: "# update"}
_LONGEST_LIST = 8


def program_text(program: Program, details: bool = False) -> str:
    """The main block, the bodies inside it, and which state a run replaces.

    Example:
        >>> x = static.data("x", [None, 2])
        >>> loss = paddle.mean(static.nn.fc(x, 1, name="line", bias_attr=False) * 2.0)
        >>> print(static.default_main_program())
        block 0
            x: float32[?, 2]  input
            line.w_0: float32[2, 1]  parameter
        <BLANKLINE>
            line.tmp_0: float32[?, 1] = MatMul(x, line.w_0)
            tmp_0: float32[?, 1] = Mul(line.tmp_0, 2.0)
            mean_0.tmp_0: float32[] = ReduceMean(tmp_0, keepdims=0)
    """
    lines = list(_block_lines(program.global_block(), "", details))
    if program.updates:
        lines += ["", "    # after a run"]
        lines += [f"    {old.name} <- {new.name}" for old, new in program.plan.updates(program.updates, "run").items()]
    accumulation = program.plan.accumulation
    if accumulation is not None:
        lines += ["", f"    # after every {accumulation.runs} runs"]
        lines += [f"    {old.name} <- {new.name}" for old, new in program.plan.updates(program.updates, "apply").items()]
    return "\n".join(lines)


def block_text(block: Block, details: bool = False) -> str:
    """One block, with the bodies inside it."""
    return "\n".join(_block_lines(block, "", details))


def _block_lines(block: Block, indent: str, details: bool) -> Iterator[str]:
    yield f"{indent}block {block.idx}" + (f" ({block.name})" if block.parent is not None else "")
    inner = indent + "    "
    leaves = [v for v in block.vars.values() if v.op is None and (v.value is None or v.persistable)]
    for v in leaves:
        yield f"{inner}{v.name}: {type_text(v.type)}  {_variable_kind(v)}{_flags(v, details)}"
    role = Role.FORWARD
    if leaves and block.ops:
        yield ""
    for op in block.ops:
        if op.role is not role:
            role = op.role
            yield from ("", f"{inner}{_HEADINGS[role]}")
        yield inner + _operator_line(op, details)
        for label, body in _bodies(op):
            yield f"{inner}  {label}:"
            yield from _block_lines(body, inner + "  ", details)
    if block.parent is not None:
        yield f"{inner}return {', '.join(v.name for v in block.outputs)}"


def _operator_line(op: Operator, details: bool) -> str:
    results = ", ".join("_" if v is None else f"{v.name}: {type_text(v.type)}{_flags(v, details)}" for v in op.outputs)
    operands = ["_" if v is None else _operand(v) for v in op.inputs]
    attrs = [f"{name}={_attribute(value)}" for name, value in sorted(op.attrs.items()) if not _is_body(value)]
    op_type = f"{op.domain}.{op.type}" if op.domain else op.type
    return f"{results} = {op_type}({', '.join([*operands, *attrs])})"


def _operand(v: Variable) -> str:
    """A name, or the elements of a small constant."""
    value = v.value
    if value is None or v.persistable or value.size > _LONGEST_LIST or len(value.shape) > 1:
        return v.name
    elements = [f"{e:.6g}" if isinstance(e, float) and not float(e).is_integer() else str(e) for e in _plain(v)]
    return elements[0] if not value.shape else f"[{', '.join(elements)}]"


def _plain(v: Variable) -> list[Any]:
    assert v.value is not None
    elements: list[Any] = v.value.numpy().reshape(-1).tolist()
    return elements


def _attribute(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_body(value: Any) -> bool:
    return hasattr(value, "ops") or (isinstance(value, list) and bool(value) and hasattr(value[0], "ops"))


def _bodies(op: Operator) -> Iterator[tuple[str, Block]]:
    for name, value in sorted(op.attrs.items(), reverse=True):
        if hasattr(value, "ops"):
            yield name, value
        elif _is_body(value):
            yield from ((f"{name}[{i}]", body) for i, body in enumerate(value))


def _variable_kind(v: Variable) -> str:
    if isinstance(v, Parameter):
        return "parameter" if v.trainable and not v.stop_gradient else "parameter, fixed"
    return "state" if v.persistable else "input"


def _flags(v: Variable, details: bool) -> str:
    return f"  stop_gradient={v.stop_gradient}" if details else ""


def type_text(type: Type | None) -> str:
    """``float32[?, 3]``, ``sequence(float32[2])``, or ``?``."""
    type = shown_type(type)
    if isinstance(type, TensorType):
        dims = "..." if type.dims is None else ", ".join("?" if d is None else str(d) for d in type.dims)
        return f"{type.dtype.name}[{dims}]"
    if isinstance(type, (SequenceType, OptionalType)):
        type_name = "sequence" if isinstance(type, SequenceType) else "optional"
        return f"{type_name}({type_text(type.element)})"
    return "?"

"""explain: which operators of a model carry gradient, which stop it, which are refused, and what to do about it.

The table alone cannot say it: some rules refuse only certain forms. So each operator is really differentiated, by itself and
without appending anything, and one refusal does not hide the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from onnx import ModelProto

from onnxgrad.core.autodiff.backward import Walk
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import captured_variables
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.dimensions import NAME_DIMENSIONS
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.rules.registry import find_entry
from onnxgrad.errors import OnnxGradError, ProgramError, UnsupportedGradient

__all__ = ["Explanation", "Fate", "Row", "explain", "fates", "key_of"]

Model: TypeAlias = "str | Path | bytes | ModelProto | Program"

_STATES = {"gradient": "carries gradient", "stops": "stops gradient", "refused": "refused"}


class Row(NamedTuple):
    """Operators of one type that fare the same way.

    ``state`` is ``"gradient"``, ``"stops"`` or ``"refused"``; ``where`` names each operator, with the body or function it is in;
    ``matters`` says whether a gradient of the outputs would reach one of them.
    """

    operator: str
    state: str
    reason: str
    advice: str
    where: tuple[str, ...]
    matters: bool


class Fate(NamedTuple):
    """The treatment of a gradient at one operator: ``state``, ``reason``, ``advice`` and ``matters`` as in ``Row``."""

    state: str
    reason: str
    advice: str
    matters: bool


class Explanation:
    """The result of ``explain``: ``rows``, and a table as ``str()``."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    @property
    def refused(self) -> list[Row]:
        """Rows of operators whose gradient is refused."""
        return [row for row in self.rows if row.state == "refused"]

    @property
    def is_differentiable(self) -> bool:
        """Whether gradients of the outputs reach the weights and inputs without meeting a refusal."""
        return not any(row.matters for row in self.refused)

    def to_rows(self) -> list[dict[str, Any]]:
        """The rows as plain dicts, for JSON."""
        return [{**row._asdict(), "where": list(row.where), "count": len(row.where)} for row in self.rows]

    def __str__(self) -> str:
        lines = []
        for state, title in _STATES.items():
            rows = [row for row in self.rows if row.state == state]
            lines.append(f"{title}: {sum(len(row.where) for row in rows)} operators")
            width = max((len(row.operator) for row in rows), default=0)
            for row in rows:
                aside = "" if row.matters or state != "refused" else " (no gradient reaches it)"
                lines.append(f"  {len(row.where):>5}  {row.operator:<{width}}  {row.reason}{aside}".rstrip())
                if state == "refused":
                    lines.append(f"         {'':<{width}}  at {_listed(row.where)}. {row.advice}")
        verdict = "every gradient can be written" if self.is_differentiable else "some gradients cannot be written"
        return "\n".join([*lines, f"in all: {verdict}"])

    __repr__ = __str__


def explain(model: Model) -> Explanation:
    """Report for each operator of a model whether it carries, stops or refuses gradients, with the reason and advice.

    Args:
        model: path, bytes or message of an ONNX model, or a Program; it is not changed.

    Raises:
        ModelError: if this is not a readable ONNX model.

    Example:
        >>> from onnx import parser
        >>> text = '''<ir_version: 8, opset_import: ["": 17, "acme": 1, "ai.onnx.ml": 3]> f (float[N] x) => (float[N] y) {
        ...     a = Exp(x)  b = Floor(a)  c = ai.onnx.ml.Normalizer(a)  d = acme.Spin(x)  y = Sum(b, c, d) }'''
        >>> print(explain(parser.parse_model(text)))
        carries gradient: 2 operators
              1  Exp
              1  Sum
        stops gradient: 1 operators
              1  Floor  the derivative is zero almost everywhere
        refused: 2 operators
              1  acme:Spin              no gradient rule is registered for Spin of domain 'acme'
                                        at (-> d). Register one with @onnxgrad.gradient, or set stop_gradient on its inputs.
              1  ai.onnx.ml:Normalizer  no gradient, because operators of ai.onnx.ml are read but not differentiated
                                        at (-> c). Set stop_gradient on its inputs to cut here.
        in all: some gradients cannot be written
    """
    program = _lifted(model)
    grouped: dict[tuple[str, str, str, str], tuple[list[str], bool]] = {}
    for op, matters, around in _operators(program):
        where = "".join(f"in {outer}: " for outer in around)
        for op_type, state, reason, advice, location in _fate(op):
            locations, before = grouped.get((op_type, state, reason, advice), ([], False))
            grouped[op_type, state, reason, advice] = ([*locations, f"{where}{location}"], before or matters)
    rows = [Row(*key, tuple(locations), matters) for key, (locations, matters) in grouped.items()]
    order = list(_STATES)
    return Explanation(sorted(rows, key=lambda row: (order.index(row.state), row.operator, row.reason)))


def fates(model: Model) -> dict[tuple[str, ...], Fate]:
    """The same for each operator by itself, refused where something inside is.

    Args:
        model: as for ``explain``; it is not changed.

    Returns:
        By the name of the operator's first result, behind those of the operators whose bodies it stands in.

    Raises:
        ModelError: if this is not a readable ONNX model.
    """
    result = {}
    for op, matters, around in _operators(_lifted(model)):
        _, state, reason, advice, _ = _fate(op)[0]
        result[tuple(key_of(each) for each in (*around, op))] = Fate(state, reason, advice, matters)
    return result


def key_of(op: Operator) -> str:
    """Return the key of an operator within its block: the name of its first result."""
    return next((v.name for v in op.outputs if v is not None), "")


def _lifted(model: Model) -> Program:
    program = model.clone() if isinstance(model, Program) else from_onnx(model)
    lift(program)
    run_program_pass(program, NAME_DIMENSIONS)
    return program


def _operators(program: Program) -> Iterator[tuple[Operator, bool, tuple[Operator, ...]]]:
    """Forward operators of the main block and all bodies; whether a gradient could reach each; the operators it stands in."""
    block = program.global_block()
    forward = [op for op in block.ops if op.role is Role.FORWARD and op.replaces is None]
    reached = _reached(program, forward)
    for op in forward:
        yield op, op in reached, ()
        yield from _inside(op, op in reached, (op,))


def _inside(op: Operator, matters: bool, around: tuple[Operator, ...]) -> Iterator[tuple[Operator, bool, tuple[Operator, ...]]]:
    for body in op.blocks():
        for inner in body.ops:
            yield inner, matters, around
            yield from _inside(inner, matters, (*around, inner))


def _reached(program: Program, forward: list[Operator]) -> set[Operator]:
    """The operators between weights or float inputs and float outputs."""
    moving = {v for v in program.parameters if v.trainable} | {v for v in program.global_block().inputs if v.is_float}
    depends: set[Operator] = set()
    for op in forward:
        entry = find_entry(op)
        stops = entry is not None and entry.state == "stops"
        if any(v is not None and v in moving for v in op.operands()):
            depends.add(op)
            if not stops:
                moving.update(v for v in op.outputs if v is not None and _may_carry(v))
    wanted = set(program.outputs) if program.outputs else {v for op in forward for v in op.outputs}
    reached: set[Operator] = set()
    for op in reversed(forward):
        if any(v is not None and v in wanted and _may_carry(v) for v in op.outputs):
            entry = find_entry(op)
            if op in depends:
                reached.add(op)
            if entry is None or entry.state != "stops":
                wanted.update(v for v in op.operands() if v is not None)
    return reached


def _may_carry(v: Variable) -> bool:
    return v.type is None or not hasattr(v.type, "dtype") or v.is_float or _is_quantized(v)


def _is_quantized(v: Variable) -> bool:
    """Return whether a value is integers that a quantised operator computed"""
    entry = find_entry(v.op) if v.op is not None else None
    return entry is not None and entry.quantizes


def _fate(op: Operator) -> list[tuple[str, str, str, str, str]]:
    """(type, state, reason, advice, location) of an operator, and of those refused inside what it is written out in."""
    op_type = f"{op.domain}:{op.type}" if op.domain else op.type
    location = _location(op)
    entry = find_entry(op)
    if entry is not None and entry.state == "stops":
        return [(op_type, "stops", entry.because, "", location)]
    if not any(v is not None and _may_carry(v) for v in op.operands()):
        return [(op_type, "stops", "no operand is of floating-point type", "", location)]
    refused = _attempt(op)
    if not refused:
        through = _is_written_out(op)
        return [(op_type, "gradient", through, "", location)]
    return [
        (
            op_type if inner is op else f"{inner.domain}:{inner.type}" if inner.domain else inner.type,
            "refused",
            *_split(str(error), inner),
            location if inner is op else f"in {op_type} {location}: {_location(inner)}",
        )
        for inner, error in refused
    ]


def _attempt(op: Operator) -> list[tuple[Operator, OnnxGradError]]:
    """Differentiate one operator by itself; return what is refused in it."""
    walk = Walk(op.block, [op])
    try:
        walk.prepare(_moving(op), [v for v in op.outputs if v is not None])
    except OnnxGradError as error:
        return [(op, error)]
    refusals: list[tuple[Operator, OnnxGradError]] = []
    for inner in walk.operators:
        refusal = None if inner in walk.expansions else _refusal(walk, inner)
        if refusal is not None:
            refusals.append((inner, refusal))
    return refusals


def _refusal(around: Walk, op: Operator) -> OnnxGradError | None:
    """The error of differentiating one operator; None if it works, stops, or only a body of it refuses."""
    walk = Walk(op.block, [op])
    walk.tapes = around.tapes
    walk.find_active(_moving(op))
    for v in op.outputs:
        if v is not None and _may_carry(v):
            walk.seed(v, Variable(op.block, f"{v.name}@GRAD", v.type))
    try:
        walk.run()
    except UnsupportedGradient as error:
        own = str(error).startswith(str(op)) or not any(True for _ in op.blocks())
        return error if own else None
    except ProgramError:
        # A rule needs the type of a value, and that is not known in this body: the table has the word.
        return None
    return None


def _moving(op: Operator) -> list[Variable]:
    """Operands that a gradient may be wanted of: not the constants, unless there is nothing else"""
    operands = [v for v in [*op.inputs, *captured_variables(op)] if v is not None and _may_carry(v)]
    return [v for v in operands if v.value is None or v.persistable] or operands


def _is_written_out(op: Operator) -> str:
    entry = find_entry(op)
    if entry is None:
        return "through the body of the model's function"
    if entry.state == "expands":
        return "as other operators"
    return ""


def _location(op: Operator) -> str:
    """``'fc1' (-> logits)``: the operator without its type."""
    return str(op).partition(" ")[2]


def _split(message: str, op: Operator) -> tuple[str, str]:
    """Reason and advice of an error message of the form ``operator: reason. Advice.``"""
    reason, _, advice = message.removeprefix(f"{op}: ").partition(". ")
    return reason, advice or "Set stop_gradient on its inputs to cut here."


def _listed(locations: tuple[str, ...]) -> str:
    shown = ", ".join(locations[:3])
    return shown if len(locations) <= 3 else f"{shown} and {len(locations) - 3} more"

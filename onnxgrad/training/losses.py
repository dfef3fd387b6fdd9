"""Attaching a loss to the outputs of a program that has none: terms, targets, and what was found out about the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.program import Program
from onnxgrad.ir.types import Dim, TensorType
from onnxgrad.ir.variable import Variable
from onnxgrad.passes.lift import lift
from onnxgrad.training.loss_formulas import LOSSES

__all__ = ["Attached", "Term", "as_terms", "attach"]


class Term:
    """One term of a loss.

    Args:
        loss: a name in ``LOSSES``, or a function ``(output, target) -> Variable`` that uses the static API.
        output: name of the program's output, or of another tensor in it; None for its only or first output.
        target: name of the data column; None for ``target``.
        weight: factor of this term in the sum.
        dtype, shape: of the target column, for a function; None for those of the output.
    """

    def __init__(
        self,
        loss: str | Callable[..., Variable],
        output: str | None = None,
        target: str | None = None,
        weight: float = 1.0,
        *,
        dtype: Any = None,
        shape: Sequence[int | str | None] | None = None,
    ) -> None:
        if isinstance(loss, str) and loss not in LOSSES:
            raise ArgumentError(f"there is no loss {loss!r}. Use one of {sorted(LOSSES)}, or a function.")
        self.loss = loss
        self.output = output
        self.target = target
        self.weight = float(weight)
        self.dtype = None if dtype is None else dtype_of(dtype)
        self.dims: tuple[Dim, ...] | None = None if shape is None else tuple(None if d == -1 else d for d in shape)

    def target_type(self, output: Variable) -> TensorType:
        """Type of the target column for this output"""
        if not callable(self.loss):
            return TensorType(*_target_type(self.loss, output))
        return TensorType(self.dtype or output.dtype, output.dims if self.dims is None else self.dims)


def as_terms(loss: Any, target: str) -> list[Term]:
    """A loss as the user gave it, as terms.

    Raises:
        ArgumentError: if it is neither a name, a function, a Term nor a list of Terms.
    """
    if isinstance(loss, Term):
        return [loss]
    if isinstance(loss, str) or callable(loss):
        return [Term(loss, target=target)]
    terms = list(loss) if isinstance(loss, (list, tuple)) else []
    if not terms or not all(isinstance(term, Term) for term in terms):
        raise ArgumentError("a loss is a name, a function, a Term, or a list of Terms.")
    return terms


class Attached:
    """What was attached: the loss, the target inputs, and remarks for people."""

    def __init__(self, loss: Variable, targets: list[Variable], outputs: list[Variable], remarks: list[str]) -> None:
        self.loss = loss
        self.targets = targets
        self.outputs = outputs
        self.remarks = remarks


def attach(program: Program, terms: Sequence[Term]) -> Attached:
    """Append a weighted sum of losses to a program, with one input per target column.

    Raises:
        UnknownName: if the program has no such output.
        ArgumentError: if a loss does not fit the output.
    """
    from onnxgrad.ir.defaults import program_guard

    lift(program)
    remarks: list[str] = []
    targets: dict[str, Variable] = {}
    total: Variable | None = None
    outputs = []
    with program_guard(program):
        op = Builder(program.global_block(), key="loss")
        for term in terms:
            outputs.append(_output(program, term.output))
            value = _value(op, term, outputs[-1], targets, remarks)
            total = value if total is None else op.Add(total, value)
    if total is None:
        raise ArgumentError("a loss has at least one term.")
    return Attached(total, list(targets.values()), outputs, remarks)


def _value(op: Builder, term: Term, output: Variable, targets: dict[str, Variable], remarks: list[str]) -> Variable:
    """The weighted mean of one term; a target column that is new becomes an input"""
    name = term.target or "target"
    if name not in targets:
        targets[name] = _new_target(op.block.program, name, term.target_type(output))
    if callable(term.loss):
        value = term.loss(output, targets[name])
        if not isinstance(value, Variable):
            raise ArgumentError(f"the loss function returned {type(value).__name__}. Return a Variable of the program.")
    else:
        value = LOSSES[term.loss](op, output, targets[name], remarks)
    value = value if value.rank == 0 else op.ReduceMean(value, keepdims=0)
    return value if term.weight == 1.0 else op.Mul(value, term.weight)


def _output(program: Program, name: str | None) -> Variable:
    if name is None:
        if not program.outputs:
            raise ArgumentError("the program has no outputs to attach a loss to. Name one.")
        return program.outputs[0]
    found = program.global_block().vars.get(name)
    if found is None or found.is_leaf:
        raise UnknownName(f"the program has no output {name!r}; it has {[v.name for v in program.outputs]}.")
    return found


def _target_type(loss: str, output: Variable) -> tuple[DType, tuple[Dim, ...] | None]:
    """Element type and dimensions of the target column of a loss"""
    dims = output.dims
    if loss == "cross_entropy":
        return dtype_of("int64"), None if dims is None else (*dims[:1], *dims[2:])
    if loss == "ctc":
        if output.rank != 3:
            raise ArgumentError(f"ctc needs scores of shape [batch, steps, classes], not {output!r}.")
        return dtype_of("int64"), None if dims is None else (dims[0], None)
    if loss == "triplet":
        return dtype_of("int64"), None if dims is None else dims[:1]
    return output.dtype, dims


def _new_target(program: Program, name: str, type: TensorType) -> Variable:
    block = program.global_block()
    if name in block.vars:
        raise ArgumentError(f"the target column {name!r} has the name of another tensor of the program. Choose another name.")
    v = Variable(block, name, type)
    v.is_data = True
    block.inputs.append(block.register(v))
    return v

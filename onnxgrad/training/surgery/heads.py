"""Cutting a loaded program and putting another head on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import all_operators_of, needed_operators, substitute
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.passes.modes import ADDED
from onnxgrad.errors import ArgumentError, ModelError, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.record import record_of, set_record
from onnxgrad.training.surgery.pooling import at_last_token

__all__ = ["cut_at", "insert_dropout", "remove_added_dropout", "replace_head"]

_PASSES_ON = VIEWS | {"Cast", "Softmax", "LogSoftmax", "Sigmoid", "Dropout"}


@checked
@all_or_nothing
def cut_at(program: Program, tensors: str | Sequence[str]) -> Program:
    """End a program at inner tensors, which become its outputs; everything behind them is removed.

    Args:
        program: a loaded program without a backward pass; it is changed.
        tensors: names of tensors in its main graph.

    Returns:
        The program.

    Raises:
        UnknownName: if a tensor is not computed in the main graph.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { h = Exp(x) y = Neg(h) }'
        >>> program = cut_at(onnxgrad.from_onnx(parser.parse_model(text)), "h")
        >>> program.outputs
        [Variable(h: float32[N])]
    """
    block = program.global_block()
    block.outputs = [_computed(program, name) for name in ([tensors] if isinstance(tensors, str) else tensors)]
    remove_dead(program)
    return program


def _computed(program: Program, name: str) -> Variable:
    variable = program.global_block().vars.get(name)
    if variable is None or variable.op is None or variable.value is not None:
        results = [v.name for op in program.global_block().ops for v in op.outputs if v is not None and v.value is None]
        near = [other for other in results if name.lower() in other.lower()] or results[-6:]
        raise UnknownName(f"no operator of the main graph computes {name!r}. Name a tensor, such as {', '.join(near[:6])}.")
    return variable


def remove_dead(program: Program) -> None:
    """Drop the operators, weights and constants that the outputs do not need."""
    block = program.global_block()
    block.ops = needed_operators(block.ops, block.outputs)
    used = {v for op in all_operators_of(block) for v in [*op.inputs, *op.outputs] if v is not None}
    used |= {v for op in block.ops for v in op.operands() if v is not None} | {*block.outputs, *block.inputs}
    block.vars = {name: v for name, v in block.vars.items() if v in used}
    block.initializers = [v for v in block.initializers if v in used]
    block.value_infos = [v for v in block.value_infos if v in used]
    program.parameters = [p for p in program.parameters if p in used]
    program._constants = {key: v for key, v in program._constants.items() if v in used}
    program.version += 1


@checked
@all_or_nothing
def replace_head(
    program: Program,
    at: str | None = None,
    classes: int = 2,
    *,
    name: str = "head",
    seed: int = 0,
    pool: Literal["last"] | None = None,
) -> Program:
    """Replace the last layer by a new linear one.

    Args:
        program: a loaded program without a backward pass; it is changed.
        at: tensor that the new layer reads; None for what the last MatMul, Gemm or Conv before the first output reads. A
            tensor of rank 4 and more is averaged over its positions first.
        classes: outputs of the new layer.
        name: the new weights are called ``<name>.weight`` ([classes, features]) and ``<name>.bias``.
        seed: of the weights, uniform in +-1/sqrt(features).
        pool: ``"last"`` for a layer that reads the last token of each text alone, which ``attention_mask`` tells from padding:
            scores [batch, classes] of a language model.

    Returns:
        The program; its only output is the layer's, under the name of the old first output.

    Raises:
        UnknownName: if there is no such tensor.
        ArgumentError: if the number of features is not known, ``classes`` is not positive, or the last token cannot be told.
    """
    if classes < 1:
        raise ArgumentError(f"classes counts the outputs of the new head; it is at least 1, not {classes}.")
    block = program.global_block()
    features = _computed(program, at) if at is not None else _before_last_layer(program)
    old = block.outputs[0].name if block.outputs else "scores"
    block.outputs = [features]
    remove_dead(program)
    build = Builder(block, key=name)
    x: Variable = features if pool is None else at_last_token(build, features)
    if x.rank is not None and x.rank > 3:
        x = build.Flatten(build.GlobalAveragePool(x), axis=1)
    size = x.dims[-1] if x.dims and x.rank in (2, 3) else None
    if not isinstance(size, int):
        raise ArgumentError(f"replace_head: the last dimension of {x!r} must be known. Name another tensor in at=.")
    rng = np.random.default_rng(seed)
    weight = (rng.uniform(-1, 1, (classes, size)) / np.sqrt(size)).astype(x.dtype.numpy)
    w = _new_parameter(block, f"{name}.weight", weight)
    b = _new_parameter(block, f"{name}.bias", np.zeros(classes, x.dtype.numpy))
    y = build.Gemm(x, w, b, transB=1) if x.rank == 2 else build.Add(build.MatMul(x, build.Transpose(w, perm=[1, 0])), b)
    if old not in block.vars:
        y.name = old
    y.declared = None
    block.outputs = [y]
    record, inputs = record_of(program), {v.name for v in program.inputs}
    set_record(program, record.without([name for name in record.columns if name not in inputs]))  # classes of the old head
    return program


def _new_parameter(block: Block, name: str, value: np.ndarray[Any, Any]) -> Parameter:
    free = name if name not in block.program.names else block.program.fresh_name(name)
    parameter = block.create_parameter(free, value.shape, value.dtype, value=TensorValue.of(value))
    block.program.decisions[free] = "weight: added"
    return parameter


def _before_last_layer(program: Program) -> Variable:
    if not program.outputs:
        raise ArgumentError("replace_head: the program has no outputs. Name the tensor to read in at=.")
    op = program.outputs[0].op
    while op is not None and op.type not in ("Gemm", "MatMul", "MatMulNBits", "Conv"):
        v = op.inputs[0] if op.type in _PASSES_ON else next((w for w in op.inputs if w is not None and w.op is not None), None)
        op = None if v is None else v.op
    if op is None or op.inputs[0] is None or op.inputs[0].op is None:
        raise ArgumentError("replace_head: no MatMul, Gemm or Conv is found before the first output. Name a tensor in at=.")
    return op.inputs[0]


def insert_after(op: Operator, write: Callable[[Builder], Variable], key: str) -> Variable:
    """Let ``write`` append operators right behind ``op``; returns what it returns."""
    return _insert(op.block, op.idx + 1, write, key)


def insert_before(op: Operator, write: Callable[[Builder], Variable], key: str) -> Variable:
    """Let ``write`` append operators right before ``op``; returns what it returns."""
    return _insert(op.block, op.idx, write, key)


def _insert(block: Block, at: int, write: Callable[[Builder], Variable], key: str) -> Variable:
    tail, block.ops = block.ops[at:], block.ops[:at]
    try:
        result = write(Builder(block, key=key))
    finally:
        block.ops += tail
    block.program.version += 1
    return result


@checked
@all_or_nothing
def insert_dropout(program: Program, after: str | Iterable[str], ratio: float = 0.1) -> list[str]:
    """Put Dropout behind tensors: exporters drop it, and fine-tuning may need it. Exports for inference leave it out again.

    Args:
        program: a loaded program without a backward pass; it is changed.
        after: names of operators, or of tensors in the main graph.
        ratio: share of the elements that a training step sets to 0.

    Returns:
        Names of the tensors behind which there is a Dropout now.

    Raises:
        UnknownName: if there is no such operator or tensor.
        ArgumentError: if the ratio does not lie in [0, 1), or the tensor is an output of the program.
    """
    if not 0 <= ratio < 1:
        raise ArgumentError(f"the ratio of Dropout lies in [0, 1), not {ratio}.")
    block = program.global_block()
    by_operator = {op.name: op.outputs[0].name for op in block.ops if op.name and op.outputs and op.outputs[0] is not None}
    names = []
    for name in [after] if isinstance(after, str) else after:
        v = _computed(program, by_operator.get(name, name))
        if any(v is out for out in block.outputs):
            raise ArgumentError(f"insert_dropout: {v.name!r} is an output of the program. Name a tensor before it.")
        _drop_after(v, ratio)
        names.append(v.name)
    return names


def _drop_after(v: Variable, ratio: float) -> None:
    assert v.op is not None

    def write(build: Builder) -> Variable:
        return build.Dropout(v, ratio=np.float32(ratio))

    dropped = insert_after(v.op, write, f"{v.name}/dropout")
    assert dropped.op is not None
    dropped.op.metadata = {ADDED: "dropout"}
    substitute([op for op in v.block.ops if op is not dropped.op], {v: dropped})


def remove_added_dropout(program: Program) -> None:
    """Take out what ``insert_dropout`` put in.

    Raises:
        ModelError: if the file marks something else as such.
    """
    block = program.global_block()
    for op in [op for op in block.ops if (op.metadata or {}).get(ADDED) == "dropout"]:
        x, y = (op.inputs or [None])[0], op.outputs[0]
        alone = y is not None and not any(y is v for v in block.outputs) and all(v is None for v in op.outputs[1:])
        if op.type != "Dropout" or op.domain or x is None or y is None or not alone:
            raise ModelError(f"{op} is marked as added by insert_dropout, which does not add it in this way. Remove the mark.")
        block.ops = [other for other in block.ops if other is not op]
        substitute(block.ops, {y: x})
        block.vars.pop(y.name, None)
    remove_unread_constants(program)


def remove_unread_constants(program: Program) -> None:
    """Drop the constants that were created here and that nothing reads any more."""
    block = program.global_block()
    used = {v for op in block.ops for v in op.operands()}
    gone = {v for v in program._constants.values() if v not in used}
    block.initializers = [v for v in block.initializers if v not in gone]
    for v in gone:
        block.vars.pop(v.name, None)
    program._constants = {key: v for key, v in program._constants.items() if v in used}
    program.version += 1

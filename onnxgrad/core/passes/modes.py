"""Switch a program between training and inference.

The forward operators stay as they are, so an inference model can be written at any time. Training attaches expansions to
Dropout and BatchNormalization: whoever runs the program, or differentiates it, uses those instead.
"""

from __future__ import annotations

import numpy as np

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Expansion, Operator, Role
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import Tensor
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.masks import column_numbers, sample_mask
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ProgramError
from onnxgrad.late import provides

__all__ = ["ADDED", "PART", "attach_training", "is_added", "set_training", "split_statistics", "take_parts"]

ADDED = "onnxgrad.added"
DROPOUT_STATE, DROPOUT_SEED = "dropout_step", "dropout_seed"
PART = "dropout_part"
"""An input, int64 of shape [2]: how many examples of the whole batch lie before those that are fed, and how many are fed."""


@provides("Program.train")
def set_training(program: Program, training: bool, batch_norm: str = "train") -> None:
    """Attach or remove the training forms of all forward Dropout and BatchNormalization operators of the main block.

    They are written in opset 21; a program in an older one gets them when it is lifted. With ``batch_norm="frozen"`` the file's own
    BatchNormalization stays as it is.

    Raises:
        ArgumentError: if ``batch_norm`` is another word.
    """
    if batch_norm not in ("train", "frozen"):
        raise ArgumentError(
            f"batch_norm is 'train' or 'frozen' here, not {batch_norm!r}. "
            "training.insert_batch_norm(program, data=...) puts in what an exporter folded."
        )
    with transaction(program):
        program.batch_norm = batch_norm
        is_old = (program.opset_version() or 1) < OLDEST_WITH_RULES
        program.training_pending = training and is_old
        if training:
            split_statistics(program)
        if program.training_pending and program.scope is not None and program.scope.find_var(DROPOUT_SEED) is not None:
            program.scope.set(DROPOUT_SEED, np.array(program.random_seed, np.int64))
        block = program.global_block()
        for op in list(block.ops):
            if op.replaces is None and op.domain == "" and op.type in ("Dropout", "BatchNormalization"):
                detach_training(op)
                frozen = op.type == "BatchNormalization" and batch_norm == "frozen" and not is_added(op)
                if training and not is_old and not frozen:
                    attach_training(op)
        program.version += 1


def take_parts(program: Program) -> None:
    """Let a program be fed parts of a batch, whose masks are those that Dropout draws for the whole batch.

    The program gets an input ``dropout_part``: see ``PART``. It is for programs without a backward pass.

    Raises:
        ProgramError: if the program has a backward pass, which reads the masks as they are.
    """
    block = program.global_block()
    if PART in block.vars:
        return
    dropouts = [op for op in block.ops if op.type == "Dropout" and not op.domain and op.replaces is None]
    trained = [op for op in dropouts if op.expansion is not None and op.expansion.always]
    if trained and any(op.role is not Role.FORWARD for op in block.ops):
        raise ProgramError(f"{trained[0]} has a gradient already. Say that the program takes parts before its backward pass.")
    with transaction(program):
        block.inputs.append(block.register(Variable(block, PART, TensorType(dtype_of("int64"), (2,)))))
        for op in trained:
            detach_training(op)
        for op in trained:
            attach_training(op)
        program.version += 1


def is_added(op: Operator) -> bool:
    """Whether ``training`` put the operator into the program."""
    return ADDED in (op.metadata or {})


def split_statistics(program: Program) -> None:
    """Give each BatchNormalization of a loaded program running statistics of its own.

    Exporters store equal tensors once, and before the first training all means are 0. Clones share values by name, so this comes
    before a clone that shall see what training makes of them.
    """
    seen: set[Variable] = set()
    for op in program.global_block().ops if program.imported is not None else []:
        if op.type != "BatchNormalization" or op.domain or op.replaces is not None:
            continue
        for index in (3, 4):
            v = op.inputs[index]
            if v is None or not v.is_leaf or v.value is None:
                continue
            if v in seen:
                twin = program.create_global_var(v.name, np.array(v.get_value()))
                op.inputs = [*op.inputs[:index], twin, *op.inputs[index + 1 :]]
            seen.add(v)


def detach_training(op: Operator) -> None:
    """Remove the training form of an operator."""
    expansion, program = op.expansion, op.block.program
    if expansion is None or not expansion.always:
        return
    gone = set(expansion.operators)
    made = {v for inner in expansion.operators for v in inner.outputs}
    op.block.ops = [other for other in op.block.ops if other not in gone]
    op.block.vars = {name: v for name, v in op.block.vars.items() if v not in made}
    for v in [v for v, new in program.updates.items() if new in made]:
        del program.updates[v]
    op.expansion = None
    if op.type == "Dropout":
        _hand_over(op.block, op)


def attach_training(op: Operator) -> None:
    """Give a Dropout or BatchNormalization its training form, placed right behind it.

    Raises:
        ProgramError: inside a branch or loop, which cannot hold the state that the training form updates.
    """
    block = op.block
    if block.parent is not None:
        raise ProgramError(f"{op}: the training form updates state, which a branch cannot. Move it out, or use its test form.")
    columns = _dropout_columns(op) if op.type == "Dropout" else None
    tail_at = next(i for i, other in enumerate(block.ops) if other is op) + 1
    tail, block.ops = block.ops[tail_at:], block.ops[:tail_at]
    first = op.outputs[0]
    assert first is not None
    build = Builder(block, key=f"{first.name}/train")
    outputs = _train_dropout(op, build, columns) if columns is not None else _train_batch_normalization(op, build)
    outputs += [None] * (len(op.outputs) - len(outputs))
    inner = block.ops[tail_at:]
    for other in inner:
        other.replaces = op
    op.expansion = Expansion(inner, outputs[: len(op.outputs)], always=True)
    block.ops += tail


def _train_batch_normalization(op: Operator, build: Builder) -> list[Variable | None]:
    """Normalise by the batch; replace the running statistics."""
    program = op.block.program
    attrs = {"training_mode": 1, "epsilon": op.attr("epsilon"), "momentum": op.attr("momentum")}
    running = op.inputs[3:5]
    y, mean, var = build.emit("BatchNormalization", op.inputs, attrs, outputs=3)
    for old, new in zip(running, (mean, var), strict=True):
        # Statistics that are fed belong to the caller.
        if old is not None and old.is_leaf and (old.persistable or old.value is not None):
            if not old.persistable:
                old.persistable = True
                program._constants = {k: v for k, v in program._constants.items() if v is not old}
            program.updates[old] = new
    return [y, mean, var]


def _train_dropout(op: Operator, build: Builder, columns: Variable) -> list[Variable | None]:
    """Keep each element with probability 1 - ratio and scale it up.

    Seed and step are state, so a run can be continued bitwise, and two nodes never compute the same mask.
    """
    x = op.inputs[0]
    assert x is not None
    ratio = op.inputs[1] if len(op.inputs) > 1 else None
    drop = build.Cast(ratio, to=1) if ratio is not None else np.float32(0.5)
    number = sum(1 for other in op.block.ops if other.type == "Dropout" and other.replaces is None)
    keep = sample_mask(build, x, columns, number, drop, op.block.vars.get(PART))
    scale = build.Cast(build.Div(np.float32(1.0), build.Sub(np.float32(1.0), drop)), to=x.dtype.number)
    y = build.Mul(x, build.Mul(keep, scale))
    return [y, build.Cast(keep, to=9) if len(op.outputs) > 1 and op.outputs[1] is not None else None]


def _dropout_columns(op: Operator) -> Variable:
    """What all masks of a seed share, and the next step, computed before all else by operators that one of their Dropouts holds."""
    block, program = op.block, op.block.program
    others, block.ops = block.ops, []
    step, seed = _dropout_step(program), _dropout_seed(program)
    name = f"{seed.name}/columns"
    columns = block.vars.get(name)
    if columns is None:
        columns = column_numbers(Builder(block, key=name), seed, step, name)
    for inner in block.ops:
        inner.replaces = op
    block.ops += others
    return columns


def _hand_over(block: Block, op: Operator) -> None:
    """Give what a Dropout without a training form holds for others to one of them, or remove it."""
    held = [inner for inner in block.ops if inner.replaces is op]
    updates = block.program.updates
    trained = [other for other in block.ops if other.type == "Dropout" and other.expansion is not None]
    new = set(updates.values())
    step = {inner for inner in held if inner.outputs[0] in new}
    rest = [inner for inner in held if inner not in step]
    heirs: dict[Operator, Operator | None] = dict.fromkeys(step, trained[0] if trained else None)
    if rest:
        columns = rest[-1].outputs[0]
        reader = next((other.replaces for other in block.ops if any(v is columns for v in other.inputs)), None)
        heirs.update(dict.fromkeys(rest, reader))
    for inner, heir in heirs.items():
        inner.replaces = heir
    gone = {inner for inner, heir in heirs.items() if heir is None}
    made = {v for inner in gone for v in inner.outputs}
    block.ops = [inner for inner in block.ops if inner not in gone]
    block.vars = {name: v for name, v in block.vars.items() if v not in made}
    for v in [v for v, computed in updates.items() if computed in made]:
        del updates[v]


def _dropout_step(program: Program) -> Variable:
    """The counter of steps, one for the program."""
    block = program.global_block()
    present = block.vars.get(DROPOUT_STATE)
    step = present if present is not None else program.create_global_var(DROPOUT_STATE, np.array(0, np.int64))
    if step not in program.updates:
        new = Builder(block, key=f"{DROPOUT_STATE}/next").Add(step, np.array(1))
        program.updates[step] = new
    return step


def _dropout_seed(program: Program) -> Variable:
    """The seed of all masks, which no step changes. It follows ``random_seed`` when the training forms are attached."""
    # Programs in the global scope may have different seeds, so there the name says which.
    name = DROPOUT_SEED if program.scope is not None else f"{DROPOUT_SEED}_{program.random_seed}"
    present = program.global_block().vars.get(name)
    if present is None:
        return program.create_global_var(name, np.array(program.random_seed, np.int64))
    if present.value is not None and int(present.value.numpy()) != program.random_seed:
        present.value = Tensor.of(np.array(program.random_seed, np.int64))
        present.set_value(present.value.numpy())
    return present

"""Switch a program between training and inference.

The forward operators stay as they are, so an inference model can be written at any time. Training attaches expansions to
Dropout and BatchNormalization: whoever runs the program, or differentiates it, uses those instead.

Tests: tests/core/passes/test_modes.py, tests/core/passes/test_parts_of_masks.py, tests/core/passes/test_contract.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxgrad.core.graph.contract import ProgramPass, Target
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Expansion, Operator, Role
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.masks import column_numbers
from onnxgrad.core.passes.training_forms import (
    BodyWriter,
    draws_masks,
    nested_training_operators,
    train_batch_normalization,
    train_dropout,
)
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ProgramError
from onnxgrad.internal.late import provides

__all__ = ["ADDED", "PART", "attach_in_bodies", "attach_training", "is_added", "set_training", "split_statistics", "take_parts"]

ADDED = "onnxgrad.added"
DROPOUT_STATE, DROPOUT_SEED = "dropout_step", "dropout_seed"
PART = "dropout_part"
"""An input, int64 of shape [2]: how many examples of the whole batch lie before those that are fed, and how many are fed."""


@provides("Program.train")
def set_training(program: Program, training: bool, batch_norm: str = "train") -> None:
    """Attach or remove the training forms of all forward Dropout and BatchNormalization operators, in branches and loops too.

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
    run_program_pass(program, training_forms(training, batch_norm))


def training_forms(training: bool, batch_norm: str) -> ProgramPass:
    """The pass that attaches or removes training forms; ``set_training`` says what it takes."""

    def run(program: Program, target: Target) -> int:
        pending = training and (program.opset_version() or 1) < OLDEST_WITH_RULES
        rewrites = int((program.training_pending, program.batch_norm) != (pending, batch_norm))
        program.training_pending, program.batch_norm = pending, batch_norm
        if training:
            rewrites += _split_statistics(program)
        if pending and program.scope is not None and program.scope.find_var(DROPOUT_SEED) is not None:
            program.scope.set(DROPOUT_SEED, np.array(program.random_seed, np.int64))
        for op in list(program.global_block().ops):
            if op.replaces is None and not op.domain and op.type in ("Dropout", "BatchNormalization", "If", "Loop"):
                rewrites += _switch(op, training and not pending, batch_norm)
        return rewrites

    return ProgramPass("training_forms" if training else "inference_forms", run)


def _switch(op: Operator, attaches: bool, batch_norm: str) -> bool:
    """Attach or remove the training form of an operator of the main block, and return whether that changes it"""
    detached = detach_training(op)
    inner = [op, *(operator for body in op.blocks() for operator in all_operators_of(body) if not operator.domain)]
    chosen = [operator for operator in inner if operator.type == "Dropout" or _trains_statistics(operator, batch_norm)]
    before = [operator.mode for operator in inner[1:]]
    for operator in inner[1:]:
        operator.mode = "trained" if operator in chosen else ""
    if attaches and chosen:
        attach_training(op)
    return detached or (attaches and bool(chosen)) or before != [operator.mode for operator in inner[1:]]


def _trains_statistics(op: Operator, batch_norm: str) -> bool:
    return op.type == "BatchNormalization" and (batch_norm != "frozen" or is_added(op))


def take_parts(program: Program) -> None:
    """Let a program be fed parts of a batch, with the masks that Dropout draws for the whole batch.

    The program gets an input ``dropout_part``: see ``PART``. It is for programs without a backward pass.

    Raises:
        ProgramError: if the program has a backward pass, which reads the masks as they are.
    """
    run_program_pass(program, TAKE_PARTS)


def _add_part(program: Program, target: Target) -> int:
    block = program.global_block()
    block.inputs.append(block.register(Variable(block, PART, TensorType(dtype_of("int64"), (2,)))))
    trained = _trained_dropouts(program)
    for op in trained:
        detach_training(op)
    for op in trained:
        attach_training(op)
    return 1 + len(trained)


def _trained_dropouts(program: Program) -> list[Operator]:
    dropouts = [op for op in program.global_block().ops if op.replaces is None and draws_masks(op)]
    return [op for op in dropouts if op.expansion is not None and op.expansion.always]


def _refuse_gradients(program: Program, target: Target) -> None:
    trained = _trained_dropouts(program)
    if trained and any(op.role is not Role.FORWARD for op in program.global_block().ops):
        raise ProgramError(f"{trained[0]} has a gradient already. Say that the program takes parts before its backward pass.")


TAKE_PARTS = ProgramPass(
    "parts_of_masks", _add_part, when=lambda program, target: PART not in program.global_block().vars, needs=_refuse_gradients
)


def is_added(op: Operator) -> bool:
    """Whether ``training`` put the operator into the program."""
    return ADDED in (op.metadata or {})


def split_statistics(program: Program) -> None:
    """Give each BatchNormalization of a loaded program running statistics of its own.

    Exporters store equal tensors once, perhaps as the Identity of another, and before the first training all means are 0. Clones
    share values by name, so this comes before a clone that shall see what training makes of them.
    """
    run_program_pass(program, SPLIT_STATISTICS)


def _split_statistics(program: Program, target: Target | None = None) -> int:
    """Give each BatchNormalization its own statistics, and return how many statistics and copies that changed"""
    changes = 0
    seen: set[Variable] = set()
    copies: dict[Operator, None] = {}
    block = program.global_block()
    for op in all_operators_of(block) if program.imported is not None else []:
        if op.type != "BatchNormalization" or op.domain or op.replaces is not None:
            continue
        for index in (3, 4):
            v = op.inputs[index]
            stored = v
            while stored is not None and stored.op is not None and stored.op.type == "Identity" and not stored.op.domain:
                copies[stored.op] = None
                stored = stored.op.inputs[0]
            if v is None or stored is None or not stored.is_leaf or stored.value is None:
                continue
            if v in seen or stored is not v:
                copy = program.create_global_var(v.name, np.array(stored.get_value()))
                op.inputs = [*op.inputs[:index], copy, *op.inputs[index + 1 :]]
                changes += 1
            seen.add(v)
    for op in copies:
        read = {v for other in block.ops for v in other.operands()} | set(program.outputs)
        if op in block.ops and not read.intersection(op.outputs):
            block.ops = [other for other in block.ops if other is not op]
            block.vars = {name: v for name, v in block.vars.items() if v not in set(op.outputs)}
            changes += 1
    return changes


SPLIT_STATISTICS = ProgramPass("split_statistics", _split_statistics)


def detach_training(op: Operator) -> bool:
    """Remove the training form of an operator, and return whether it had one."""
    expansion, program = op.expansion, op.block.program
    if expansion is None or not expansion.always:
        return False
    gone = set(expansion.operators)
    computed = {v for inner in expansion.operators for v in inner.outputs}
    bodies = {body for inner in expansion.operators for body in _bodies(inner)}
    program.blocks = [block for block in program.blocks if block not in bodies]
    op.block.ops = [other for other in op.block.ops if other not in gone]
    op.block.vars = {name: v for name, v in op.block.vars.items() if v not in computed}
    for v in [v for v, new in program.updates.items() if new in computed]:
        del program.updates[v]
    op.expansion = None
    if draws_masks(op):
        _hand_over(op.block, op)
    return True


def attach_in_bodies(op: Operator) -> None:
    """Give an If or Loop that was just appended its training form, if it holds what has one."""
    if op.block.parent is None and nested_training_operators(op):
        attach_training(op)


def _bodies(op: Operator) -> Iterator[Block]:
    for body in op.blocks():
        yield body
        for inner in body.ops:
            yield from _bodies(inner)


def attach_training(op: Operator) -> None:
    """Give a Dropout, a BatchNormalization, or an If or Loop that holds such, its training form, placed right behind it.

    One in a body is marked; it gets its training form with the If or Loop of the main block that it lies in.
    """
    block, program = op.block, op.block.program
    if block.parent is not None:
        op.mode = "trained"
        return
    columns = _dropout_columns(op) if draws_masks(op) else None
    tail_at = next(i for i, other in enumerate(block.ops) if other is op) + 1
    tail, block.ops = block.ops[tail_at:], block.ops[:tail_at]
    first = op.outputs[0]
    assert first is not None
    build = Builder(block, key=f"{first.name}/train")
    changes: dict[Variable, Variable] = {}
    part = block.vars.get(PART)
    outputs: list[Variable | None]
    if op.type == "BatchNormalization":
        outputs, changes = train_batch_normalization(op, op.inputs, build)
    elif op.type == "Dropout":
        assert columns is not None
        number = sum(1 for other in block.ops if other.type == "Dropout" and other.replaces is None)
        outputs = train_dropout(op, op.inputs, build, columns, number, part)
    else:
        counters = None if columns is None else (_dropout_seed(program), _dropout_step(program))
        outputs, changes = BodyWriter(op, columns, counters, part).write(op, block, {})
    outputs += [None] * (len(op.outputs) - len(outputs))
    for old, new in changes.items():
        _make_state(program, old)
        program.updates[old] = new
    inner = block.ops[tail_at:]
    for other in inner:
        other.replaces = op
    op.expansion = Expansion(inner, outputs[: len(op.outputs)], always=True)
    block.ops += tail


def _make_state(program: Program, v: Variable) -> None:
    if not v.persistable:
        v.persistable = True
        program._constants = {key: other for key, other in program._constants.items() if other is not v}


def _dropout_columns(op: Operator) -> Variable:
    """Build the columns that all masks of a seed share, and the next step, first in the block; one of the Dropouts holds them."""
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
    """Move the operators that several Dropouts share from one that loses its training form to another, or remove them."""
    held = [inner for inner in block.ops if inner.replaces is op]
    updates = block.program.updates
    trained = [other for other in block.ops if other.expansion is not None and draws_masks(other)]
    new = set(updates.values())
    step = {inner for inner in held if inner.outputs[0] in new}
    rest = [inner for inner in held if inner not in step]
    heirs: dict[Operator, Operator | None] = dict.fromkeys(step, trained[0] if trained else None)
    if rest:
        columns = rest[-1].outputs[0]
        reader = next((other.replaces for other in block.ops if any(v is columns for v in other.operands())), None)
        heirs.update(dict.fromkeys(rest, reader))
    for inner, heir in heirs.items():
        inner.replaces = heir
    gone = {inner for inner, heir in heirs.items() if heir is None}
    computed = {v for inner in gone for v in inner.outputs}
    block.ops = [inner for inner in block.ops if inner not in gone]
    block.vars = {name: v for name, v in block.vars.items() if v not in computed}
    for v in [v for v, new_value in updates.items() if new_value in computed]:
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
        present.value = TensorValue.of(np.array(program.random_seed, np.int64))
        present.set_value(present.value.numpy())
    return present

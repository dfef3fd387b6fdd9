"""Switch a program between training and inference.

The forward operators stay as they are, so an inference model can be written at any time. Training attaches expansions to
Dropout and BatchNormalization: whoever runs the program, or differentiates it, uses those instead.

Tests: tests/core/passes/test_modes.py, tests/core/passes/test_parts_of_masks.py, tests/core/passes/test_contract.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from onnxgrad.core.graph.contract import ProgramPass, Target
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Expansion, Operator, Role
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program, unshare
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
            "training.insert_batch_norm(program, data=...) inserts BatchNormalization that an exporter folded."
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
        types = ("Dropout", "BatchNormalization", "If", "Loop")
        ops = [op for op in program.global_block().ops if op.replaces is None and not op.domain and op.type in types]
        changed = detach_training(ops)
        chosen = []
        for op in ops:
            trains, remarked = _mark_inner(op, batch_norm)
            if training and not pending and trains:
                chosen.append(op)
            if remarked:
                changed.add(op)
        attach_training(chosen)
        return rewrites + len(changed.union(chosen))

    return ProgramPass("training_forms" if training else "inference_forms", run)


def _mark_inner(op: Operator, batch_norm: str) -> tuple[bool, bool]:
    """Mark what has a training form in the bodies of an operator. Returns whether it has one, and whether marks changed."""
    inner = [operator for body in op.blocks() for operator in all_operators_of(body) if not operator.domain]
    before = [operator.mode for operator in inner]
    for operator in inner:
        operator.mode = "trained" if _has_training_form(operator, batch_norm) else ""
    has_form = _has_training_form(op, batch_norm) or any(operator.mode for operator in inner)
    return has_form, before != [operator.mode for operator in inner]


def _has_training_form(op: Operator, batch_norm: str) -> bool:
    return op.type == "Dropout" or _trains_statistics(op, batch_norm)


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
    detach_training(trained)
    attach_training(trained)
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
    return changes + _remove_unread(program, copies)


def _remove_unread(program: Program, ops: Iterable[Operator]) -> int:
    """Remove those of some operators of the main block that nothing reads, in this order, and return their number"""
    ops = list(ops)
    if not ops:
        return 0
    block = program.global_block()
    inside = set(block.ops)
    reads = Counter(v for other in block.ops for v in other.operands() if v is not None)
    reads.update(program.outputs)
    gone: set[Operator] = set()
    for op in ops:
        if op in inside and not any(reads[v] for v in op.outputs if v is not None):
            gone.add(op)
            reads.subtract(v for v in op.operands() if v is not None)
    computed = {v for op in gone for v in op.outputs}
    block.ops = [other for other in block.ops if other not in gone]
    block.vars = {name: v for name, v in block.vars.items() if v not in computed}
    return len(gone)


SPLIT_STATISTICS = ProgramPass("split_statistics", _split_statistics)


def detach_training(ops: Sequence[Operator]) -> set[Operator]:
    """Remove the training forms of some operators of the main block, and return those that had one."""
    trained = {op: op.expansion for op in ops if op.expansion is not None and op.expansion.always}
    if not trained:
        return set()
    block = ops[0].block
    forms = [inner for expansion in trained.values() for inner in expansion.operators]
    bodies = {body for inner in forms for body in _bodies(inner)}
    block.program.blocks = [other for other in block.program.blocks if other not in bodies]
    for op in trained:
        op.expansion = None
    _remove(block, set(forms))
    drawing = {op for op in trained if draws_masks(op)}
    if drawing:
        _hand_over(block, drawing)
    return set(trained)


def _remove(block: Block, gone: set[Operator]) -> None:
    """Remove operators from a block, with their results and the updates of state that these are"""
    computed = {v for inner in gone for v in inner.outputs}
    updates = block.program.updates
    block.ops = [other for other in block.ops if other not in gone]
    block.vars = {name: v for name, v in block.vars.items() if v not in computed}
    for v in [v for v, new in updates.items() if new in computed]:
        del updates[v]


def attach_in_bodies(op: Operator) -> None:
    """Give an If or Loop that was just appended its training form, if it holds what has one."""
    if op.block.parent is None and nested_training_operators(op):
        attach_training([op])


def _bodies(op: Operator) -> Iterator[Block]:
    for body in op.blocks():
        yield body
        for inner in body.ops:
            yield from _bodies(inner)


def attach_training(ops: Sequence[Operator]) -> None:
    """Give Dropouts, BatchNormalizations, and Ifs and Loops that hold such, their training forms, each placed right behind it.

    One in a body is marked; it gets its training form with the If or Loop of the main block that it lies in.

    Args:
        ops: of one program, in their order.
    """
    waiting = []
    for op in ops:
        if op.block.parent is None:
            waiting.append(op)
        else:
            op.mode = "trained"
    if not waiting:
        return
    block = waiting[0].block
    first = len(block.ops) - 1  # what was just appended is at the end
    while block.ops[first] is not waiting[0]:
        first -= 1
    tail = block.ops[first:]
    del block.ops[first:]
    chosen = set(waiting)
    for op in tail:
        block.ops.append(op)
        if op in chosen:
            _write_training_form(op)


def _write_training_form(op: Operator) -> None:
    """Append the training form of the last operator of a block"""
    block, program = op.block, op.block.program
    columns = _dropout_columns(op) if draws_masks(op) else None
    begin = len(block.ops)
    result = op.outputs[0]
    assert result is not None
    build = Builder(block, key=f"{result.name}/train")
    changes: dict[Variable, Variable] = {}
    part = block.vars.get(PART)
    number = 0
    outputs: list[Variable | None]
    if op.type == "BatchNormalization":
        outputs, changes = train_batch_normalization(op, op.inputs, build)
    elif op.type == "Dropout":
        assert columns is not None
        number = _number_before(op) + 1
        outputs = train_dropout(op, op.inputs, build, columns, number, part)
    else:
        counters = None if columns is None else (_dropout_seed(program), _dropout_step(program))
        writer = BodyWriter(op, columns, counters, part)
        number = writer.last
        outputs, changes = writer.write(op, block, {})
    outputs += [None] * (len(op.outputs) - len(outputs))
    for old, new in changes.items():
        _make_state(program, old)
        program.updates[old] = new
    inner = block.ops[begin:]
    for other in inner:
        other.replaces = op
    op.expansion = Expansion(inner, outputs[: len(op.outputs)], always=True, number=number)


def _number_before(op: Operator) -> int:
    """Count the Dropouts that stand before the last operator of a block, from the last one whose number is known"""
    count = 0
    for other in reversed(op.block.ops):
        if other is not op and other.type == "Dropout" and other.replaces is None:
            if other.expansion is not None and other.expansion.number:
                return other.expansion.number + count
            count += 1
    return count


def _make_state(program: Program, v: Variable) -> None:
    if not v.persistable:
        v.persistable = True
        unshare(program, v)


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
    block.ops = [*block.ops, *others] if block.ops else others
    return columns


def _hand_over(block: Block, ops: set[Operator]) -> None:
    """Move the operators that several Dropouts share from those that lose their training form to another, or remove them."""
    held = [inner for inner in block.ops if inner.replaces in ops]
    if not held:
        return
    new = set(block.program.updates.values())
    step = [inner for inner in held if inner.outputs[0] in new]
    rest = [inner for inner in held if inner.outputs[0] not in new]
    trained = next((other for other in block.ops if other.expansion is not None and draws_masks(other)), None)
    heirs: dict[Operator, Operator | None] = dict.fromkeys(step, trained)
    if rest:
        columns = rest[-1].outputs[0]
        reader = next((other.replaces for other in block.ops if any(v is columns for v in other.operands())), None)
        heirs.update(dict.fromkeys(rest, reader))
    for inner, heir in heirs.items():
        inner.replaces = heir
    _remove(block, {inner for inner, heir in heirs.items() if heir is None})


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

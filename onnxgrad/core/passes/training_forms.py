"""Write the training forms of Dropout and BatchNormalization, in the main block and in branches and loops.

A body holds no state. So the training form of an If or Loop is the operator once more, whose bodies have the training forms inside:
what they make of running statistics leaves an If as further outputs, and goes through a Loop as further states.

Tests: tests/core/passes/test_modes.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.bodies import finish_body
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.masks import column_numbers, sample_mask
from onnxgrad.errors import ProgramError

__all__ = ["BodyWriter", "draws_masks", "nested_training_operators", "train_batch_normalization", "train_dropout"]

"""The mark of a Dropout or BatchNormalization in a body that has a training form."""
_FIRST_NESTED = 1_000_000
"""The numbers of Dropouts in bodies begin here, so that those of the main block do not depend on them."""
_ROUND = 2**22
"""What each round of a loop adds to the seed."""

Outputs = list[Variable | None]
Changes = dict[Variable, Variable]


def nested_training_operators(op: Operator) -> list[Operator]:
    """The operators with a training form in the branches of an If or the body of a Loop."""
    if op.domain or op.type not in ("If", "Loop"):
        return []
    return [inner for body in op.blocks() for inner in all_operators_of(body) if inner.mode == "trained"]


def draws_masks(op: Operator) -> bool:
    """Whether the training form of an operator draws masks."""
    return (op.type == "Dropout" and not op.domain) or any(inner.type == "Dropout" for inner in nested_training_operators(op))


def train_batch_normalization(op: Operator, inputs: Sequence[Variable | None], build: Builder) -> tuple[Outputs, Changes]:
    """Normalise by the batch. Returns the outputs, and what replaces the running statistics."""
    attrs = {"training_mode": 1, "epsilon": op.attr("epsilon"), "momentum": op.attr("momentum")}
    y, mean, var = build.emit("BatchNormalization", inputs, attrs, outputs=3)
    changes: Changes = {}
    for old, new in zip(op.inputs[3:5], (mean, var), strict=True):
        # Statistics that are fed belong to the caller.
        if old is not None and old.is_leaf and (old.persistable or old.value is not None):
            changes[old] = new
    return [y, mean, var], changes


def train_dropout(
    op: Operator, inputs: Sequence[Variable | None], build: Builder, columns: Variable, number: int, part: Variable | None
) -> Outputs:
    """Keep each element with probability 1 - ratio and scale it up.

    Seed and step are state, so a run can be continued bitwise, and two nodes never compute the same mask.
    """
    x = inputs[0]
    assert x is not None
    ratio = inputs[1] if len(inputs) > 1 else None
    drop = build.Cast(ratio, to=1) if ratio is not None else np.float32(0.5)
    keep = sample_mask(build, x, columns, number, drop, part)
    scale = build.Cast(build.Div(np.float32(1.0), build.Sub(np.float32(1.0), drop)), to=x.dtype.number)
    y = build.Mul(x, build.Mul(keep, scale))
    return [y, build.Cast(keep, to=9) if len(op.outputs) > 1 and op.outputs[1] is not None else None]


def _count_dropouts(op: Operator) -> int:
    return sum(inner.type == "Dropout" for inner in nested_training_operators(op))


def _number_before(op: Operator) -> int:
    """The number of the last Dropout in the bodies before the last operator of a block, from the last one that is known"""
    count = 0
    for other in reversed(op.block.ops):
        if other is not op and other.replaces is None:
            if other.expansion is not None and other.expansion.number >= _FIRST_NESTED:
                return other.expansion.number + count
            count += _count_dropouts(other)
    return _FIRST_NESTED + count


class BodyWriter:
    """Writes the training form of an If or Loop.

    Args:
        op: the operator in the main block.
        columns: the numbers of all masks of a step, None if it has no Dropout.
        counters: seed and step, the state that ``columns`` are computed from.
        part: as in ``sample_mask``.
    """

    def __init__(
        self, op: Operator, columns: Variable | None, counters: tuple[Variable, Variable] | None, part: Variable | None
    ) -> None:
        self.program = op.block.program
        self.columns, self.counters, self.part = columns, counters, part
        self.number = 0 if columns is None else _number_before(op)
        """Of the last mask so far."""
        self.last = 0 if columns is None else self.number + _count_dropouts(op)

    def write(self, op: Operator, block: Block, mapping: Changes, in_loop: bool = False) -> tuple[Outputs, Changes]:
        """Append the training form of an If or Loop to a block. Returns its outputs, and what replaces running statistics."""
        states = list(self._statistics(op))
        copy = Operator(block, op.type, [None if v is None else mapping.get(v, v) for v in op.inputs], [], dict(op.attrs))
        copy.metadata, copy.role = op.metadata, op.role
        if op.type == "If":
            for key in ("then_branch", "else_branch"):
                copy.attrs[key] = self._body(op, key, block, dict(mapping), states, in_loop)
        else:
            if in_loop and draws_masks(op):
                raise ProgramError(f"{op}: Dropout in a loop inside a loop has no training form. Move it out of the inner loop.")
            copy.attrs["body"] = self._body(op, "body", block, dict(mapping), states, True)
            copy.inputs += [mapping.get(v, v) for v in states]
        at = len(op.outputs) if op.type == "If" else len(op.inputs) - 2
        outputs = [None if v is None else Variable(block, self._name(v), v.type, copy) for v in op.outputs]
        new = [Variable(block, self._name(v), v.type, copy) for v in states]
        copy.outputs = [*outputs[:at], *new, *outputs[at:]]
        block.append(copy)
        return list(outputs), dict(zip(states, new, strict=True))

    def _statistics(self, op: Operator) -> dict[Variable, None]:
        statistics: dict[Variable, None] = {}
        for inner in nested_training_operators(op):
            for v in inner.inputs[3:5] if inner.type == "BatchNormalization" else ():
                if v is not None and v.is_leaf and (v.persistable or v.value is not None):
                    statistics[v] = None
        return statistics

    def _name(self, v: Variable) -> str:
        return self.program.fresh_name(f"{v.name}/train")

    def _body(self, op: Operator, key: str, parent: Block, mapping: Changes, states: list[Variable], in_loop: bool) -> Block:
        """A body with training forms, which returns the new values of ``states`` too; that of a Loop takes the old ones."""
        body: Block = op.attrs[key]
        copy = self.program.new_block(parent, f"{body.name}/train")
        build = Builder(copy, key=copy.name)
        is_loop = op.type == "Loop"
        for v in [*body.inputs, *(states if is_loop else ())]:
            mapping[v] = copy.register(Variable(copy, self._name(v), v.type))
            copy.inputs.append(mapping[v])
        for v in body.initializers:
            if not v.persistable and v not in mapping:
                mapping[v] = copy.register(Variable(copy, self._name(v), v.type))
                mapping[v].value, mapping[v].entries = v.value, v.entries
                copy.initializers.append(mapping[v])
        outer = self.columns
        if is_loop and draws_masks(op):
            self.columns = self._columns_of_round(copy, build)
        changes: Changes = {}
        for inner in body.ops:
            changes |= self._operator(inner, copy, build, mapping, in_loop)
        self.columns = outer
        returned = [mapping.get(v, v) for v in body.outputs]
        at = len(body.inputs) - 1 if is_loop else len(returned)
        latest = [changes.get(v, mapping.get(v, v)) for v in states]
        finish_body(copy, [*returned[:at], *latest, *returned[at:]], build)
        return copy

    def _columns_of_round(self, body: Block, build: Builder) -> Variable:
        """Other numbers in each round of a loop."""
        assert self.counters is not None
        seed, step = self.counters
        round_seed = build.Add(seed, build.Mul(build.Add(body.inputs[0], np.array(1)), np.array(_ROUND)))
        return column_numbers(build, round_seed, step, self.program.fresh_name(f"{body.name}/columns"))

    def _operator(self, op: Operator, copy: Block, build: Builder, mapping: Changes, in_loop: bool) -> Changes:
        inputs = [None if v is None else mapping.get(v, v) for v in op.inputs]
        outputs: Outputs
        changes: Changes = {}
        if op.mode == "trained" and op.type == "Dropout":
            assert self.columns is not None
            self.number += 1
            outputs = train_dropout(op, inputs, build, self.columns, self.number, self.part)
        elif op.mode == "trained":
            outputs, changes = train_batch_normalization(op, inputs, build)
        elif nested_training_operators(op):
            outputs, changes = self.write(op, copy, mapping, in_loop)
        else:
            for copied in copy_operators([op], mapping, copy, self._name):
                if not (copied.outputs and copied.outputs[0] is not None and copied.outputs[0].persistable):
                    copy.append(copied)
            return {}
        mapping.update({v: w for v, w in zip(op.outputs, outputs, strict=False) if v is not None and w is not None})
        return changes

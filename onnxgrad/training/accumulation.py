"""Gradient accumulation: micro-batches add their gradients up, a second program applies the mean.

In an exported step both are one program, which counts the micro-batches itself and takes the update at every last one.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import Tensor
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.master import widened
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["SUM", "accumulating", "joined"]

COUNTER = "micro_batch"
SUM = "@ACCUMULATED"
"""The end of the name of a sum of gradients."""


def accumulating(program: Program, pairs: list[tuple[Variable, Variable]], optimizer: Optimizer, count: int) -> Program:
    """Let ``program`` add gradients up; returns the program that applies their mean and starts anew."""
    apply = Program()
    apply.scope = program.active_scope()
    block = apply.global_block()
    add, op = (Builder(one.global_block(), role=Role.OPTIMIZE, key="accumulate") for one in (program, apply))
    twins: list[tuple[Variable, Variable]] = []
    for p, g in widened(program.global_block().build, pairs):
        shape = p.static_shape
        if shape is None or not isinstance(p, Parameter):
            raise ArgumentError(f"gradients of {p.name} cannot be added up: its shape is unknown.")
        zeros = np.zeros(shape, g.dtype.numpy)
        total = program.create_global_var(f"{p.name}{SUM}", zeros)
        program.updates[total] = add.Add(total, g)
        twin = block.create_parameter(p.name, shape, p.dtype, p.trainable, Tensor.of(p.get_value()))
        twin.optimize_attr, twin.regularizer, twin.need_clip = p.optimize_attr, p.regularizer, p.need_clip
        held = apply.create_global_var(total.name, zeros)
        twins.append((twin, op.Mul(held, 1.0 / count)))
        apply.updates[held] = op.Mul(held, 0.0)
    optimizer.apply_gradients(twins)
    program.version += 1
    return apply


def joined(program: Program, apply: Program, count: int, done: int) -> Program:
    """One program for both: every ``count`` runs the state is what ``apply`` makes of it, else what it was.

    Args:
        program, apply: as ``accumulating`` left them; they stay as they are.
        count: micro-batches in an update.
        done: how many of them the present sums hold.
    """
    both = program.clone()
    block = both.global_block()
    op = Builder(block, role=Role.OPTIMIZE, key="accumulate")
    counter = both.create_global_var(COUNTER, np.array(done, np.int64))
    reached = op.Add(counter, np.array(1))
    last = op.Equal(reached, np.array(count))
    both.updates[counter] = op.Where(last, np.array(0), reached)

    kept = {v: _in(both, v) for v in apply.list_vars() if v.persistable}
    present = {v: both.updates.get(own, own) for v, own in kept.items()}
    mapping = dict(present)
    mapping.update({v: both.constant(v.value.numpy()) for v in apply.list_vars() if not v.persistable and v.value is not None})
    for copy in copy_operators(apply.global_block().ops, mapping, block, lambda v: both.fresh_name(v.name)):
        for v in copy.outputs:
            if v is not None:
                block.register(v)
        block.ops.append(copy)
    for v, new in apply.updates.items():
        both.updates[kept[v]] = op.Where(last, mapping[new], present[v])
    both.version += 1
    return both


def _in(program: Program, v: Variable) -> Variable:
    """The state variable of that name, made if need be"""
    found = program.global_block().vars.get(v.name)
    if found is None:
        found = program.create_global_var(v.name, np.asarray(v.get_value()))
        found.doc = v.doc
    return found

"""A program that counts its runs itself, and applies the gradients that it adds up in every so many-th: what is exported.

Tests: tests/core/step/test_accumulated.py.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import needed_operators, substitute

__all__ = ["COUNTER", "accumulated_step"]

COUNTER = "micro_batch"
"""The state that counts runs, a scalar of int64."""


def accumulated_step(program: Program, done: int = 0) -> Program:
    """One step for all runs: in the last of each row the state is what the sums make of it, else what it was.

    Where nothing in a row of runs counts, the state stays as well: the gradient of one batch would be 0 / 0.

    Args:
        program: that adds gradients up over several runs, or not: then it is returned as it is. It is not changed.
        done: how many runs the present sums hold.
    """
    if program.plan.accumulation is None:
        return program
    copy = program.clone()
    accumulation = copy.plan.accumulation
    assert accumulation is not None
    block = copy.global_block()
    each = copy.plan.updates(copy.updates, "run")
    applied = {v: new for v, new in copy.updates.items() if v not in accumulation.each}
    # What is made of the sums reads the state that this run has left.
    running = set(needed_operators(block.ops, each.values()))
    applying = [op for op in needed_operators(block.ops, applied.values()) if op not in running]
    substitute(applying, each)

    op = Builder(block, role=Role.OPTIMIZE, key="accumulate")
    counter = copy.create_global_var(COUNTER, np.array(done, np.int64))
    reached = op.Add(counter, np.array(1))
    last = op.Equal(reached, np.array(accumulation.runs))
    copy.updates[counter] = op.Where(last, np.array(0), reached)
    for total in accumulation.sums:
        copy.updates[total] = op.Where(last, op.constant(0, total.dtype), each[total])
    counted = [op.Not(op.Equal(each[total], 0.0)) for total in accumulation.sums if total in accumulation.divisors]
    applies = reduce(op.And, counted, last)
    for v, new in applied.items():
        copy.updates[v] = op.Where(applies, new, v)
    copy.plan.accumulation = None
    copy.version += 1
    return copy

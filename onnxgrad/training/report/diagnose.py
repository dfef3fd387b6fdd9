"""Find the operator that a number which is not finite came from.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.executor import Executor

__all__ = ["bad_loss", "bad_value", "bad_weight", "first_bad_operator"]


def bad_weight(program: Program) -> str | None:
    """Name of a persistable float variable that is not finite."""
    return bad_value(program, {})


def bad_value(program: Program, values: Mapping[str, Any]) -> str | None:
    """The same if the program had these values, by name."""
    for v in program.list_vars():
        if v.persistable and v.is_float:
            value = values[v.name] if v.name in values else v.get_value()
            if not np.isfinite(np.asarray(value, np.float64)).all():
                return v.name
    return None


def bad_loss(program: Program, feed: dict[str, Any], executor: Executor) -> str:
    """Explain why a loss is not finite and what to do, as the end of a sentence."""
    weight = bad_weight(program)
    if weight is not None:
        return f", because an earlier update left {weight} not finite. Lower the learning rate or set clip_norm."
    bad_operator = first_bad_operator(program, feed, executor)
    where = f"; the first value that is not finite is {bad_operator}" if bad_operator else ""
    return f"{where}. Lower the learning rate, or look at this batch."


def first_bad_operator(program: Program, feed: dict[str, Any], executor: Executor) -> str | None:
    """``name, computed by operator`` of the first forward result that is not finite; the state stays as it is."""
    copy = program.clone()
    copy.updates, copy.plan.schedulers, copy.plan.printers = {}, [], []
    forward = [op for op in copy.global_block().ops if op.role is Role.FORWARD]
    results = [(op, v) for op in forward for v in op.outputs if v is not None and v.is_float and v.value is None]
    instead = {op: op.expansion for op in forward if op.expansion is not None}
    results = [(op, v) for op, v in results if op not in instead or not instead[op].always]
    for (op, v), value in zip(results, executor.run(copy, feed, [v for _, v in results]), strict=True):
        if not np.isfinite(np.asarray(value, np.float64)).all():
            return f"{v.name}, computed by {op.replaces or op}"
    return None

"""Gradient accumulation: micro-batches add their gradients up, a second program applies the mean."""

from __future__ import annotations

import numpy as np

from onnxgrad.errors import ArgumentError
from onnxgrad.ir.program import Program
from onnxgrad.ir.tensor import Tensor
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["accumulating"]


def accumulating(program: Program, pairs: list[tuple[Variable, Variable]], optimizer: Optimizer, count: int) -> Program:
    """Let ``program`` add gradients up; returns the program that applies their mean and starts anew."""
    apply = Program()
    apply.scope = program.active_scope()
    block = apply.global_block()
    twins: list[tuple[Variable, Variable]] = []
    for p, g in pairs:
        shape = p.static_shape
        if shape is None or not isinstance(p, Parameter):
            raise ArgumentError(f"gradients of {p.name} cannot be added up: its shape is unknown.")
        total = program.create_global_var(f"{p.name}@ACCUMULATED", np.zeros(shape, p.dtype.numpy))
        program.updates[total] = program.global_block().build.Add(total, g)
        twin = block.create_parameter(p.name, shape, p.dtype, p.trainable, Tensor.of(p.get_value()))
        twin.optimize_attr, twin.regularizer, twin.need_clip = p.optimize_attr, p.regularizer, p.need_clip
        held = apply.create_global_var(total.name, np.zeros(shape, p.dtype.numpy))
        twins.append((twin, block.build.Mul(held, 1.0 / count)))
        apply.updates[held] = block.build.Mul(held, 0.0)
    optimizer.apply_gradients(twins)
    program.version += 1
    return apply

"""Weights that exporters merged or split: finding them, taking them apart, tying them together.

The newer exporters of PyTorch store equal tensors once, so two layers that began equal share a weight for ever. Tied embeddings
meet the opposite fate: they come apart into two tensors, one of them transposed, and drift apart in training.

Tests: tests/training/surgery/test_heads.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.training.surgery.lora_targets import DORA

__all__ = ["Ties", "find_ties", "tie", "untie"]


class Ties(NamedTuple):
    """``merged``: weight and the operators that read it; ``split``: two equal weights, and whether one is transposed."""

    merged: list[tuple[str, list[str]]]
    split: list[tuple[str, str, bool]]

    def warnings(self) -> list[str]:
        """A line on weights that several operators read, and one on weights that are equal, with what to do."""
        merged = [
            f"{name} is read by {len(readers)} operators ({', '.join(readers[:3])}). If equal weights were merged, use untie."
            for name, readers in self.merged
        ]
        split = [
            f"{a} and {b} are equal{' but transposed' if transposed else ''}. If they were one tied weight, use tie."
            for a, b, transposed in self.split
        ]
        if len(merged) > 1:
            each = ", ".join(f"{name} ({len(readers)})" for name, readers in self.merged[:3])
            more = f" and {len(merged) - 3} more" if len(merged) > 3 else ""
            merged = [
                f"{len(merged)} weights are read by several operators: {each}{more}. If equal weights were merged, use untie."
            ]
        if len(split) > 1:
            each = ", ".join(f"{a} and {b}" for a, b, _ in self.split[:2])
            more = f" and {len(split) - 2} more" if len(split) > 2 else ""
            split = [f"{len(split)} pairs of weights are equal: {each}{more}. If they were one tied weight each, use tie."]
        return merged + split


@checked
def find_ties(program: Program | Sequence[Parameter]) -> Ties:
    """Weights of a program, or of a list, that several operators read, and pairs of equal ones.

    Args:
        program: loaded or built.
    """
    parameters = program.parameters if isinstance(program, Program) else program
    readers = _readers(parameters)
    merged = [(p.name, [str(op) for op in readers[p]]) for p in parameters if len(readers[p]) > 1]
    seen: dict[str, str] = {}
    split = []
    for p in parameters:
        shape = p.static_shape
        if shape is None or int(np.prod(shape)) < 16:
            continue
        array = p.get_value()
        if np.all(array == array.reshape(-1)[0]):
            continue
        for one, transposed in ((array, False), (array.T, True)):
            if _digest(one) in seen:
                split.append((seen[_digest(one)], p.name, transposed))
                break
        seen.setdefault(_digest(array), p.name)
    return Ties(merged, split)


def _digest(array: np.ndarray[Any, Any]) -> str:
    return f"{array.shape} {array.dtype} {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}"


def _readers(parameters: Sequence[Parameter]) -> dict[Variable | None, list[Operator]]:
    """List the operators that read each parameter."""
    readers: dict[Variable | None, list[Operator]] = {p: [] for p in parameters}
    for program in {p.block.program: None for p in parameters}:
        for op in all_operators_of(program.global_block()):
            if DORA in (op.metadata or {}):  # norms of what other operators compute
                continue
            for v in dict.fromkeys(op.inputs):
                if v in readers:
                    readers[v].append(op)
    return readers


def _parameter(program: Program, name: str) -> Parameter:
    parameter = next((p for p in program.parameters if p.name == name), None)
    if parameter is None:
        raise UnknownName(f"the program has no weight {name!r}. See onnxgrad info.")
    return parameter


@checked
@all_or_nothing
def untie(program: Program, name: str) -> list[str]:
    """Give each operator that reads a weight its own copy; returns the names, the first being the old one.

    Args:
        program: changed in place.

    Raises:
        UnknownName: if there is no such weight.
        ArgumentError: if only one operator reads it.
    """
    p = _parameter(program, name)
    readers = _readers([p])[p]
    if len(readers) < 2:
        raise ArgumentError(f"untie: only {len(readers)} operator reads {name!r}. There is nothing to take apart.")
    names = [name]
    block = program.global_block()
    for op in readers[1:]:
        shape = p.static_shape
        assert shape is not None
        value = TensorValue.of(np.array(p.get_value()))
        copied = block.create_parameter(program.fresh_name(name), shape, p.dtype, p.trainable, value)
        copied.reason = p.reason
        op.inputs = [copied if v is p else v for v in op.inputs]
        names.append(copied.name)
    program.version += 1
    return names


@checked
@all_or_nothing
def tie(program: Program, kept: str, replaced: str) -> None:
    """Let everything that reads ``replaced`` read ``kept``, transposed if the shapes say so.

    Args:
        program: changed in place.
        kept: name of the weight that stays.
        replaced: name of the weight that goes, of equal numbers, transposed or not.

    Raises:
        UnknownName: if there is no such weight.
        ArgumentError: if the two are not equal, or one is defined inside a branch.
    """
    a, b = _parameter(program, kept), _parameter(program, replaced)
    x, y = a.get_value(), b.get_value()
    same, transposed = np.array_equal(x, y), x.ndim == 2 and np.array_equal(x.T, y)
    block = program.global_block()
    if a is b or not (same or transposed):
        raise ArgumentError(f"tie: {kept!r} and {replaced!r} hold different numbers, so they were not one weight.")
    if a.block is not block or b.block is not block or b.op is not None:
        raise ArgumentError(f"tie: {kept!r} and {replaced!r} must both be initializers of the main graph.")
    ops, block.ops = block.ops, []
    shared = a if same else block.build.Transpose(a, perm=[1, 0])
    block.ops += ops
    for op in all_operators_of(block):
        op.inputs = [shared if v is b else v for v in op.inputs]
    program.parameters = [p for p in program.parameters if p is not b]
    block.initializers = [v for v in block.initializers if v is not b]
    block.vars.pop(b.name, None)
    program.version += 1

"""Frozen weights as constants of a session: onnxruntime packs the second operand of a product once, and not in each run.

A session is right as long as its scope has the values that it was opened with. Whatever sets a value puts another object in its
place, so each run compares objects; where one is another, its content is compared once. A session holds the memory of its weights,
so that nobody writes over it.

Tests: tests/core/runtime/test_frozen_weights.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable, present_value
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.prepared import in_program, on_device
from onnxgrad.core.state.buffers import LOCK, Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_on, view_of

__all__ = ["MOST_BYTES", "HeldWeights", "frozen_weights"]

MOST_BYTES = COSTS.count("frozen_weights.most_bytes")
"""Of what onnxruntime packs in all sessions of a training step together, unless memory does not count."""
_SMALLEST = COSTS.count("frozen_weights.smallest")
_PRODUCTS = ("MatMul", "Gemm")
_BESIDE = ("Gather", "Shape")
"""Other operators that may read such a weight: of them onnxruntime computes nothing when it opens a session."""


def frozen_weights(program: Program, room: int | None) -> list[Variable]:
    """List the weights that products of a training step read and no run replaces, without the larger ones that take too much.

    They are float32 matrices, of which nothing else is computed, so that no other copies are folded when a session is opened. None
    where the program trains nothing: what an evaluation reads may be trained between any two of its runs.

    Args:
        program: any program.
        room: the bytes that onnxruntime may pack of them, once for each product that reads one; None for any number.
    """
    packed = _packed_bytes(program)
    by_size = sorted(packed, key=lambda v: packed[v])
    sums = accumulate(packed[v] for v in by_size)
    return [v for v, total in zip(by_size, sums, strict=True) if room is None or total <= room]


def _packed_bytes(program: Program) -> dict[Variable, int]:
    """The bytes that onnxruntime packs of each weight that a session may hold"""
    if not program.updates:
        return {}
    ops = program.global_block().ops
    packed: dict[Variable, int] = {}
    turned: dict[Variable, Variable] = {}
    refused: set[Variable] = set()
    for op in ops:
        for at, v in _reads(op):
            if v.op is None and v.persistable and v not in program.updates and _is_matrix(v):
                if _is(op, "Transpose"):
                    turned[op.outputs[0]] = v  # type: ignore[index]
                elif at is not None and _is(op, *_PRODUCTS):
                    packed[v] = packed.get(v, 0) + (at == 1)
                elif not _is(op, *_BESIDE):
                    refused.add(v)
    for op in ops if turned else ():
        for at, v in _reads(op):
            if v in turned:
                if at is not None and _is(op, *_PRODUCTS):
                    packed[turned[v]] = packed.get(turned[v], 0) + (at == 1)
                else:
                    refused.add(turned[v])
    return {v: count * 4 * prod(v.static_shape or ()) for v, count in packed.items() if count and v not in refused}


def _reads(op: Operator) -> Iterable[tuple[int | None, Variable]]:
    """The variables that an operator reads, and where; None for those that its bodies read"""
    own = set()
    for at, v in enumerate(op.inputs):
        if v is not None:
            own.add(v)
            yield at, v
    yield from ((None, v) for v in op.operands() if v is not None and v not in own)


def _is(op: Operator, *types: str) -> bool:
    return op.domain in ("", "ai.onnx") and op.type in types


def _is_matrix(v: Variable) -> bool:
    shape = v.static_shape
    return shape is not None and len(shape) == 2 and v.dtype.name == "float32" and prod(shape) >= _SMALLEST


class HeldWeights:
    """The values of frozen weights that a session holds, as they are in a scope; its lock is held by whoever calls.

    Args:
        scope: that has them.
        weights: the variables.
        place: where the session runs: the CPU.

    Raises:
        NotInitialized: if one has no value.
    """

    def __init__(self, scope: Scope, weights: Iterable[Variable], place: Place) -> None:
        self._held = [(v, _held_buffer(scope, v, place)) for v in weights]
        weakref.finalize(self, _release, [buffer.hold() for _, buffer in self._held]).atexit = False

    def values(self) -> dict[str, Any]:
        """OrtValues by name, on the memory of the scope's: onnxruntime takes none whose memory is its own."""
        return {v.name: value_on(view_of(buffer.value)) for v, buffer in self._held}

    def are_in(self, scope: Scope) -> bool:
        """Whether a scope has these values. Where it has others of the same content, it gets these in their place.

        Args:
            scope: the one of the next run.
        """
        present = scope.all_present()
        return all(present.get(v.name) is buffer or _takes(scope, v, buffer) for v, buffer in self._held)


def _held_buffer(scope: Scope, v: Variable, place: Place) -> Buffer:
    """The value in main memory; a constant of the program lies where the program has it"""
    if scope.present(v.name) is None and v.value is not None:
        array = v.value.numpy()
        if array.flags.c_contiguous:
            return in_program(scope, v, array, place)
    return on_device(scope, v, place)


def _takes(scope: Scope, v: Variable, buffer: Buffer) -> bool:
    """Whether the present value has this content; it is then this one"""
    stored = scope.present(v.name)
    if stored is None and v.value is not None and buffer.origin is v.value:
        is_equal = True
    else:
        with scope.viewed(v.name) as array:
            ours, theirs = view_of(buffer.value), present_value(scope, v) if array is None else array
            is_equal = ours.dtype == theirs.dtype and ours.shape == theirs.shape and bool((_bits(ours) == _bits(theirs)).all())
    if is_equal:
        scope.put(v.name, buffer)
    return is_equal


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers that are equal where the content is, as NaN is not"""
    return np.ascontiguousarray(array).view(np.uint32)


def _release(buffers: list[Buffer]) -> None:
    with LOCK:
        for buffer in buffers:
            buffer._holds -= 1

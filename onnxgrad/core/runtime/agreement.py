"""Compare what a training step computes with what onnxruntime computes of the file that it was made from.

onnxruntime chooses kernels by the operators around one, by Casts that it puts in, and by what is stored: the same operator may give
other numbers in a training step than in the file, and no error says so. So one row goes through both before the first step.

Tests: tests/core/runtime/test_agreement.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.compile import compile
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.plan import Turn
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of, needed_operators
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.session import open_graph
from onnxgrad.core.runtime.session_cache import SessionCache
from onnxgrad.core.state.values import array_of, value_of
from onnxgrad.errors import OnnxGradError

__all__ = ["Difference", "first_difference"]

Array = np.ndarray[Any, Any]
_RANDOM = {"BatchNormalization", "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
_RANDOM |= {"RandomUniformLike"}
_LIMITS = {"float32": 1e-3, "float64": 1e-3, "float16": 0.05, "bfloat16": 0.1}
_COARSE = 0.25
"""Of files that round activations to 8 bits: a step may leave that out, and layers behind one another add up what it costs."""


class Difference(NamedTuple):
    """A tensor that a training step computes otherwise than the file: its name, the operator, and the norm of the difference
    over that of the tensor."""

    name: str
    operator: str
    share: float


def first_difference(
    program: Program, file: Program, outputs: Sequence[str], feed: Mapping[str, Array], executor: Executor
) -> Difference | None:
    """Find the first tensor of a training step that is not what the file gives; None if its outputs agree, or cannot be compared.

    They are compared for programs with operators of onnxruntime, on the CPU, if nothing in them is random and onnxruntime runs
    the file as it is. No state changes.

    Args:
        program: a training step.
        file: the same for inference, as it would be exported.
        outputs: names of what is compared.
        feed: one row, with the targets.
        executor: that is going to run the step.
    """
    ops = list(all_operators_of(file.global_block()))
    if executor.place.lowering != "cpu" or not any(op.domain == CONTRIB_DOMAIN for op in ops):
        return None
    if any(op.type in _RANDOM for op in all_operators_of(program.global_block())):
        return None
    limit = _limit(ops)
    comparison = _Comparison(program, file, feed, executor)
    try:
        if all(comparison.share(name) <= limit for name in outputs):
            return None
        wanted = [v for v in file.outputs if v.name in outputs]
        names = [
            v.name for op in needed_operators(file.global_block().ops, wanted) for v in op.outputs if v is not None and v.is_float
        ]
        names = [name for name in names if comparison.has(name)]
        low, high = 0, len(names) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if comparison.share(names[middle]) > limit else (middle + 1, high)
        share = comparison.share(names[high])
    except _NotComparable:
        return None
    return Difference(names[high], str(file.global_block().vars[names[high]].op), share)


def _limit(ops: Sequence[Any]) -> float:
    """The share by which two ways to round may differ"""
    if any(op.attrs.get("accuracy_level") == 4 or op.type in ("DynamicQuantizeLinear", "QuantizeLinear") for op in ops):
        return _COARSE
    types = {v.dtype.name for op in ops for v in op.outputs if v is not None and isinstance(v.type, TensorType)}
    return max((_LIMITS[name] for name in types if name in _LIMITS), default=_COARSE)


class _NotComparable(Exception):
    """One of the two does not run on this row, or its results are not finite."""


class _Comparison:
    def __init__(self, program: Program, file: Program, feed: Mapping[str, Array], executor: Executor) -> None:
        self.program, self.file, self.feed = program, file, dict(feed)
        self.executor = copy(executor)
        sessions = executor._sessions
        self.sessions = (sessions.saved, 0, sessions.fast, None)

    def has(self, name: str) -> bool:
        """Whether the step computes a tensor of the file, in its main graph"""
        found = self.program.global_block().vars.get(name)
        return found is not None and found.op is not None and name in self.file.global_block().vars

    def share(self, name: str) -> float:
        try:
            wanted, given = self._in_file(name), self._in_step(name)
        except OnnxGradError as error:
            raise _NotComparable from error
        if wanted.shape != given.shape or not np.isfinite(wanted).all():
            raise _NotComparable
        norm = float(np.linalg.norm(wanted))
        return float(np.linalg.norm(given - wanted)) / norm if norm else float(np.abs(given).max(initial=0.0))

    def _in_file(self, name: str) -> Array:
        """The value of a tensor as onnxruntime computes the file, in no form of ours"""
        graph = compile(self.file, [self.file.global_block().vars[name]])
        session = open_graph(graph, self.executor.place, self.executor.threads, is_training=False, runs_once=True)
        feeds = {v.name: value_of(np.asarray(self.feed[v.name])) for v in graph.inputs if v.name in self.feed}
        try:
            (value,) = session.run_with_ort_values([graph.outputs[0][0]], feeds)
        except Exception as error:  # onnxruntime's own, of an operator that the CPU has no kernel for
            raise _NotComparable from error
        return np.asarray(array_of(value), np.float64)

    def _in_step(self, name: str) -> Array:
        """The value that a run of the step computes, whose new state is dropped"""
        self.executor._sessions = SessionCache(*self.sessions, runs_once=True)
        fetches: list[Variable] = [self.program.global_block().vars[name]]
        scope = self.program.active_scope().copy()
        turn: Turn = "whole" if self.program.plan.accumulation is None else "run"
        (value,) = self.executor._compute(self.program, self.feed, fetches, scope, True, turn)
        return np.asarray(value, np.float64)

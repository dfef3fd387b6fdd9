"""A teacher: a larger model whose answers are targets beside the labels (Hinton, Vinyals and Dean, 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.internal.losses import bounded_logistic
from onnxgrad.training.data.rows import Batch
from onnxgrad.training.losses.terms import Term, output_of
from onnxgrad.training.surgery.activations import Activation

__all__ = ["COLUMN", "Distillation", "Teacher"]

COLUMN = "teacher"
"""Name of the column that holds what the teacher says."""
_LOSSES = ("cross_entropy", "bce_with_logits", "causal_lm")


class Distillation(NamedTuple):
    """Settings of a teacher: the labels have the weight 1 - ``weight`` in the loss, the teacher's probabilities ``weight``, at
    ``temperature`` T, times T^2."""

    model: Any
    temperature: float = 2.0
    weight: float = 0.5
    output: str | None = None


class Teacher:
    """The teacher of a trainer.

    Args:
        given: a ``Distillation``, or a model with its defaults.
        program: of the student, before its loss is attached.
        terms: of the student's loss.
        place, threads: of the executor.

    Raises:
        ArgumentError: if the loss is not one of classes, the teacher wants other inputs, or a number is out of range.
    """

    def __init__(self, given: Any, program: Program, terms: Sequence[Term], place: Any, threads: int | None) -> None:
        distillation = given if isinstance(given, Distillation) else Distillation(given)
        if not 0 < distillation.temperature < np.inf or not 0 < distillation.weight <= 1:
            settings = f"temperature {distillation.temperature} and weight {distillation.weight}"
            raise ArgumentError(f"a teacher has a temperature above 0 and a weight above 0 and up to 1, not {settings}.")
        if len(terms) != 1 or not isinstance(terms[0].loss, str) or terms[0].loss not in _LOSSES:
            raise ArgumentError(f"a teacher stands beside one loss of {', '.join(_LOSSES)}. Leave it out, or choose one of these.")
        self.temperature, self.weight = float(distillation.temperature), float(distillation.weight)
        self.program = distillation.model if isinstance(distillation.model, Program) else from_onnx(distillation.model)
        own = {v.name for v in program.inputs}
        missing = [v.name for v in self.program.inputs if v.name not in own]
        if missing:
            raise ArgumentError(f"the teacher reads the input {missing[0]!r}; the model has {sorted(own)}. Rename it in its file.")
        self.output = output_of(self.program, distillation.output, [])
        self.executor = Executor(place, threads=threads)
        self._activation = Activation(self.output).kind
        self._binary = terms[0].loss == "bce_with_logits"
        base = terms[0]
        student = output_of(program, base.output, [])
        if student.rank is not None and self.output.rank is not None and student.rank != self.output.rank:
            raise ArgumentError(
                f"the teacher has the output {self.output!r}, the model {student!r}. Name the output of the teacher."
            )
        self._axis = -1 if student.rank in (None, 2) or base.loss == "causal_lm" or base.layout == "NTC" else 1
        base.weight *= 1 - self.weight
        self.term = Term(self._loss, base.output, COLUMN, self.weight, dtype="float32", shape=student.dims)

    def _loss(self, output: Variable, target: Variable) -> Variable:
        """T^2 times the divergence of softmax(student / T) from softmax(teacher / T), or of sigmoids; its mean over examples"""
        op, activation, t = Builder(output.block, key="distilled"), Activation(output), self.temperature
        x = activation.logits(op) if activation.kind in ("Softmax", "LogSoftmax", "Sigmoid") else output
        x = x if x.dtype == target.dtype else op.Cast(x, to=target.dtype.number)
        if self._binary:
            p = op.Sigmoid(op.Div(target, t))
            loss: Variable = op.Mul(op.ReduceMean(bounded_logistic(op, op.Div(x, t), p), keepdims=0), t * t)
            return loss
        wanted = op.LogSoftmax(op.Div(target, t), axis=self._axis)
        log_q = op.LogSoftmax(op.Div(x, t), axis=self._axis)
        each = op.ReduceSum(op.Mul(op.Exp(wanted), op.Sub(wanted, log_q)), axes=[self._axis], keepdims=0)
        return op.Mul(op.ReduceMean(each, keepdims=0), t * t)

    def answer(self, feed: Batch, dims: Sequence[Any] | None) -> np.ndarray[Any, Any]:
        """Return the logits of the teacher for a batch.

        Raises:
            DataError: if that has not the shape of the model's output.
        """
        own = {v.name: feed[v.name] for v in self.program.inputs}
        (logits,) = self.executor.run(self.program, own, [self.output.name])
        y = np.asarray(logits, np.float32)
        if self._activation == "Softmax":
            y = np.log(np.maximum(y, 1e-30))
        elif self._activation == "Sigmoid":
            y = np.clip(y, 1e-7, 1 - 1e-7)
            y = np.log(y) - np.log1p(-y)
        fits = dims is None or (
            len(dims) == y.ndim and all(not isinstance(want, int) or want == have for want, have in zip(dims, y.shape, strict=True))
        )
        if not fits:
            raise DataError(f"the teacher's {self.output.name!r} has shape {list(y.shape)}, the model gives {list(dims or ())}.")
        return y

"""Find how the losses of the parts of a batch add up to the loss of the whole batch: as a mean by weights, or as a sum.

Tests: tests/distributed/test_sharded.py, tests/core/step/test_split.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.traverse import dependent_operators
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["LossWeight", "loss_of", "loss_weight_of"]

_LINEAR = VIEWS | {"Cast", "Neg"}
_SUMS = ("Add", "Sub", "Sum")


@dataclass(frozen=True)
class LossWeight:
    """The weight of a part's loss in the loss of the whole batch.

    Attributes:
        reduction: ``"mean"`` or ``"sum"``; ``"none"`` for what does not depend on the data, such as a penalty of the weights.
        weight: with ``"mean"``, what the sum over the part was divided by, a scalar.
        measure: two weights with equal measures are in proportion.
    """

    reduction: str
    weight: Variable | None = None
    measure: Any = None


_SUM, _NONE = LossWeight("sum"), LossWeight("none")


def loss_of(program: Program, fetched: Sequence[Variable]) -> Variable:
    """The loss that an optimizer minimizes: what a backward pass begins with, else the one scalar that is fetched.

    Raises:
        ArgumentError: if several may be it, or none.
    """
    variables = program.global_block().vars
    produced = [v for op in program.global_block().ops if op.role is Role.FORWARD for v in op.outputs if v is not None]
    seeds = {v: variables.get(v.grad_name) for v in produced}
    candidates = [v for v, seed in seeds.items() if seed is not None and seed.op is None and seed.value is not None]
    candidates = candidates or [v for v in fetched if v.is_float and v.static_shape in ((), (1,))]
    if len(candidates) != 1:
        raise ArgumentError(f"{len(candidates)} variables may be the loss of this program. Say which by loss=.")
    return candidates[0]


def loss_weight_of(loss: Variable, build: Builder) -> LossWeight:
    """How the losses of parts add up: the whole is ``sum(weight * loss) / sum(weight)`` or ``sum(loss)``, and so are its gradients.

    Args:
        loss: of a program that may be changed: the weight is computed by operators appended to it.

    Raises:
        ArgumentError: if the formula of the loss does not say.
    """
    weighting = _Formula(loss, build).weighting(loss)
    if weighting.reduction == "none":
        raise _refusal(loss, f"{loss.name} does not depend on the data")
    return weighting


def _refusal(v: Variable, reason: str) -> ArgumentError:
    advice = "Make the loss a mean or a sum over examples, or say by loss_weight= what it was divided by (a variable, or 'sum')"
    return ArgumentError(f"how the losses of parts of a batch add up is not known: {reason}. {advice}.")


class _Formula:
    """The operators between a program's inputs and its loss."""

    def __init__(self, loss: Variable, build: Builder) -> None:
        self.build = build
        main = loss.block.program.global_block()
        self.data = self._reached(main.ops, [v for v in main.inputs if v.value is None and not v.persistable])
        self.trained = self._reached(main.ops, [p for p in loss.block.program.parameters if not p.stop_gradient])

    @staticmethod
    def _reached(operators: list[Operator], sources: list[Variable]) -> set[Variable]:
        dependents = {v for op in dependent_operators(operators, sources) for v in op.outputs if v is not None}
        return dependents | set(sources)

    def weighting(self, v: Variable) -> LossWeight:
        op = v.op
        if v not in self.data:
            return _NONE
        if op is None or op.domain:
            raise _refusal(v, f"{v.name} is the result of no operator that is known")
        operands = [x for x in op.inputs if x is not None]
        if op.type in _LINEAR:
            return self.weighting(operands[0])
        if op.type in _SUMS:
            return self._together(v, [self.weighting(x) for x in operands])
        if op.type in ("Mul", "Div"):
            return self._scaled(v, op, operands)
        if op.type in ("ReduceSum", "ReduceMean") and v.static_shape is not None and all(n == 1 for n in v.static_shape):
            return _SUM if op.type == "ReduceSum" else self._mean(operands[0])
        if op.type in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss") and op.outputs[0] is v:
            return self._labelled(v, op)
        raise _refusal(v, f"{v.name} comes from {op.type}")

    def _together(self, v: Variable, parts: list[LossWeight]) -> LossWeight:
        """Return the weighting of a sum: a term without data is a mean, but would count once per part in a sum"""
        reductions = {part.reduction for part in parts}
        if reductions == {"sum", "none"}:
            raise _refusal(v, f"in {v.name} a sum over examples meets a term that does not depend on them")
        means = [part for part in parts if part.reduction == "mean"]
        if reductions <= {"mean", "none"} and len({part.measure for part in means}) == 1:
            return means[0]
        if reductions == {"sum"}:
            return _SUM
        raise _refusal(v, f"the terms of {v.name} are divided by different numbers")

    def _scaled(self, v: Variable, op: Operator, operands: list[Variable]) -> LossWeight:
        dependent = [x for x in operands if x in self.data]
        if len(dependent) == 1 and (op.type == "Mul" or dependent[0] is operands[0]):
            return self.weighting(dependent[0])
        if op.type == "Div" and len(dependent) == 2 and operands[1] not in self.trained:
            weight = _at_least_one(operands[1])
            if self.weighting(operands[0]).reduction == "sum" and weight.static_shape in ((), (1,)):
                return LossWeight("mean", self.build.Reshape(weight, []), weight)
        raise _refusal(v, f"{v.name} is a {'product' if op.type == 'Mul' else 'quotient'} of what depends on the data")

    def _mean(self, x: Variable) -> LossWeight:
        """A mean over elements, or of means over some axes, which is the same"""
        while x.op is not None and x.op.type == "ReduceMean" and not x.op.domain and x.op.inputs[0] is not None:
            x = x.op.inputs[0]
        free = None if x.dims is None else tuple(sorted(str(d) for d in x.dims if not isinstance(d, int)))
        if x.static_shape is not None and any(not isinstance(d, int) for v in x.block.program.inputs for d in v.dims or (None,)):
            raise _refusal(x, f"{x.name} has the shape {list(x.static_shape)}, however large the batch is")
        return LossWeight("mean", self.build.Cast(self._size(x), to=1), x if free is None or None in (x.dims or ()) else free)

    def _size(self, x: Variable) -> Variable:
        """The number of elements of x, by the shapes of what is fed where these say it: so it is known before x is"""
        build = self.build
        fed = {d: (v, axis) for v in x.block.program.inputs for axis, d in enumerate(v.dims or ()) if isinstance(d, str)}
        if x.dims is None or not all(isinstance(d, int) or d in fed for d in x.dims):
            return build.Size(x)
        size = build.constant(prod(d for d in x.dims if isinstance(d, int)))
        for v, axis in (fed[d] for d in x.dims if isinstance(d, str)):
            size = build.Mul(size, build.Squeeze(build.Shape(v, start=axis, end=axis + 1), [0]))
        return size

    def _labelled(self, v: Variable, op: Operator) -> LossWeight:
        reduction, ignored = op.attr("reduction") or "mean", op.attr("ignore_index")
        if reduction != "mean":
            return _SUM if reduction == "sum" else self._refuse_rows(v)
        build, labels, weights = self.build, op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
        assert labels is not None
        if weights is None and ignored is None:
            return self._mean(labels)
        if weights is not None and weights in self.trained:
            raise _refusal(v, f"the weights of the classes, {weights.name}, are trained")
        kept = None if ignored is None else build.Not(build.Equal(labels, build.constant(ignored, labels.dtype)))
        if weights is None:
            return LossWeight("mean", build.ReduceSum(build.Cast(kept, to=1), keepdims=0), (labels, ignored))
        safe = labels if kept is None else build.Where(kept, labels, build.constant(0, labels.dtype))
        each = build.Cast(build.Gather(weights, safe), to=1)
        counted = each if kept is None else build.Mul(each, build.Cast(kept, to=1))
        return LossWeight("mean", build.ReduceSum(counted, keepdims=0), (labels, ignored, weights))

    @staticmethod
    def _refuse_rows(v: Variable) -> LossWeight:
        raise _refusal(v, f"{v.name} has a loss for each row")


def _at_least_one(weight: Variable) -> Variable:
    """Find a divisor before it is kept from being 0: the sum is 0 there as well, and such a part is to count for nothing"""
    op = weight.op
    if op is not None and op.type == "Where" and op.inputs[0] is not None and op.inputs[2] is not None:
        test = op.inputs[0].op
        if test is not None and test.type == "Equal" and any(v is op.inputs[2] for v in test.inputs):
            return op.inputs[2]
    if op is not None and op.type in ("Max", "Clip") and op.inputs[0] is not None:
        known = [v for v in op.inputs if v is not None and v.value is None]
        return known[0] if len(known) == 1 else weight
    return weight

"""Read the terms of a loss from its formula: how the losses of the parts of a batch add up to that of the whole batch.

Parts are those of ranks, or the micro-batches of an update. A term is a sum over examples, or such a sum divided by a weight: the
number of examples, of labels that count, or the sum of their weights. Sums and weights of parts add up; quotients do not.

Tests: tests/core/step/test_loss_terms.py, tests/distributed/test_sharded.py, tests/core/step/test_split.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.examples import check_separate
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.plan import LossTerm
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.traverse import dependent_operators, needed_operators
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.step.gather import Gather
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError

__all__ = ["PART_WEIGHT", "check_from_data", "counts_examples", "loss_of", "loss_of_part", "loss_terms", "only_term"]

PART_WEIGHT = "loss_part"
"""The beginning of the names of the inputs of ``loss_of_part``."""

_LINEAR = VIEWS | {"Cast", "Neg"}
_SUMS = ("Add", "Sub", "Sum")
_SUM, _MEAN, _NONE = "sum", "mean", "none"
_PARTS = "A batch that is cut into parts, by ranks or micro-batches,"
_WHOLE = (
    "Compute it from each example alone, or keep the batch whole: micro-batches are not gathered, as later ones are not known when "
    "the first goes back; the parts of a Trainer's ranks are, with accumulate=1"
)
_ALIKE = "each part alike"
"""The measure of a term that does not depend on the data, beside sums: in their mean each part counts alike."""


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
        raise ArgumentError(f"{len(candidates)} variables may be the loss of this program. Choose one by loss=.")
    return candidates[0]


def loss_terms(
    loss: Variable, build: Builder, *, of_parts: bool = False, checks: bool = False, gather: Gather | None = None
) -> list[LossTerm]:
    """The terms of a loss, those with one measure as one: the loss is their sum.

    A term that does not depend on the data, such as a penalty of the weights, counts as a mean like any other.

    Args:
        loss: of a program that may be changed: weights, and terms beside others, are computed by operators appended to it.
        of_parts: whether a backward pass of the terms follows, for parts of a batch in which nothing may count: their values and
            gradients are then 0 there, and not 0 / 0.
        checks: whether a loss is refused in which examples depend on each other, as it is ``of_parts``.
        gather: what gathers examples of parts where terms let them depend on each other, or are no sum or mean of theirs. Such a
            term is a sum over parts.

    Raises:
        ArgumentError: if the formula of the loss does not say; naming the operator by which an example depends on others.
    """
    formula = _Formula(loss, build, of_parts, gather)
    leaves = formula.leaves(loss)
    if (of_parts or checks) and gather is None:
        formula.check_separate()
    constant = [leaf for leaf in leaves if leaf.term.reduction == _NONE]
    groups: dict[Any, list[_Leaf]] = {}
    for leaf in leaves:
        if leaf.term.reduction != _NONE:
            groups.setdefault((leaf.term.reduction, leaf.term.measure), []).append(leaf)
    if not groups:
        raise _refusal(loss, f"{loss.name} does not depend on the data")
    means = next((members for (reduction, _), members in groups.items() if reduction == _MEAN), None)
    if means is not None:
        means.extend(constant)
    elif constant:
        alike = [replace(leaf.term, reduction=_MEAN, weight=build.constant(1.0), measure=_ALIKE) for leaf in constant]
        groups[_MEAN, _ALIKE] = [leaf._replace(term=term) for leaf, term in zip(constant, alike, strict=True)]
    if len(groups) == 1 and not formula.is_rewritten:
        (members,) = groups.values()
        return [replace(members[0].term, value=loss)]
    return [replace(members[0].term, value=formula.total(members)) for members in groups.values()]


def only_term(loss: Variable, loss_weight: Variable | str | None, build: Builder) -> LossTerm:
    """The one term of a loss: the whole is ``sum(weight * loss) / sum(weight)`` or ``sum(loss)``, and so are its gradients.

    Args:
        loss: as for ``loss_terms``.
        loss_weight: what the loss divides a sum over examples by, a scalar; ``"sum"`` if by nothing; None to read the formula.

    Raises:
        ArgumentError: if the formula of the loss does not say, or has several terms.
    """
    if isinstance(loss_weight, Variable):
        return LossTerm(loss, _MEAN, loss_weight)
    if loss_weight == _SUM:
        return LossTerm(loss, _SUM)
    if loss_weight is not None:
        raise ArgumentError(f"loss_weight is a variable, 'sum' or None, not {loss_weight!r}.")
    first, *others = loss_terms(loss, build, checks=True)
    if others:
        reason = f"the terms of {loss.name} are divided by different numbers"
        if any(term.measure is _ALIKE for term in (first, *others)):
            reason = f"in {loss.name} a sum over examples meets a term that does not depend on them"
        raise _refusal(loss, reason)
    return first


def counts_examples(term: LossTerm) -> bool:
    """Return whether the weight of a term is in proportion to the number of examples that are fed."""
    if term.weight is None or isinstance(term.measure, str):
        return True
    return isinstance(term.measure, tuple) and len(term.measure) <= 1


def check_from_data(term: LossTerm) -> None:
    """Raise ArgumentError if the weight of a term is computed by the model, so that it is not known before its forward pass."""
    if term.weight is None:
        return
    operators = needed_operators(term.weight.block.program.global_block().ops, [term.weight])
    read = {v for op in operators for v in op.operands() if v is not None}
    state = next((v for v in read if v.persistable), None)
    if state is not None:
        raise _refusal(term.weight, f"the loss is divided by {term.weight.name}, which the model computes ({state.name})")


def _refusal(v: Variable, reason: str) -> ArgumentError:
    advice = "Make the loss a mean or a sum over examples, or pass its divisor as loss_weight= (a variable, or 'sum')"
    return ArgumentError(f"how the losses of parts of a batch add up is not known: {reason}. {advice}.")


class _Leaf(NamedTuple):
    """A term where it stands in the formula, and the operators between it and the loss, each with the operand that leads to it."""

    term: LossTerm
    path: tuple[tuple[Operator, int], ...]


class _Formula:
    """The operators between a program's inputs and its loss."""

    def __init__(self, loss: Variable, build: Builder, of_parts: bool, gather: Gather | None = None) -> None:
        self.build, self.of_parts, self.gather = build, of_parts, gather
        self.loss, self.program = loss, loss.block.program
        self.is_rewritten = False
        """Whether the value of a term is not the one that stands in the program."""
        self.rows: list[Variable] = []
        """What the terms add up over examples."""
        main = loss.block.program.global_block()
        self.data = self._reached(main.ops, [v for v in main.inputs if v.value is None and not v.persistable])
        self.trained = self._reached(main.ops, [p for p in loss.block.program.parameters if not p.stop_gradient])

    @staticmethod
    def _reached(operators: list[Operator], sources: list[Variable]) -> set[Variable]:
        dependents = {v for op in dependent_operators(operators, sources) for v in op.outputs if v is not None}
        return dependents | set(sources)

    def leaves(self, v: Variable, path: tuple[tuple[Operator, int], ...] = ()) -> list[_Leaf]:
        """The terms that ``v`` is the sum of, up to signs and factors that do not depend on the data"""
        op = v.op
        if v not in self.data:
            return [_Leaf(LossTerm(v, _NONE), path)]
        if op is None or op.domain:
            raise _refusal(v, f"{v.name} is the result of no operator that is known")
        operands = [x for x in op.inputs if x is not None]
        if op.type in _LINEAR:
            return self.leaves(operands[0], ((op, 0), *path))
        if op.type in _SUMS:
            return [leaf for i, x in enumerate(operands) for leaf in self.leaves(x, ((op, i), *path))]
        if op.type in ("Mul", "Div"):
            return self._scaled(v, op, operands, path)
        if op.type in ("ReduceSum", "ReduceMean") and v.static_shape is not None and all(n == 1 for n in v.static_shape):
            mean = op.type == "ReduceMean"
            return [self._leaf(v, [operands[0]], path, lambda: self._mean(v, operands[0]) if mean else LossTerm(v, _SUM))]
        if op.type in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss") and op.outputs[0] is v:
            return [self._leaf(v, operands, path, lambda: self._labelled(v, op))]
        return [self._unread(v, path, f"{v.name} comes from {op.type}")]

    def _leaf(
        self, v: Variable, rows: list[Variable], path: tuple[tuple[Operator, int], ...], read: Callable[[], LossTerm]
    ) -> _Leaf:
        """A term that adds up rows of examples; gathered where these meet before"""
        if self.gather is not None and any(self.gather.meets(x) for x in rows):
            return self._gathered(v, path)
        self.rows += rows
        return _Leaf(read(), path)

    def _unread(self, v: Variable, path: tuple[tuple[Operator, int], ...], reason: str) -> _Leaf:
        """A term whose formula is not known; it is that of the whole batch where its rows can be gathered"""
        if self.gather is None:
            raise _refusal(v, reason)
        return self._gathered(v, path)

    def _gathered(self, v: Variable, path: tuple[tuple[Operator, int], ...]) -> _Leaf:
        assert self.gather is not None
        if v.static_shape not in ((), (1,)):
            raise _refusal(v, f"{v.name} is not a single number")
        self.is_rewritten = True
        return _Leaf(LossTerm(self.gather.loss(v), _SUM), path)

    def _scaled(self, v: Variable, op: Operator, operands: list[Variable], path: tuple[tuple[Operator, int], ...]) -> list[_Leaf]:
        dependent = [x for x in operands if x in self.data]
        if len(dependent) == 1 and (op.type == "Mul" or dependent[0] is operands[0]):
            position = next(i for i, x in enumerate(operands) if x is dependent[0])
            return self.leaves(dependent[0], ((op, position), *path))
        if op.type == "Div" and len(dependent) == 2 and operands[1] not in self.trained:
            weight = _at_least_one(operands[1])
            numerator = _Formula(operands[0], self.build, self.of_parts)
            if self._is_sum(numerator) and weight.static_shape in ((), (1,)):

                def quotient() -> LossTerm:
                    value = self._quotient(operands[0], weight) if self.of_parts and weight is operands[1] else v
                    return LossTerm(value, _MEAN, self.build.Reshape(weight, []), weight)

                return [self._leaf(v, [*numerator.rows, weight], path, quotient)]
        return [
            self._unread(
                v, path, f"{v.name} is a {'product' if op.type == 'Mul' else 'quotient'} of values that depend on the data"
            )
        ]

    def _is_sum(self, numerator: _Formula) -> bool:
        """Whether a formula is a plain sum over examples"""
        try:
            return {leaf.term.reduction for leaf in numerator.leaves(numerator.loss)} == {_SUM}
        except ArgumentError:
            if self.gather is None:
                raise
            return False

    def check_separate(self) -> None:
        """Refuse terms that add up what depends on several examples, by the operator that mixes them: of a part of the batch it is
        another value. BatchNormalization by statistics of its batch is judged by those who cut batches."""
        meeting = Gather(self.program, self.build)
        for v in self.rows:
            what = f"{_PARTS} (the loss {self.loss.name})"
            check_separate(meeting.examples, v, what, _WHOLE)
            if meeting.meets(v):
                raise ArgumentError(f"{what} needs rows that depend on no number of examples, but {meeting.meets(v)}. {_WHOLE}.")

    def _quotient(self, total: Variable, weight: Variable) -> Variable:
        """A sum over examples divided by its weight; 0 where nothing counts"""
        self.is_rewritten = True
        build = self.build
        quotient: Variable = build.Div(total, build.Where(build.Equal(weight, 0.0), 1.0, weight))
        return quotient

    def total(self, leaves: Sequence[_Leaf]) -> Variable:
        """The sum of some terms, each by the operators that lead from it to the loss"""
        values: list[Variable] = []
        for leaf in leaves:
            value = leaf.term.value
            for op, position in leaf.path:
                value = self._passed(op, position, value)
            values.append(self.build.Reshape(value, []))
        return values[0] if len(values) == 1 else self.build.Sum(*values)

    def _passed(self, op: Operator, position: int, value: Variable) -> Variable:
        """What an operator between a term and the loss makes of the term alone"""
        if op.type in _SUMS:
            negative: Variable = self.build.Neg(value)
            return negative if op.type == "Sub" and position == 1 else value
        operands = [x for x in op.inputs if x is not None]
        if op.type in ("Mul", "Div"):
            operands[position] = value
            scaled: Variable = self.build.emit(op.type, operands, {})
            return scaled
        if op.type in VIEWS:
            return value
        passed: Variable = self.build.emit(op.type, [value, *operands[1:]], op.attrs)
        return passed

    def _mean(self, v: Variable, x: Variable) -> LossTerm:
        """A mean over elements, or of means over some axes, which is the same"""
        while x.op is not None and x.op.type == "ReduceMean" and not x.op.domain and x.op.inputs[0] is not None:
            x = x.op.inputs[0]
        free = None if x.dims is None else tuple(sorted(str(d) for d in x.dims if not isinstance(d, int)))
        if x.static_shape is not None and any(not isinstance(d, int) for v in x.block.program.inputs for d in v.dims or (None,)):
            raise _refusal(x, f"{x.name} has the shape {list(x.static_shape)}, however large the batch is")
        return LossTerm(v, _MEAN, self.build.Cast(self._size(x), to=1), x if free is None or None in (x.dims or ()) else free)

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

    def _labelled(self, v: Variable, op: Operator) -> LossTerm:
        reduction, ignored = op.attr("reduction") or "mean", op.attr("ignore_index")
        if reduction != "mean":
            return LossTerm(v, _SUM) if reduction == "sum" else self._refuse_rows(v)
        build, labels, weights = self.build, op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
        assert labels is not None
        if weights is None and ignored is None:
            return self._mean(v, labels)
        if weights is not None and weights in self.trained:
            raise _refusal(v, f"the weights of the classes, {weights.name}, are trained")
        kept = None if ignored is None else build.Not(build.Equal(labels, build.constant(ignored, labels.dtype)))
        if weights is None:
            weight = build.ReduceSum(build.Cast(kept, to=1), keepdims=0)
        else:
            safe = labels if kept is None else build.Where(kept, labels, build.constant(0, labels.dtype))
            each = build.Cast(build.Gather(weights, safe), to=1)
            weight = build.ReduceSum(each if kept is None else build.Mul(each, build.Cast(kept, to=1)), keepdims=0)
        if self.of_parts:
            total = build.emit(op.type, list(op.inputs), {**op.attrs, "reduction": "sum"})
            v = self._quotient(total, build.Cast(weight, to=total.dtype.number))
        return LossTerm(v, _MEAN, weight, (labels, ignored) if weights is None else (labels, ignored, weights))

    @staticmethod
    def _refuse_rows(v: Variable) -> LossTerm:
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


def loss_of_part(terms: Sequence[LossTerm], build: Builder) -> tuple[Variable, dict[Variable, Variable]]:
    """What a part of a batch adds to the loss of the whole batch, so that losses and gradients of all parts simply add up.

    Args:
        terms: of the loss, ``of_parts``.

    Returns:
        The loss of the part, and for each input that it has got, a scalar of float32, the weight of the term: what is fed is that
        of the part over that of the whole batch.
    """
    block = build.block
    weights: dict[Variable, Variable] = {}
    values: list[Variable] = []
    for term in terms:
        value = build.Reshape(term.value, [])
        if term.weight is not None:
            name = block.program.fresh_name(f"{PART_WEIGHT}.{len(weights)}")
            part = block.register(Variable(block, name, TensorType(dtype_of("float32"), ())))
            block.inputs.append(part)
            weights[part] = term.weight
            value = build.Mul(value, build.Cast(part, to=value.dtype.number))
        values.append(value)
    return values[0] if len(values) == 1 else build.Sum(*values), weights

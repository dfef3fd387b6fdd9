"""Labels of losses that are no classes: a loss of NaN, and gradients of NaN, in place of those of another class.

ONNX leaves open what SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss make of them; onnxruntime takes -1 for the last class.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import FedLabel, Graph
from onnxgrad.core.graph.matching import is_zero, operand_of, producer_of
from onnxgrad.core.graph.order import in_order
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import LABEL_IN_RANGE, LABELS_IN_RANGE_OR_NAN, Origin, is_piece
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.traverse import needed_operators, substitute
from onnxgrad.core.ir.variable import Variable

__all__ = [
    "LABEL_RANGE",
    "LOSSES",
    "are_known_classes",
    "drop_guards_of_rules",
    "fed_label",
    "guard_labels",
    "has_labels",
    "inside_range",
]

LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
_LABELS = ("int32", "int64")


def guard_labels(graph: Graph, target: Target) -> int:
    """Guard the losses of a graph and of its bodies. Labels that are fed as they are, are noted where whoever feeds checks them.

    Rules guard the gradients of losses that they write. Where the loss is in the graph too, one guard does for both.
    """
    losses = [op for op in graph.operators if has_labels(op)]
    count = _guard_losses(graph, losses, target) if losses else 0
    count += sum(_guard_body(body) for op in graph.operators for body in op.blocks())
    if count:
        graph.take_constants()
    return count


def _guard_losses(graph: Graph, losses: list[Operator], target: Target) -> int:
    """Guard the losses of the main block, and return how many; what that changes elsewhere is done for all of them at once."""
    count, inputs = 0, set(graph.inputs)
    of_loss: dict[Variable, list[Operator]] = {}
    for op in graph.operators:
        if op.origin is not None and op.origin.of is not None:
            of_loss.setdefault(op.origin.of, []).append(op)
    read: dict[Variable, Variable] = {}
    staged: list[Operator] = []
    for op in losses:
        label, result = op.inputs[1], op.outputs[0]
        if label is None or _is_guarded(label, op) or are_known_classes(label, op.inputs[0], op.attr("ignore_index")):
            continue
        of_rule = of_loss.get(result, []) if result is not None else []
        fed = fed_label(op, inputs) if target.checks_labels else None
        if fed is not None:
            read |= _read_for_guards(_guards_of(of_rule, op, label))
            graph.labels.append(fed)
            continue
        guarded, stage = _guard(graph, op, label, of_rule)
        read |= guarded
        staged += stage
        count += 1
    substitute(graph.operators, {v: _last(read, v) for v in read})
    if staged:
        graph.operators = in_order([*graph.operators, *staged], graph.resolve)
    graph.operators = needed_operators(graph.operators, [v for _, v in graph.outputs])
    return count


def _last(read: dict[Variable, Variable], v: Variable) -> Variable:
    while v in read:
        v = read[v]
    return v


def has_labels(op: Operator) -> bool:
    """Return whether an operator is a loss of labels."""
    return op.type in LOSSES and not op.domain


LABEL_RANGE = Pass("label_range", guard_labels, when=lambda graph, target: not graph.is_whole)


def _classes(scores: Variable | None) -> int | None:
    dims = None if scores is None else scores.dims
    return dims[1] if dims is not None and len(dims) > 1 and isinstance(dims[1], int) else None


def are_known_classes(label: Variable, scores: Variable | None, ignored: int | None) -> bool:
    """Return whether labels are constants that are classes of these scores, or ignored."""
    classes = _classes(scores)
    if label.value is None or label.persistable or classes is None:
        return False
    values = label.value.numpy()
    return bool((((values >= 0) & (values < classes)) | (values == ignored)).all())


def fed_label(op: Operator, inputs: Set[Variable]) -> FedLabel | None:
    """The input that the labels of a loss are, in another shape or type at most; None where they are computed."""
    label, classes = op.inputs[1], _classes(op.inputs[0])
    while label is not None and label not in inputs:
        producer = label.op
        if producer is None or producer.domain or not (producer.type in VIEWS or _keeps_classes(producer)):
            return None
        label = producer.inputs[0]
    if label is None or classes is None or label.persistable or not label.dtype.is_integer:
        return None
    return FedLabel(label.name, classes, op.attr("ignore_index"))


def _keeps_classes(op: Operator) -> bool:
    """Return whether a Cast gives every class as it is; to uint8 it could make an ignored label of -1"""
    if op.type != "Cast" or op.inputs[0] is None or op.outputs[0] is None:
        return False
    return op.inputs[0].dtype.is_integer and op.outputs[0].dtype.name in _LABELS


# Writing ---------------------------------------------------------------------------------------------------------------


class _Guard(NamedTuple):
    """What guards a loss.

    Attributes:
        label: in range, 0 where it was not.
        nothing: 0, or NaN where a label is out of range: one number, or without a reduction one for each row.
    """

    label: Variable
    nothing: Variable


def _guard(graph: Graph, op: Operator, label: Variable, of_rule: list[Operator]) -> tuple[dict[Variable, Variable], list[Operator]]:
    """Guard a loss. Returns what is to be read for guards of its rule, and the operators to be put among the others."""
    old = op.outputs[0]
    assert old is not None
    key = f"{op.name or op.type}/range"
    build = stage_builder(graph, op, key)
    guard = _written(build, op, label)
    own = _own_result(graph.program.global_block(), op)
    op.inputs[1] = guard.label
    _return_as(old, build.Add(own, guard.nothing))
    name_results(graph, build.stage or [], key)
    read: dict[Variable, Variable] = {}
    for other in of_rule:
        assert other.origin is not None
        other.origin = other.origin._replace(of=own)
        if is_piece(other, LABEL_IN_RANGE) and other.outputs[0] is not None and _gives_in_range(other, label, op):
            read[other.outputs[0]] = guard.label
    return read, build.stage or []


def _written(build: Any, op: Operator, label: Variable) -> _Guard:
    scores, ignored = op.inputs[0], op.attr("ignore_index")
    assert scores is not None
    inside = inside_range(build, label, scores, ignored)
    safe = build.Where(inside, label, np.zeros((), label.dtype.numpy))
    safe.op.origin = Origin(op.type, LABEL_IN_RANGE, op.outputs[0])
    number = scores.dtype.numpy
    nothing = build.Where(inside, np.zeros((), number), np.full((), np.nan, number))
    return _Guard(safe, nothing if op.attr("reduction") == "none" else build.ReduceSum(nothing, keepdims=0))


def inside_range(build: Any, label: Variable, scores: Variable, ignored: int | None) -> Variable:
    """Whether each label is a class of these scores, along axis 1, or the one that does not count.

    It is written by operators that every provider has: no Or and no Xor, which WebGPU lacks.
    """
    classes, kind = _classes(scores), label.dtype.numpy
    zero = np.zeros((), kind)
    count: Any = np.array(classes, kind) if classes is not None else None
    if count is None:
        count = build.Cast(build.Gather(build.Shape(scores), np.array(1)), to=label.dtype.number)
    counted = label if ignored is None else build.Where(build.Equal(label, np.array(ignored, kind)), zero, label)
    inside: Variable = build.Less(build.Where(build.Less(counted, zero), count, counted), count)
    return inside


_READ = {LABEL_IN_RANGE: 1, LABELS_IN_RANGE_OR_NAN: 0}
"""The operand that a guard of a rule gives where all labels are in range."""


def drop_guards_of_rules(operators: Sequence[Operator]) -> None:
    """Let gradients of losses read labels that somebody checks, and the gradients of losses, as they are.

    Args:
        operators: of a block, as rules wrote them.
    """
    read = _read_for_guards([op for op in operators if op.origin is not None and op.origin.piece in _READ])
    if read:
        substitute(operators, read)


def _guards_of(of_rule: Sequence[Operator], loss: Operator, label: Variable) -> list[Operator]:
    """The guards, among the operators that the rule of a loss wrote, that look at its labels"""
    labels = [op for op in of_rule if is_piece(op, LABEL_IN_RANGE) and _gives_in_range(op, label, loss)]
    factors = [op for op in of_rule if is_piece(op, LABELS_IN_RANGE_OR_NAN) and _is_valid_or_nan(op.inputs[1], label, loss)]
    return [*labels, *factors]


def _read_for_guards(guards: Sequence[Operator]) -> dict[Variable, Variable]:
    """The variable to read for the result of each guard, as if there was none"""
    read: dict[Variable, Variable] = {}
    for op in guards:
        assert op.origin is not None and op.origin.piece is not None
        result, operand = op.outputs[0], op.inputs[_READ[op.origin.piece]]
        if result is not None and operand is not None:
            read[result] = operand
    return read


# Recognising what was written: by its structure, as its origin says only who wrote it ----------------------------------


def _is_guarded(label: Variable, loss: Operator) -> bool:
    """Return whether the labels of a loss are in its range already"""
    where = label.op
    return where is not None and is_piece(where, LABEL_IN_RANGE) and _gives_in_range(where, where.inputs[1], loss)


def _gives_in_range(where: Operator, label: Variable | None, loss: Operator) -> bool:
    """Return whether a Where gives these labels where they are in the range of a loss, and 0 elsewhere"""
    if where.type != "Where" or where.inputs[1] is not label or where.inputs[2] is None:
        return False
    return is_zero(where.inputs[2]) and _is_inside_range(where.inputs[0], label, loss)


def _is_valid_or_nan(v: Variable | None, label: Variable, loss: Operator) -> bool:
    """Return whether a factor is 1, or NaN where one of these labels is not in the range of a loss"""
    added = producer_of(v, "Add")
    if added is None or _number(added.inputs[1]) != 1:
        return False
    if loss.attr("reduction") == "none":
        nothing = producer_of(added.inputs[0], "Where")
    else:
        total = producer_of(added.inputs[0], "ReduceSum")
        nothing = None if total is None or len(total.inputs) > 1 else producer_of(total.inputs[0], "Where")
    if nothing is None or _number(nothing.inputs[1]) != 0:
        return False
    other = _number(nothing.inputs[2])
    return other is not None and np.isnan(other) and _is_inside_range(nothing.inputs[0], label, loss)


def _is_inside_range(v: Variable | None, label: Variable | None, loss: Operator) -> bool:
    """Return whether ``inside_range`` wrote this of these labels"""
    less = producer_of(v, "Less")
    chosen = None if less is None else producer_of(less.inputs[0], "Where")
    negative = None if chosen is None else producer_of(chosen.inputs[0], "Less")
    if less is None or chosen is None or negative is None:
        return False
    counted, count = chosen.inputs[2], less.inputs[1]
    if chosen.inputs[1] is not count or negative.inputs[0] is not counted or _number(negative.inputs[1]) != 0:
        return False
    return _is_number_of_classes(count, loss.inputs[0]) and _is_counted(counted, label, loss.attr("ignore_index"))


def _is_counted(v: Variable | None, label: Variable | None, ignored: int | None) -> bool:
    """Return whether these are labels with 0 in place of the one that does not count"""
    if ignored is None:
        return v is label
    where = producer_of(v, "Where")
    equal = None if where is None else producer_of(where.inputs[0], "Equal")
    if where is None or equal is None or where.inputs[2] is not label or _number(where.inputs[1]) != 0:
        return False
    return equal.inputs[0] is label and _number(equal.inputs[1]) == ignored


def _is_number_of_classes(v: Variable | None, scores: Variable | None) -> bool:
    classes = _classes(scores)
    if classes is not None:
        return bool(_number(v) == classes)
    gathered = producer_of(operand_of(v, "Cast"), "Gather")
    if gathered is None or gathered.attr("axis") or _number(gathered.inputs[1]) != 1:
        return False
    return scores is not None and operand_of(gathered.inputs[0], "Shape") is scores


def _number(v: Variable | None) -> Any:
    """The one element of a constant; None of anything else"""
    if v is None or v.value is None or v.persistable or v.value.numpy().size != 1:
        return None
    return v.value.numpy().reshape(-1)[0]


def _guard_body(body: Block) -> int:
    """Guard the losses of a body and of those inside it, and return how many"""
    count, guarded = 0, []
    for op in body.ops:
        count += sum(_guard_body(inner) for inner in op.blocks())
        label, scores = op.inputs[:2][::-1] if has_labels(op) else (None, None)
        old = op.outputs[0] if op.outputs else None
        if (
            label is None
            or scores is None
            or old is None
            or _is_guarded(label, op)
            or are_known_classes(label, scores, op.attr("ignore_index"))
        ):
            guarded.append(op)
            continue
        key = f"{op.name or op.type}/range"
        before, after = Builder(body, [], op.role, key), Builder(body, [], op.role, key)
        guard = _written(before, op, label)
        own = _own_result(body, op)
        op.inputs[1] = guard.label
        _return_as(old, after.Add(own, guard.nothing))
        for stage in (before.stage or [], after.stage or []):
            for written in stage:
                for v in written.outputs:
                    if v is not None and v.name == "":
                        v._name = body.program.fresh_name(f"{key}/{written.type}")
                        body.register(v)
                written.name = next(v.name for v in written.outputs if v is not None)
        guarded += [*(before.stage or []), op, *(after.stage or [])]
        count += 1
    body.ops = guarded
    return count


def _own_result(block: Block, op: Operator) -> Variable:
    """Give an operator a first result of its own in place of one that others read"""
    old = op.outputs[0]
    assert old is not None and old.type is not None
    own = Variable(block, block.program.fresh_name(f"{old.name}/unguarded"), old.type, op)
    op.outputs[0] = block.register(own)
    op.name = own.name
    return own


def _return_as(old: Variable, new: Variable) -> None:
    """Let a variable that others read be what was just computed"""
    producer = new.op
    assert producer is not None
    producer.outputs[0], old.op = old, producer

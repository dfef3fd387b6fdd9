"""Labels of losses that are no classes: a loss of NaN, and gradients of NaN, in place of those of another class.

ONNX leaves open what SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss make of them; onnxruntime takes -1 for the last class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import FedLabel, Graph
from onnxgrad.core.graph.order import in_order
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import LABEL_IN_RANGE, LESS_ONE_AT_LABEL, Origin, is_piece
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.variable import Variable

__all__ = ["LABEL_RANGE", "LOSSES", "fed_label", "guard_labels", "has_labels"]

LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
_LABELS = ("int32", "int64")


def guard_labels(graph: Graph, target: Target) -> int:
    """Guard the losses of the main graph. Labels that are fed as they are, are noted instead where whoever feeds checks them."""
    count = 0
    for op in [op for op in graph.operators if has_labels(op)]:
        label = op.inputs[1]
        if label is None or is_piece(label.op, LABEL_IN_RANGE) or _is_known_class(op):
            continue
        fed = fed_label(op, graph.inputs) if target.checks_labels else None
        if fed is not None:
            graph.labels.append(fed)
            continue
        _guard(graph, op, label)
        count += 1
    if count:
        graph.take_constants()
    return count


def has_labels(op: Operator) -> bool:
    """Return whether an operator is a loss of labels."""
    return op.type in LOSSES and not op.domain


LABEL_RANGE = Pass("label_range", guard_labels, when=lambda graph, target: not graph.is_whole)


def _classes(op: Operator) -> int | None:
    scores = op.inputs[0]
    dims = None if scores is None else scores.dims
    return dims[1] if dims is not None and len(dims) > 1 and isinstance(dims[1], int) else None


def _is_known_class(op: Operator) -> bool:
    """Return whether the labels are constants that are classes, or ignored"""
    label, classes = op.inputs[1], _classes(op)
    if label is None or label.value is None or label.persistable or classes is None:
        return False
    values = label.value.numpy()
    return bool((((values >= 0) & (values < classes)) | (values == op.attr("ignore_index"))).all())


def fed_label(op: Operator, fed: Iterable[Variable]) -> FedLabel | None:
    """The input that the labels of a loss are, in another shape or type at most; None where they are computed."""
    label, classes, inputs = op.inputs[1], _classes(op), set(fed)
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


def _guard(graph: Graph, op: Operator, label: Variable) -> None:
    old = op.outputs[0]
    assert old is not None
    key = f"{op.name or op.type}/range"
    build = stage_builder(graph, op, key)
    guard = _written(build, op, label)
    own = _take_over(graph, op)
    op.inputs[1] = guard.label
    _return_as(old, build.Add(own, guard.nothing))
    of_rule = [other for other in graph.operators if other.origin is not None and other.origin.of is old]
    backward = stage_builder(graph, of_rule[0] if of_rule else op, key)
    for other in of_rule:
        assert other.origin is not None
        other.origin = other.origin._replace(of=own)
        other.inputs = [guard.label if v is label else v for v in other.inputs]
    for other in of_rule:
        _spoil(graph, backward, other, op, guard)
    stage = [*(build.stage or []), *(backward.stage or [])]
    name_results(graph, stage, key)
    graph.operators = in_order([*graph.operators, *stage], graph.resolve)


def _written(build: Any, op: Operator, label: Variable) -> _Guard:
    scores, ignored, classes = op.inputs[0], op.attr("ignore_index"), _classes(op)
    assert scores is not None
    kind = label.dtype.numpy
    zero = np.zeros((), kind)
    count: Any = np.array(classes, kind) if classes is not None else None
    if count is None:
        count = build.Cast(build.Gather(build.Shape(scores), np.array(1)), to=label.dtype.number)
    # By operators that every provider has: no Or and no Xor, which WebGPU lacks.
    counted = label if ignored is None else build.Where(build.Equal(label, np.array(ignored, kind)), zero, label)
    inside = build.Less(build.Where(build.Less(counted, zero), count, counted), count)
    safe = build.Where(inside, label, zero)
    safe.op.origin = Origin(op.type, LABEL_IN_RANGE, op.outputs[0])
    number = scores.dtype.numpy
    nothing = build.Where(inside, np.zeros((), number), np.full((), np.nan, number))
    return _Guard(safe, nothing if op.attr("reduction") == "none" else build.ReduceSum(nothing, keepdims=0))


def _spoil(graph: Graph, build: Any, op: Operator, loss: Operator, guard: _Guard) -> None:
    """Make the gradient of the scores NaN where the loss is, by what the rule of the loss multiplies it by"""
    nothing = build.Unsqueeze(guard.nothing, [1]) if loss.attr("reduction") == "none" else guard.nothing
    if loss.type == "NegativeLogLikelihoodLoss" and op.type == "ScatterElements":
        # Along axis 1 at the labels of rows; the gradient of the weights of classes adds all rows up, one after the other.
        rows = nothing if op.attr("axis") == 1 or loss.attr("reduction") != "none" else build.Reshape(guard.nothing, [-1])
        op.inputs[2] = build.Add(op.inputs[2], rows)
    if not is_piece(op, LESS_ONE_AT_LABEL):
        return
    less = op.outputs[0]
    assert less is not None
    readers = [reader for reader in graph.operators if any(v is less for v in reader.operands())]
    if len(readers) == 1 and readers[0].type == "Mul" and readers[0].inputs[0] is less and readers[0].origin == _rest(op):
        # There the forms of losses over many classes expect a factor for each row, or one for all.
        readers[0].inputs[1] = build.Add(readers[0].inputs[1], nothing)
        return
    own = _take_over(graph, op)
    _return_as(less, build.Mul(own, build.Add(nothing, np.ones((), less.dtype.numpy))))


def _rest(op: Operator) -> Origin | None:
    """The origin of what a rule writes besides its pieces"""
    return None if op.origin is None else op.origin._replace(piece="")


def _take_over(graph: Graph, op: Operator) -> Variable:
    """Give an operator a first result of its own in place of one that others read"""
    old = op.outputs[0]
    assert old is not None and old.type is not None
    own = Variable(graph.program.global_block(), graph.program.fresh_name(f"{old.name}/unguarded"), old.type, op)
    op.outputs[0] = graph.program.global_block().register(own)
    op.name = own.name
    return own


def _return_as(old: Variable, new: Variable) -> None:
    """Let a variable that others read be what was just computed"""
    producer = new.op
    assert producer is not None
    producer.outputs[0], old.op = old, producer

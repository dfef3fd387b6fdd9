"""Synchronise the loss and the statistics of batches over ranks, of which each holds a part of the batch.

Forward, the number of values, their sum and that of their squares per channel are reduced; backward, the sums of the gradient and
of its product with the normalised values. Between ranks all are float64, where E[x^2] - E[x]^2 loses nothing that float32 has.

Tests: tests/distributed/test_synchronised.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import GraphPass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.graph.matching import operand_of, producer_of
from onnxgrad.core.graph.rewriting import name_results, return_instead, stage_builder
from onnxgrad.core.ir.operator import Operator, Role, as_stored
from onnxgrad.core.ir.origin import (
    BATCH_MEAN,
    BATCH_MEAN_GRADIENT,
    BATCH_STATISTICS_GRADIENT,
    BATCH_VARIANCE,
    is_piece,
)
from onnxgrad.core.ir.plan import LossTerm
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of, needed_operators
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.step.cut import is_graded
from onnxgrad.core.step.stages import sum_over_ranks
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError

__all__ = ["COUNTS", "RankShare", "Synchronised", "scale_outputs", "share_of_rank", "synchronise", "synchronised_graph"]

COUNTS = "part_counts"
"""The input of a synchronised graph that says whether the examples of this rank count: a float64 scalar, 1 or 0."""

_DOUBLE = 11


class Synchronised(NamedTuple):
    """A loss of a program, and how the losses of the parts of a batch add up."""

    loss: Variable
    term: LossTerm


def synchronised_graph(program: Program, outputs: Sequence[Variable], gradients: Sequence[Variable], how: Synchronised) -> Graph:
    """The graph of what a rank computes of its part, in plain forms, where batches are normalised by statistics of all parts.

    Its loss and its gradients are what the rank adds to those of the whole batch. It has the input ``COUNTS``: of a rank whose
    examples stand in for none the caller leaves out gradients; all else that the graph adds up over ranks leaves it out.

    Args:
        program: is not changed.
        outputs: of the graph: the loss and gradients among them.
        gradients: that ranks add up.

    Raises:
        ArgumentError: as the pass that it runs.
    """
    graph = compile(program, outputs, state_as_inputs=True, updates=False)
    main = graph.program.global_block()
    counts = main.register(Variable(main, COUNTS, TensorType(dtype_of("float64"), ())))
    main.inputs.append(counts)
    graph.inputs.append(counts)
    least = None
    if how.term.weight is not None:
        exact, least, _ = share_of_rank(graph, graph.of(how.term.weight), counts)
        scale_outputs(graph, [graph.of(how.loss)], exact, is_loss=True)
        scale_outputs(graph, [graph.of(v) for v in gradients if is_graded(v) and v is not how.term.weight], least)
    graph.settle()
    run_passes(graph, [synchronise(least, counts)], Target())
    return graph


def scale_outputs(graph: Graph, outputs: list[Variable], weight: Variable, is_loss: bool = False) -> None:
    """Scale outputs to this rank's part of the outputs of the whole batch, under the names that they have.

    Args:
        weight: this rank's part of the whole, a scalar in float64.
        is_loss: whether a share of 0 makes 0 of them, whatever they are: the loss of a part without examples may be NaN.
    """
    for v in outputs:
        build = stage_builder(graph, None, key="share")
        factor = build.Cast(weight, to=v.dtype.number)
        scaled = build.Mul(v, factor)
        if is_loss:
            scaled = build.Where(build.Equal(weight, np.float64(0)), build.constant(0, v.dtype), scaled)
        name_results(graph, build.stage or [], build.key)
        return_instead(graph, v, scaled)
        graph.operators = [*graph.operators, *(build.stage or [])]


class _Statistics(NamedTuple):
    """Of the whole batch, in float64: mean and variance [C], and the number of values per channel, [1]."""

    mean: Variable
    variance: Variable
    number: Variable


class RankShare(NamedTuple):
    """The weight of this rank's loss in that of the whole batch, scalars in float64.

    Attributes:
        exact: which may be 0.
        least: the same, but never 0.
        total: the weights of all ranks together.
    """

    exact: Variable
    least: Variable
    total: Variable


def share_of_rank(graph: Graph, weight: Variable, counts: Variable | None = None) -> RankShare:
    """Compute the weight of this rank's loss in that of the whole batch.

    A part that weighs nothing passes on gradients of the others' losses, by way of the statistics. They are divided by its share on
    their way in and multiplied on their way out, so its share must not be 0; 2^-30 is nothing beside what float32 holds. A part
    that does not count passes on nothing, so the second number is 1 there, by which nothing overflows.
    """
    first = needed_operators(graph.operators, [weight])
    build = stage_builder(graph, None, key="share")
    wide = build.Cast(build.Reshape(weight, []), to=_DOUBLE)
    if counts is not None:
        wide = build.Where(build.Cast(counts, to=9), wide, np.float64(0))
    total = sum_over_ranks(build, wide)
    exact = build.Div(wide, build.Where(build.Equal(total, np.float64(0)), np.float64(1), total))
    least = build.Max(exact, np.float64(2.0**-60 if weight.dtype.name == "float64" else 2.0**-30))
    if counts is not None:
        least = build.Where(build.Cast(counts, to=9), least, np.float64(1))
    name_results(graph, build.stage or [], build.key)
    known = set(first)
    graph.operators = [*first, *(build.stage or []), *(op for op in graph.operators if op not in known)]
    return RankShare(exact, least, total)


def synchronise(weight: Variable | None, counts: Variable | None = None) -> GraphPass:
    """The pass that lets every BatchNormalization that normalises by its batch do so by the batches of all ranks together.

    Args:
        weight: what the gradients that the graph computes are to be multiplied by before they are added up over ranks, a scalar in
            float64; None for 1.
        counts: 0 where the examples of a rank stand in for none, and leave statistics and gradients of others alone; else 1.

    It raises ArgumentError if a BatchNormalization stands in a body, or its statistics are differentiated by themselves.
    """

    def run(graph: Graph, target: Target) -> int:
        before = graph.replacements
        _Synchronised(graph, weight, counts).run()
        return graph.replacements - before

    return GraphPass("synchronise", run, needs=_refuse_bodies, rounding="order", gain="docs/use/scale.md")


def _refuse_bodies(graph: Graph, target: Target) -> None:
    main = graph.program.global_block()
    inner = [op for body in (b for op in main.ops for b in op.blocks()) for op in all_operators_of(body) if _by_batch(op)]
    if inner:
        raise ArgumentError(f"{inner[0]} stands in a body, where its statistics cannot be reduced over ranks. Move it out.")


class _Synchronised:
    def __init__(self, graph: Graph, weight: Variable | None, counts: Variable | None) -> None:
        self.graph, self.weight, self.counts = graph, weight, counts
        self.build: Any = None
        self.statistics: dict[Variable, _Statistics] = {}
        """By the result of a BatchNormalization."""

    def run(self) -> None:
        done: list[Operator] = []
        for op in self.graph.operators:
            self.build = stage_builder(self.graph, op)
            results = self.written(op)
            if results is None:
                done.append(op)
                continue
            for old, new in zip(op.outputs, results, strict=False):
                if old is not None and new is not None:
                    self.graph.replace(old, new)
            name_results(self.graph, self.build.stage, self.build.key)
            done.extend(self.build.stage)
        self.graph.operators = done

    def written(self, op: Operator) -> list[Variable | None] | None:
        """Create the variables that replace the outputs of an operator, if it computes something of the batch"""
        if _by_batch(op):
            return self.normalised(op)
        if not is_piece(op, BATCH_MEAN, BATCH_VARIANCE, BATCH_MEAN_GRADIENT, BATCH_STATISTICS_GRADIENT):
            return None
        if is_piece(op, BATCH_STATISTICS_GRADIENT):
            raise ArgumentError(
                f"{op} differentiates the statistics of a BatchNormalization themselves, which is not written for parts of a "
                "batch. Leave running statistics out of the loss, or pass batch_norm='local'."
            )
        statistics = self.statistics_of(op)
        x, y = op.inputs[0], op.outputs[0]
        assert x is not None and y is not None
        if is_piece(op, BATCH_MEAN_GRADIENT):
            return [self.mean_gradient(x, statistics, y)]
        if is_piece(op, BATCH_VARIANCE):
            return [self.build.Cast(statistics.variance, to=y.dtype.number)]
        return [self.build.Reshape(self.build.Cast(statistics.mean, to=y.dtype.number), self.channels_of(x))]

    def statistics_of(self, op: Operator) -> _Statistics:
        """The statistics that an operator of a gradient takes part in, if it is what the rule writes."""
        result = None if op.origin is None else op.origin.of
        statistics = None if result is None else self.statistics.get(result)
        if statistics is None or result is None or result.op is None or not _is_as_written(op, result.op.inputs[0]):
            piece = "" if op.origin is None else op.origin.piece
            raise ArgumentError(
                f"{op} says that it is the {piece} in the gradient of a BatchNormalization, and is something else. "
                "Append the gradients to the model that was differentiated, or pass batch_norm='local'."
            )
        return statistics

    def normalised(self, op: Operator) -> list[Variable | None]:
        """By given statistics; the running ones mix old and new"""
        build, momentum = self.build, as_stored(op.attr("momentum"))
        x, scale, shift, *running = [v for v in op.inputs if v is not None]
        statistics = self.of_batch(x, scale)
        if op.outputs[0] is not None:
            self.statistics[op.outputs[0]] = statistics
        mean, variance = (
            build.Cast(v, to=old.dtype.number) for v, old in zip((statistics.mean, statistics.variance), running, strict=True)
        )
        y = build.BatchNormalization(x, scale, shift, mean, variance, epsilon=op.attr("epsilon"), momentum=momentum)
        results: list[Variable | None] = [y]
        for old, new, out in zip(running, (mean, variance), op.outputs[1:], strict=False):
            results.append(None if out is None else build.Add(build.Mul(old, momentum), build.Mul(new, 1.0 - momentum)))
        return results

    def of_batch(self, x: Variable, scale: Variable) -> _Statistics:
        """Each rank adds up around its own mean, and states it around 0 in float64"""
        build = self.build
        if x.dtype.name in ("float16", "bfloat16"):
            x = build.Cast(x, to=1)
        axes = self.all_but_channels(x)
        count = build.Cast(build.Reshape(build.Div(build.Size(x), build.Size(scale)), [1]), to=_DOUBLE)
        total = build.Cast(build.ReduceSum(x, axes, keepdims=0), to=_DOUBLE)
        near = build.Cast(build.Div(total, build.Max(count, np.float64(1))), to=x.dtype.number)
        spread = build.ReduceSumSquare(build.Sub(x, build.Reshape(near, self.channels_of(x))), axes, keepdims=0)
        near = build.Cast(near, to=_DOUBLE)
        around = build.Sub(build.Mul(total, np.float64(2)), build.Mul(near, count))
        squares = build.Add(build.Cast(spread, to=_DOUBLE), build.Mul(near, around))
        whole = sum_over_ranks(build, self.counted(build.Concat(count, total, squares, axis=0)))
        count = build.Slice(whole, [0], [1])
        sums = build.Reshape(build.Slice(whole, [1], [np.iinfo(np.int64).max]), [2, -1])
        mean, second = (build.Squeeze(v, [0]) for v in build.Split(build.Div(sums, count), axis=0, num_outputs=2, outputs=2))
        variance = build.Max(build.Sub(second, build.Mul(mean, mean)), np.float64(0))
        return _Statistics(mean, variance, count)

    def mean_gradient(self, total: Variable, statistics: _Statistics, like: Variable) -> Variable:
        """A sum over this rank's part as the mean over all, in the scale of this rank's gradients"""
        build = self.build
        local = build.Cast(total, to=_DOUBLE)
        if self.weight is not None:
            local = build.Mul(local, self.weight)
        mean = build.Div(sum_over_ranks(build, self.counted(local)), statistics.number)
        if self.weight is not None:
            mean = build.Div(mean, self.weight)
        result: Variable = build.Cast(mean, to=like.dtype.number)
        return result

    def counted(self, local: Variable) -> Variable:
        """A sum over this rank's part; 0 if that does not count"""
        if self.counts is None:
            return local
        build = self.build
        masked: Variable = build.Where(build.Cast(self.counts, to=9), local, np.float64(0))
        return masked

    def all_but_channels(self, x: Variable) -> Any:
        if x.rank is not None:
            return [0, *range(2, x.rank)]
        return self.build.Concat([0], self.build.Range(2, self.build.Size(self.build.Shape(x)), 1), axis=0)

    def channels_of(self, x: Variable) -> Any:
        """The shape of values per channel that broadcast against x"""
        if x.rank is not None:
            return [1, -1] + [1] * (x.rank - 2)
        build = self.build
        ones = build.Expand(1, build.Reshape(build.Sub(build.Size(build.Shape(x)), 2), [1]))
        return build.Concat([1, -1], ones, axis=0)


def _is_as_written(op: Operator, x: Variable | None) -> bool:
    """Return whether a piece of the gradient of BatchNormalization has the form that its rule gives it, over the images ``x``."""
    if is_piece(op, BATCH_MEAN):
        return op.type == "ReduceMean" and not op.domain and _is_cast_of(op.inputs[0], x) and _keeps_channels(op, 1)
    if is_piece(op, BATCH_VARIANCE):
        square = producer_of(op.inputs[0], "Mul") if op.type == "ReduceMean" and not op.domain else None
        centred = None if square is None or square.inputs[0] is not square.inputs[1] else producer_of(square.inputs[0], "Sub")
        mean = None if centred is None else producer_of(centred.inputs[1], "ReduceMean")
        is_centred = mean is not None and centred is not None and centred.inputs[0] is mean.inputs[0]
        return is_centred and mean is not None and _is_as_written_mean(mean, x) and _keeps_channels(op, 0)
    return op.type == "Div" and not op.domain and _is_sum(op.inputs[0]) and _is_count(op.inputs[1], x)


def _is_as_written_mean(op: Operator, x: Variable | None) -> bool:
    return is_piece(op, BATCH_MEAN) and _is_as_written(op, x)


def _is_cast_of(v: Variable | None, x: Variable | None) -> bool:
    """Return whether it is ``x``, perhaps in another element type, or what a backward pass computes again in its place."""
    if v is None or x is None or v is x or operand_of(v, "Cast") is x:
        return v is not None and x is not None
    again = v if v.op is None or v.op.type != "Cast" else v.op.inputs[0]
    return again is not None and again.op is not None and again.op.role is Role.BACKWARD and again.dims == x.dims


def _keeps_channels(op: Operator, keepdims: int) -> bool:
    """Return whether it reduces all axes but the second."""
    x, axes = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else None
    if x is None or axes is None or op.attr("keepdims") != keepdims:
        return False
    if x.rank is None or axes.value is None:
        return x.rank is None and producer_of(axes, "Concat") is not None
    return {int(axis) % x.rank for axis in axes.value.numpy().reshape(-1)} == set(range(x.rank)) - {1}


def _is_sum(v: Variable | None) -> bool:
    """Return whether it is a sum over the batch, perhaps times numbers per channel."""
    total = producer_of(v, "ReduceSum")
    if total is not None:
        return _keeps_channels(total, 0)
    product = producer_of(v, "Mul")
    return product is not None and _is_sum(product.inputs[0])


def _is_count(v: Variable | None, x: Variable | None) -> bool:
    """Return whether it is how many numbers each channel of ``x`` has."""
    if v is None or x is None:
        return False
    if v.value is not None:
        shape = x.static_shape
        return shape is not None and not v.persistable and bool((v.value.numpy() == prod(shape) // max(shape[1], 1)).all())
    quotient = producer_of(v, "Div")
    size = None if quotient is None else producer_of(operand_of(quotient.inputs[0], "Cast"), "Size")
    return size is not None and _is_cast_of(size.inputs[0], x)


def _by_batch(op: Operator) -> bool:
    return op.type == "BatchNormalization" and not op.domain and bool(op.attr("training_mode"))

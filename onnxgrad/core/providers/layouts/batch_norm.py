"""The gradient of BatchNormalization in training, in fewer passes over the images.

Its rule finds mean and variance again, and subtracts the mean from the images for the sums of the gradient. But the operator has
both: with momentum 0 it returns them, and the running ones follow from numbers per channel. And

    sum(g (x - mean)) = sum(g x) - mean sum(g)
    (g - a) - (x - mean) s = g - (x s + (a - mean s))

where sum(g x) is one product per channel, and x s + .. a depthwise convolution with one tap. 5 images fewer are written.
Where the mean is large compared with the deviation this rounds as the operator itself does, which computes x s + b too.

Tests: tests/core/providers/test_batch_norm.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir.bodies import as_tuple
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import BATCH_MEAN, is_piece, is_written_for
from onnxgrad.core.ir.types import same_dims
from onnxgrad.core.ir.variable import Variable

__all__ = ["BATCH_NORM", "lean_batch_norm"]

_SMALLEST = COSTS.count("batch_norm.smallest_map")
"""Numbers per channel of an image from which on a product sums them faster than Mul and ReduceSum."""


def lean_batch_norm(graph: Graph, target: Target) -> int:
    """Write the gradients of BatchNormalization over images of known size per channel so."""
    before = graph.replacements
    if any(op.type == "BatchNormalization" and op.attr("training_mode") for op in graph.operators):
        _Gradients(graph).run()
    return graph.replacements - before


BATCH_NORM = Pass("batch_norm", lean_batch_norm, rounding="order", gain=CPU_FORMS)


class _Gradients(Links):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.build: Any = None
        self.statistics: dict[Variable, tuple[Variable, Variable]] = {}
        """By the operand of a BatchNormalization: mean and variance of the batch, [C]."""
        self.sums: dict[Variable, Variable] = {}
        """By images: their sums [C] that there are by now."""

    def run(self) -> None:
        done: list[Operator] = []
        for op in self.graph.operators:
            form = _FORMS.get(op.type) if not op.domain else None
            self.build = stage_builder(self.graph, op)
            if form is None or not form(self, op):
                done.append(op)
                continue
            name_results(self.graph, self.build.stage, self.build.key)
            done.extend(self.build.stage)
        self.graph.operators = done

    def producer_of(self, v: Variable | None, op_type: str) -> Operator | None:
        """The operator of this type that computes ``v``"""
        maker = None if v is None else self.makers.get(v)
        return maker if maker is not None and maker.type == op_type and not maker.domain else None

    def replace(self, op: Operator, new: Variable, index: int = 0) -> bool:
        """Record that ``new`` replaces an output of ``op``."""
        old = op.outputs[index]
        if old is not None:
            self.graph.replace(old, new)
        return True

    def alone(self, v: Variable | None) -> bool:
        return v is not None and v not in self.returned and len(self.readers.get(v, ())) == 1

    def centred(self, v: Variable | None) -> Variable | None:
        """x, if ``v`` is x - mean(x) and the mean is known"""
        difference = self.producer_of(v, "Sub")
        x = None if difference is None else difference.inputs[0]
        mean = None if difference is None else self.producer_of(difference.inputs[1], "ReduceMean")
        known = x in self.statistics and mean is not None and mean.inputs[0] is x and _per_channel(mean, 1)
        return x if known else None


def _per_channel(op: Operator, keepdims: int) -> bool:
    """Return whether it reduces all axes but the second"""
    x, axes = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else None
    if x is None or x.rank is None or x.rank < 3 or axes is None or axes.value is None or op.attr("keepdims") != keepdims:
        return False
    return {int(axis) % x.rank for axis in axes.value.numpy().reshape(-1)} == set(range(x.rank)) - {1}


def _batch_normalization(pass_: _Gradients, op: Operator) -> bool:
    x, scale, shift, *running = op.inputs
    readers = [] if x is None else pass_.readers[x]
    again = any(r.type == "ReduceMean" and is_piece(r, BATCH_MEAN) and _per_channel(r, 1) for r in readers)
    if not op.attr("training_mode") or not again or x is None or not _is_large(x) or scale is None or scale.dtype.name != "float32":
        return False
    build, momentum = pass_.build, op.attr("momentum")
    results = build.emit(op.type, [x, scale, shift, *_buffers(build, x)], {**op.attrs, "momentum": 0.0}, outputs=3)
    y, *fresh = as_tuple(results)
    pass_.replace(op, y)
    for old, statistic, out in zip(running, fresh, op.outputs[1:], strict=False):
        if out is not None and (pass_.readers.get(out) or out in pass_.returned):
            kept = build.Mul(statistic, 1.0 - momentum)
            pass_.graph.replace(out, build.Add(build.Mul(old, momentum), kept))
    pass_.statistics[x] = fresh[0], fresh[1]
    return True


def _buffers(build: Any, x: Variable) -> tuple[Any, Any]:
    """Return buffers for the old statistics, which count nothing: onnxruntime writes the new ones over them, so no other operator
    may have them, and they must not be constants, which are merged."""
    space = list(range(2, x.rank or 0))
    corner = build.Slice(x, [0] * (1 + len(space)), [1] * (1 + len(space)), [0, *space])
    first = build.ReduceSum(corner, [0, *space], keepdims=0)
    return first, build.Neg(first)


def _is_large(x: Variable) -> bool:
    dims = x.dims
    if dims is None or x.dtype.name != "float32" or not all(isinstance(dim, int) for dim in dims[1:]):
        return False
    return _size(dims[2:]) >= _SMALLEST


def _size(dims: Iterable[Any]) -> int:
    return prod(dims)


def _channels(x: Variable) -> int:
    return int(x.dims[1])  # type: ignore[arg-type, index]


def _mean(pass_: _Gradients, op: Operator) -> bool:
    """Mean and variance, which the operator has"""
    x = op.inputs[0]
    if x in pass_.statistics and _per_channel(op, 1):
        shape = [1, -1] + [1] * ((x.rank or 2) - 2)
        return pass_.replace(op, pass_.build.Reshape(pass_.statistics[x][0], shape))
    squared = pass_.producer_of(x, "Mul")
    if squared is None or squared.inputs[0] is not squared.inputs[1] or not _per_channel(op, 0):
        return False
    source = pass_.centred(squared.inputs[0])
    if source is None:
        return False
    return pass_.replace(op, pass_.statistics[source][1])


def _sum(pass_: _Gradients, op: Operator) -> bool:
    """sum(g (x - mean)) as sum(g x) - mean sum(g)"""
    if not _per_channel(op, 0):
        return False
    product = pass_.producer_of(op.inputs[0], "Mul")
    for g, centred in () if product is None else (product.inputs, product.inputs[::-1]):
        x = pass_.centred(centred)
        if x is None or g is None or not _have_same_dims(op, g, x) or pass_.centred(g) is not None or not pass_.alone(op.inputs[0]):
            continue
        build = pass_.build
        batch, channels, *space = x.dims or ()
        flat = [channels, 1, _size(space)] if batch == 1 else [0, channels, 1, _size(space)]
        rows, columns = (build.Reshape(v, flat) for v in (g, x))
        last = [0, 1, 3, 2] if len(flat) == 4 else [0, 2, 1]
        dots = build.MatMul(rows, build.Transpose(columns, perm=last))
        if len(flat) == 4:
            dots = build.ReduceSum(dots, [0], keepdims=0)
        total = pass_.sums.get(g)
        if total is None:
            total = build.ReduceSum(g, op.inputs[1], keepdims=0)
        less = build.Mul(pass_.statistics[x][0], total)
        return pass_.replace(op, build.Sub(build.Reshape(dots, [-1]), less))
    if op.inputs[0] is not None and op.outputs[0] is not None:
        pass_.sums.setdefault(op.inputs[0], op.outputs[0])
    return False


def _difference(pass_: _Gradients, op: Operator) -> bool:
    """(g - a) - (x - mean) s as g - (x s + (a - mean s))"""
    first, second = pass_.producer_of(op.inputs[0], "Sub"), pass_.producer_of(op.inputs[1], "Mul")
    if first is None or second is None or not all(map(pass_.alone, op.inputs)):
        return False
    (g, a), (centred, slope) = first.inputs, second.inputs
    x = pass_.centred(centred)
    if x is None or g is None or not _have_same_dims(op, g, x) or not all(_is_per_channel(v, x) for v in (a, slope)):
        return False
    build, rank = pass_.build, x.rank or 0
    slopes, moved = (build.Reshape(v, [-1]) for v in (slope, a))
    shift = build.Sub(moved, build.Mul(pass_.statistics[x][0], slopes))
    taps = build.Reshape(slopes, [-1] + [1] * (rank - 1))
    return pass_.replace(op, build.Sub(g, build.Conv(x, taps, shift, group=_channels(x))))


def _have_same_dims(op: Operator, g: Variable, x: Variable) -> bool:
    """Return whether two images have one shape: as far as is known where the rule says so, else certainly."""
    return same_dims(g.dims, x.dims) or (is_written_for(op, "BatchNormalization") and g.dims == x.dims)


def _is_per_channel(v: Variable | None, x: Variable) -> bool:
    """Return whether ``v`` broadcasts over all axes of x but the second"""
    rank, shape = x.rank or 0, None if v is None else v.static_shape
    return shape is not None and (1,) * (rank - len(shape)) + tuple(shape) == (1, _channels(x)) + (1,) * (rank - 2)


_FORMS = {"BatchNormalization": _batch_normalization, "ReduceMean": _mean, "ReduceSum": _sum, "Sub": _difference}

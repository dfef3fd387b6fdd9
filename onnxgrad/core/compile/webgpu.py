"""What onnxruntime-web's WebGPU provider needs written differently."""

from __future__ import annotations

from math import ceil
from typing import Any

from onnxgrad.core.compile.cuda import write_out_batch_normalization
from onnxgrad.core.compile.graph import Graph
from onnxgrad.core.compile.labelled_losses import labelled_loss
from onnxgrad.core.compile.rewriting import rewrite_operators
from onnxgrad.core.compile.taps import drop_unread_indices, pool_gradient
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["PASSES"]

_MOST_PARTS = 7
"""Of a Split: every adapter takes eight buffers at once, one of which is read."""


def _split(build: Any, op: Operator) -> list[Variable | None] | None:
    """Split into many parts as Splits into few parts of parts."""
    sizes = [_size(v, op.attr("axis")) for v in op.outputs]
    if len(sizes) <= _MOST_PARTS or None in sizes:
        return None
    return _parts(build, op.inputs[0], sizes, op.attr("axis"))


def _size(v: Variable | None, axis: int) -> int | None:
    size = None if v is None or v.dims is None else v.dims[axis]
    return size if isinstance(size, int) else None


def _parts(build: Any, x: Any, sizes: list[Any], axis: int) -> list[Variable | None]:
    if len(sizes) == 1:
        return [x]
    if len(sizes) <= _MOST_PARTS:
        return list(build.Split(x, sizes, axis=axis, outputs=len(sizes)))
    many = ceil(len(sizes) / _MOST_PARTS)
    groups = [sizes[i : i + many] for i in range(0, len(sizes), many)]
    found = build.Split(x, [sum(group) for group in groups], axis=axis, outputs=len(groups))
    return [part for y, group in zip(found, groups, strict=True) for part in _parts(build, y, group, axis)]


def _rewrite(graph: Graph) -> None:
    forms = dict.fromkeys(["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"], labelled_loss)
    rewrite_operators(graph, {"ScatterElements": pool_gradient, "Split": _split, **forms})


PASSES = [write_out_batch_normalization, _rewrite, drop_unread_indices]

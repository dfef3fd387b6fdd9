"""The last product of a language model and its loss by blocks of tokens: scores as [blocks, rows, tokens of a block].

A product with thousands of columns, or whose result has thousands of rows, leaves the cache of the processor in onnxruntime: it
cuts neither. As blocks of some hundreds of tokens, which lie in the weight as they are, all three products stay in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.order import in_order
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.losses.vocabulary import Head, Search, sized_head

__all__ = ["VOCABULARY_TILES", "tile_vocabulary"]

_FEWEST = COSTS.count("vocabulary_tiles.fewest_words")
_NEAR = COSTS.count("vocabulary_tiles.words_of_a_block")
_LEAST = COSTS.count("vocabulary_tiles.fewest_words_of_a_block")
_MOST = COSTS.count("vocabulary_tiles.most_words_of_a_block")
"""Words of a block: measured from 256 to 2,048."""
_WIDEST = COSTS.count("vocabulary_tiles.widest")
"""Width up to which the blocks' parts of the rows' gradient take about as much memory as the scores, or less."""


def tile_vocabulary(graph: Graph, target: Target) -> int:
    """Rewrite the losses over from 4,096 tokens on whose weight is stored as [tokens, width] and which nothing else reads."""
    count = 0
    for op in [op for op in graph.operators if op.type == "SoftmaxCrossEntropyLoss" and not op.domain]:
        head = sized_head(op)
        if head is None or _block(head.words) is None:
            continue
        search = Search(graph)
        parts = _parts(search, head) if search.completes(head) else None
        if parts is not None:
            _write(graph, parts)
            graph.settle()
            count += 1
    return count


VOCABULARY_TILES = Pass("vocabulary_tiles", tile_vocabulary, rounding="order", gain=CPU_FORMS)


def _block(tokens: int) -> int | None:
    """Return the tokens of a block, near 512, if the vocabulary can be cut into equal blocks of such a size."""
    sizes = [size for size in range(_LEAST, _MOST + 1) if tokens % size == 0]
    return min(sizes, key=lambda size: abs(math.log(size / _NEAR)), default=None) if tokens >= _FEWEST else None


@dataclass
class _Parts:
    """A head of nothing but its products: the rows, the weight, and what gives the gradients of both."""

    head: Head
    rows: Variable
    weight: Variable
    of_rows: Variable | None
    of_weight: Variable | None


def _parts(search: Search, head: Head) -> _Parts | None:
    product, rows = head.product, head.product.inputs[0]
    weight = _factor(search, product, is_transposed=True)
    plain = len(head.forward) == 1 and not head.backward and not head.barriers and len(product.inputs) == 2 and _is_plain(product)
    if not plain or rows is None or weight is None or weight.static_shape is None or weight.static_shape[1] > _WIDEST:
        return None
    parts = _Parts(head, rows, weight, None, None)
    if head.change is None or len(head.results) > 1 or len(head.whole) > 1:
        return None
    for op in head.results:
        if _factor(search, op, is_transposed=False) is not weight or not _is_plain(op) or len(op.inputs) != 2:
            return None
        parts.of_rows = op.outputs[0]
        if parts.of_rows is None or (parts.of_rows.rank != 2 and parts.of_rows.static_shape is None):
            return None
    for v in head.whole:
        parts.of_weight = _weight_gradient(search, parts, v)
        if parts.of_weight is None:
            return None
    return parts


def _is_plain(op: Operator) -> bool:
    return op.type == "MatMul" or (op.type == "Gemm" and op.attr("alpha") == 1.0 and not op.attr("transA"))


def _factor(search: Search, op: Operator, is_transposed: bool) -> Variable | None:
    """Return the weight of a product, which reads it transposed or not as asked; None of any other product."""
    if op.domain:
        return None
    v, transposed = op.inputs[1], bool(op.attr("transB")) if op.type == "Gemm" else False
    while v is not None and (producer := search.makers.get(v)) is not None and _turns(producer):
        v, transposed = producer.inputs[0], not transposed
    return v if transposed is is_transposed else None


def _turns(op: Operator) -> bool:
    return op.type == "Transpose" and not op.domain and op.inputs[0] is not None and op.inputs[0].rank == 2


def _weight_gradient(search: Search, parts: _Parts, change: Variable) -> Variable | None:
    """Return the one product of the rows and the gradient of the scores, as [tokens, width]."""
    readers = search.readers.get(change, [])
    readers = [op for op in readers if op not in search.inner and not (op.type == "Shape" and not op.domain)]
    if len(readers) != 1 or readers[0].type != "Gemm" or readers[0].domain or len(readers[0].inputs) != 2:
        return None
    (op,) = readers
    if not op.attr("transA") or op.attr("transB") or op.attr("alpha") != 1.0:
        return None
    out = op.outputs[0]
    if op.inputs[0] is change and _is_same(search, op.inputs[1], parts.rows):
        return out
    if op.inputs[1] is not change or not _is_same(search, op.inputs[0], parts.rows) or out in search.returned or out is None:
        return None
    transposes = search.readers.get(out, [])
    return transposes[0].outputs[0] if len(transposes) == 1 and _turns(transposes[0]) else None


def _is_same(search: Search, v: Variable | None, rows: Variable) -> bool:
    """Return whether a matrix holds the rows, flattened or as they are"""
    producer = None if v is None or v is rows else search.makers.get(v)
    if producer is None:
        return v is rows
    flat = producer.type in ("Flatten", "Reshape") and not producer.domain and v is not None and v.rank == 2 and v.dims is not None
    return flat and producer.inputs[0] is rows and rows.dims is not None and v.dims[1] == rows.dims[-1]  # type: ignore[union-attr, index]


# Writing ---------------------------------------------------------------------------------------------------------------


def _write(graph: Graph, parts: _Parts) -> None:
    head, width = parts.head, parts.weight.static_shape[1]  # type: ignore[index]
    forward = stage_builder(graph, head.loss)
    op: Any = forward
    tokens, size = head.words, _block(head.words)
    assert size is not None
    blocks = tokens // size
    rows = op.Reshape(parts.rows, [1, -1, width])
    weight = op.Reshape(parts.weight, [blocks, size, width])
    scores = op.MatMul(rows, op.Transpose(weight, perm=[0, 2, 1]))
    low = op.Sub(scores, op.ReduceMax(scores, axes=[0, 2], keepdims=1))
    powers = op.Exp(low)
    total = op.ReduceSum(powers, axes=[0, 2], keepdims=1)
    labels, kept = _labels(op, head)
    # Looked up, so that onnxruntime refuses a label that is no token.
    label = op.Gather(np.arange(tokens, dtype=np.int64), labels)
    count = op.Shape(label) if head.count is None else [head.count]
    row = op.Range(0, op.Reshape(count, []), 1) if head.count is None else np.arange(head.count, dtype=np.int64)
    start = op.Add(op.Mul(op.Div(label, size), op.Mul(count, size)), op.Mul(row, size))
    index = op.Add(start, op.Mod(label, size))
    losses = op.Sub(op.Log(op.Reshape(total, [-1])), op.Gather(op.Reshape(low, [-1]), index))
    loss = head.loss.outputs[0]
    assert loss is not None
    graph.replace(loss, _loss(op, head, losses, kept))
    stages = [forward]
    if head.change is not None and (parts.of_rows is not None or parts.of_weight is not None):
        stages.append(stage_builder(graph, head.change.op))
        op = stages[1]
        factor = op.constant(1.0, low.dtype) if head.factor is None else head.factor
        if factor.static_shape not in ((), (1,)):
            factor = op.Reshape(factor, [1, -1, 1])
        less = op.Expand(op.Reshape(op.Neg(factor), [-1]), op.Shape(index))
        change = op.Reshape(op.Mul(powers, op.Div(factor, total)), [-1])
        change = op.Reshape(op.ScatterElements(change, index, less, axis=0, reduction="add"), [blocks, -1, size])
        if parts.of_rows is not None:
            sums = op.ReduceSum(op.MatMul(change, weight), axes=[0], keepdims=0)
            graph.replace(parts.of_rows, sums if parts.of_rows.rank == 2 else op.Reshape(sums, list(parts.of_rows.shape)))
        if parts.of_weight is not None:
            product = op.MatMul(op.Transpose(change, perm=[0, 2, 1]), rows)
            graph.replace(parts.of_weight, op.Reshape(product, [tokens, width]))
    staged: list[Operator] = []
    for build in stages:
        assert build.stage is not None
        name_results(graph, build.stage, build.key)
        staged += build.stage
    graph.operators = in_order([*graph.operators, *staged], graph.resolve)


def _labels(op: Any, head: Head) -> tuple[Variable, Variable | None]:
    """Labels along one axis, and which of them count: the others are 0."""
    labels = op.Cast(op.Reshape(head.loss.inputs[1], [-1]), to=7)
    ignored = head.loss.attr("ignore_index")
    if ignored is None:
        return labels, None
    kept = op.Not(op.Equal(labels, ignored))
    return op.Mul(labels, op.Cast(kept, to=7)), op.Cast(kept, to=1)


def _loss(op: Any, head: Head, losses: Variable, kept: Variable | None) -> Variable:
    mean = head.loss.attr("reduction") in (None, "mean")
    if kept is None:
        result: Variable = (op.ReduceMean if mean else op.ReduceSum)(losses, keepdims=0)
        return result
    total = op.ReduceSum(op.Mul(losses, kept), keepdims=0)
    result = op.Div(total, op.ReduceSum(kept, keepdims=0)) if mean else total
    return result

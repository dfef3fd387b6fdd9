"""Attention as MatMul, Softmax and MatMul write it, with less work on its [queries, keys] matrices.

With P = Softmax(Q K^T + mask) and O = P V, the gradient of P is dP = dO V^T, and the sum over keys that Softmax's gradient takes,
sum(P dP), is sum(dO O) over the head's width: D in FlashAttention-2 (Dao 2023, arXiv:2307.08691, section 3.1.2).

Where a constant mask hides later keys from earlier queries, the queries are cut into blocks and each block reads the keys up to its
own end, so that the hidden part of P is neither computed nor held.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import are_same
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import is_written_for
from onnxgrad.core.ir.types import same_dims
from onnxgrad.core.ir.variable import Variable

__all__ = ["ATTENTION", "attention"]

_HIDDEN = -1e9
"""Scores that a mask lowers by so much have a weight of exactly 0 in float32."""
_LEAST_QUERIES, _BLOCKS = COSTS.count("attention.fewest_queries"), COSTS.count("attention.blocks")
"""From so many queries on, so many blocks are faster: measured at 512 and 1,024; at 256, two gained nothing."""


def attention(graph: Graph, target: Target) -> int:
    """Rewrite the sums of Softmax's gradient, and then causal attention by blocks of queries."""
    before = graph.replacements
    if graph.types() >= {"MatMul", "Mul", "ReduceSum", "Transpose"}:
        _Sums(graph).run()
        graph.settle()
    if "Softmax" not in graph.types():
        return graph.replacements - before
    chains = _Chains(graph)
    blocks = [b for op in graph.operators if op.type == "Softmax" and not op.domain and (b := chains.blocks_of(op)) is not None]
    if blocks:
        _cut(graph, blocks)
    return graph.replacements - before


ATTENTION = Pass("attention", attention, rounding="order", gain=CPU_FORMS)


class _Readers(Links):
    """Links, and what is a transpose of what."""

    def maker(self, v: Variable | None, op_type: str) -> Operator | None:
        op = None if v is None else self.makers.get(v)
        return op if op is not None and op.type == op_type and not op.domain else None

    def swapped(self, v: Variable | None) -> Variable | None:
        """Return the operand of the Transpose that computes ``v`` by swapping the last two axes; None where there is none."""
        op = self.maker(v, "Transpose")
        return op.inputs[0] if op is not None and _swaps(op) else None

    def are_transposed(self, v: Variable | None, w: Variable | None) -> bool:
        return v is not None and w is not None and (self.swapped(v) is w or self.swapped(w) is v)


def _swaps(op: Operator) -> bool:
    """Return whether a Transpose swaps the last two axes and keeps the others"""
    perm = op.attr("perm")
    if perm is None:
        rank = op.inputs[0].rank if op.inputs[0] is not None else None
        return rank == 2
    return len(perm) > 1 and list(perm) == [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2]


def _is_over_keys(op: Operator) -> bool:
    """Return whether a ReduceSum keeps its dimensions and sums over the last axis alone"""
    x, axes = op.inputs[0], op.inputs[1] if len(op.inputs) > 1 else None
    if x is None or x.rank is None or axes is None or axes.value is None or op.attr("keepdims") != 1:
        return False
    return [a % x.rank for a in axes.value.numpy().ravel().tolist()] == [x.rank - 1]


class _Sums(_Readers):
    """sum(P * (G V^T)) over the last axis is sum(G * (P V)) over that of V, where P V is computed anyway and is narrower."""

    def run(self) -> None:
        done: list[Operator] = []
        for op in self.graph.operators:
            if op.type != "ReduceSum" or op.domain:
                done.append(op)
                continue
            build = stage_builder(self.graph, op)
            total = self._narrower(build, op)
            if total is None or build.stage is None:
                done.append(op)
                continue
            assert op.outputs[0] is not None
            self.graph.replace(op.outputs[0], total)
            name_results(self.graph, build.stage, build.key)
            done.extend(build.stage)
        self.graph.operators = done

    def _narrower(self, build: Any, op: Operator) -> Variable | None:
        product = self.maker(op.inputs[0], "Mul")
        if product is None or not _is_over_keys(op):
            return None
        for x, p in (product.inputs, product.inputs[::-1]):
            backward = self.maker(x, "MatMul")
            if backward is None or p is None or x is None or not _have_same_dims(op, x, p):
                continue
            g, transposed = backward.inputs
            for forward in self.readers[p]:
                o = forward.outputs[0]
                if forward.type != "MatMul" or forward.domain or forward.inputs[0] is not p or o is None or g is None:
                    continue
                narrower = _have_same_dims(op, o, g) and _at_most(o.dims[-1], p.dims[-1])  # type: ignore[index]
                if narrower and self.are_transposed(forward.inputs[1], transposed):
                    total: Variable = build.ReduceSum(build.Mul(g, o), axes=op.inputs[1], keepdims=1)
                    return total
        return None


def _have_same_dims(op: Operator, v: Variable, w: Variable) -> bool:
    """Return whether two tensors have one shape: as far as is known where the gradient of Softmax says so, else certainly."""
    if is_written_for(op, "Softmax"):
        return v.dims is not None and v.dims == w.dims
    return same_dims(v.dims, w.dims)


def _at_most(width: Any, keys: Any) -> bool:
    return isinstance(width, int) and (not isinstance(keys, int) or width <= keys)


@dataclass
class _Blocks:
    """One attention: its operands, the operators that are replaced, and what they gave.

    ``kt`` is the second operand of the first product, [.., width, keys]; ``results`` give dQ, d(K^T) and dV.
    """

    q: Variable
    kt: Variable
    v: Variable
    mask: np.ndarray[Any, Any]
    scale: Variable | None
    softmax: Operator
    o: Operator
    gone: set[Operator]
    go: Variable | None = None
    results: list[Operator] = field(default_factory=list)


class _Chains(_Readers):
    """Finds attention over a constant causal mask, forward and, if there is one, the whole of its backward pass."""

    def blocks_of(self, softmax: Operator) -> _Blocks | None:
        p = softmax.outputs[0]
        scores = self.maker(softmax.inputs[0], "Add")
        if p is None or p.dims is None or p.dtype.name != "float32" or scores is None or p in self.returned:
            return None
        if softmax.attr("axis") not in (-1, len(p.dims) - 1):
            return None
        for mask, x in (scores.inputs, scores.inputs[::-1]):
            if mask is not None and x is not None and mask.value is not None and not mask.persistable:
                values = mask.value.numpy()
                if _is_causal(values, p.dims):
                    return self._chain(softmax, scores, x, values)
        return None

    def _chain(self, softmax: Operator, scores: Operator, x: Variable, mask: Any) -> _Blocks | None:
        gone = {scores, softmax}
        x, scale = self._without_scale(x, gone)
        product = self.maker(x, "MatMul")
        p = softmax.outputs[0]
        if product is None or p is None:
            return None
        gone.add(product)
        q, kt = product.inputs
        forward = [op for op in self.readers.get(p, ()) if op.type == "MatMul" and not op.domain and op.inputs[0] is p]
        if len(forward) != 1 or q is None or kt is None or forward[0].inputs[1] is None:
            return None
        if q.rank != p.rank or kt.rank != p.rank or forward[0].inputs[1].rank != p.rank:
            return None
        chain = _Blocks(q, kt, forward[0].inputs[1], mask, scale, softmax, forward[0], gone | {forward[0]})
        if len(self.readers[p]) > 1 and not self._backward(chain, p):
            return None
        return chain if self._is_closed(chain) else None

    def _without_scale(self, x: Variable, gone: set[Operator]) -> tuple[Variable, Variable | None]:
        scaled = self.maker(x, "Mul")
        if scaled is not None:
            for number, other in (scaled.inputs, scaled.inputs[::-1]):
                if number is not None and other is not None and number.value is not None and number.static_shape in ((), (1,)):
                    gone.add(scaled)
                    return other, number
        return x, None

    def _backward(self, chain: _Blocks, p: Variable) -> bool:
        """Add the operators that compute dQ, d(K^T) and dV to the chain; return whether they are there."""
        changes = [op for op in self.readers[p] if op.type == "Mul" and not op.domain]
        transposes = [op for op in self.readers[p] if op.type == "Transpose" and _swaps(op)]
        if len(changes) != 1 or len(transposes) != 1 or len(self.readers[p]) != 3:
            return False
        (dz,) = changes
        if not is_written_for(dz, "Softmax"):
            return False
        difference = next((s for v in dz.inputs if (s := self.maker(v, "Sub")) is not None), None)
        dp = self.maker(difference.inputs[0], "MatMul") if difference is not None else None
        if difference is None or dp is None or not self.are_transposed(dp.inputs[1], chain.v):
            return False
        chain.go = dp.inputs[0]
        total = self.maker(difference.inputs[1], "ReduceSum")
        product = self.maker(total.inputs[0], "Mul") if total is not None else None
        if total is None or product is None or not _is_over_keys(total) or set(product.inputs) != {chain.go, chain.o.outputs[0]}:
            return False
        chain.gone |= {dz, difference, dp, transposes[0], total, product}
        change = dz.outputs[0]
        readers = self.readers.get(change, []) if change is not None else []
        if chain.scale is not None:
            if len(readers) != 1 or readers[0].type != "Mul" or not any(v is chain.scale for v in readers[0].inputs):
                return False
            chain.gone.add(readers[0])
            change = readers[0].outputs[0]
            readers = self.readers.get(change, []) if change is not None else []
        products = [op for op in readers if op.type == "MatMul" and not op.domain]
        dq = [op for op in products if op.inputs[0] is change and self.are_transposed(op.inputs[1], chain.kt)]
        dk = [op for op in products if op.inputs[1] is change and self.are_transposed(op.inputs[0], chain.q)]
        pt = transposes[0].outputs[0]
        dv = (
            [op for op in self.readers.get(pt, ()) if op.type == "MatMul" and are_same(op.inputs, (pt, chain.go))]
            if pt is not None
            else []
        )
        if len(dq) != 1 or len(dk) != 1 or len(dv) != 1 or len(readers) != 2:
            return False
        chain.results = [dq[0], dk[0], dv[0]]
        chain.gone |= set(chain.results)
        return chain.go is not None and chain.go.rank == p.rank

    def _is_closed(self, chain: _Blocks) -> bool:
        """Return whether no other operator reads what is left out."""
        results = {op.outputs[0] for op in (chain.o, *chain.results)}
        inner = {v for op in chain.gone for v in op.outputs if v is not None} - results
        return not inner & self.returned and all(set(self.readers.get(v, ())) <= chain.gone for v in inner)


def _is_causal(mask: np.ndarray[Any, Any], dims: tuple[Any, ...]) -> bool:
    """Return whether there are queries enough for blocks, and the mask hides from each block all keys behind its end."""
    queries, keys = dims[-2:]
    if mask.shape[-2:] != (queries, keys) or mask.size != queries * keys or queries != keys:
        return False
    if queries < _LEAST_QUERIES or queries % _BLOCKS:
        return False
    values, size = mask.reshape(queries, keys), queries // _BLOCKS
    hidden = all((values[start : start + size, start + size :] <= _HIDDEN).all() for start in range(0, queries, size))
    return bool(hidden and (values > _HIDDEN).any(-1).all() and (values < np.inf).all())


# Writing ---------------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes one attention by blocks."""

    def __init__(self, graph: Graph, chain: _Blocks) -> None:
        self.graph, self.chain = graph, chain
        self.size = chain.mask.shape[-1] // _BLOCKS
        self.ends = [(b + 1) * self.size for b in range(_BLOCKS)]
        rank = chain.q.rank
        assert rank is not None
        self.swap = [*range(rank - 2), rank - 1, rank - 2]
        self.rows = rank - 2
        self.qs: list[Variable] = []
        self.kts: list[Variable] = []
        self.vs: list[Variable] = []
        self.ps: list[Variable] = []
        self.os: list[Variable] = []

    def forward(self, build: Any) -> list[Variable]:
        chain, values = self.chain, self.chain.mask.reshape(self.chain.mask.shape[-2:])
        self.qs = self._split(build, chain.q, self.rows)
        for b, (q, end) in enumerate(zip(self.qs, self.ends, strict=True)):
            last = end == self.ends[-1]
            kt = chain.kt if last else build.Slice(chain.kt, [0], [end], [self.rows + 1])
            v = chain.v if last else build.Slice(chain.v, [0], [end], [self.rows])
            scores = build.MatMul(q, kt)
            if chain.scale is not None:
                scores = build.Mul(scores, chain.scale)
            scores = build.Add(scores, np.ascontiguousarray(values[b * self.size : end, :end]))
            self.kts.append(kt)
            self.vs.append(v)
            self.ps.append(build.Softmax(scores, axis=-1))
        self.os = [build.MatMul(p, v) for p, v in zip(self.ps, self.vs, strict=True)]
        return [build.Concat(*self.os, axis=self.rows)]

    def backward(self, build: Any) -> list[Variable]:
        """dQ, d(K^T) and dV."""
        chain = self.chain
        gos = self._split(build, chain.go, self.rows)
        dqs: list[Variable] = []
        dks: list[list[Variable]] = [[] for _ in self.ends]
        dvs: list[list[Variable]] = [[] for _ in self.ends]
        for b, (q, kt, v, p) in enumerate(zip(self.qs, self.kts, self.vs, self.ps, strict=True)):
            total = build.ReduceSum(build.Mul(gos[b], self.os[b]), axes=[self.rows + 1], keepdims=1)
            dz = build.Mul(p, build.Sub(build.MatMul(gos[b], build.Transpose(v, perm=self.swap)), total))
            if chain.scale is not None:
                dz = build.Mul(dz, chain.scale)
            dqs.append(build.MatMul(dz, build.Transpose(kt, perm=self.swap)))
            dk = build.MatMul(build.Transpose(q, perm=self.swap), dz)
            dv = build.MatMul(build.Transpose(p, perm=self.swap), gos[b])
            for whole, parts, axis in ((dk, dks, self.rows + 1), (dv, dvs, self.rows)):
                for j, part in enumerate(self._split(build, whole, axis, b + 1)):
                    parts[j].append(part)
        return [
            build.Concat(*dqs, axis=self.rows),
            build.Concat(*(_sum(build, parts) for parts in dks), axis=self.rows + 1),
            build.Concat(*(_sum(build, parts) for parts in dvs), axis=self.rows),
        ]

    def _split(self, build: Any, v: Variable | None, axis: int, count: int | None = None) -> list[Variable]:
        count = _BLOCKS if count is None else count
        if count == 1:
            assert v is not None
            return [v]
        return list(build.Split(v, [self.size] * count, axis=axis, outputs=count))


def _sum(build: Any, parts: list[Variable]) -> Variable:
    total = parts[0]
    for part in parts[1:]:
        total = build.Add(total, part)
    return total


def _cut(graph: Graph, blocks: list[_Blocks]) -> None:
    """Put the blocks where the products stood that they replace: the first one of a backward pass."""
    forward = {chain.o: _Writer(graph, chain) for chain in blocks}
    backward = {op: writer for writer in forward.values() for op in writer.chain.results}
    gone = {op for chain in blocks for op in chain.gone}
    written: set[_Writer] = set()
    done: list[Operator] = []
    for op in graph.operators:
        build = stage_builder(graph, op)
        assert build.stage is not None
        if op in forward:
            _stand_in(graph, [op], forward[op].forward(build))
        elif op in backward and backward[op] not in written:
            written.add(backward[op])
            _stand_in(graph, backward[op].chain.results, backward[op].backward(build))
        name_results(graph, build.stage, build.key)
        done.extend(build.stage)
        if op not in gone:
            done.append(op)
    graph.operators = done


def _stand_in(graph: Graph, replaced: list[Operator], results: list[Variable]) -> None:
    for old, new in zip(replaced, results, strict=True):
        assert old.outputs[0] is not None
        graph.replace(old.outputs[0], new)

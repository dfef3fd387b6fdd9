"""Updates of large state in a loop over pieces: what an optimizer computes on the way stays in a processor's cache.

Adam's chain of elementwise operators reads and writes every tensor in main memory once per operator, and holds a few results of
the parameter's size. A Scan over [rows, 1, columns] computes one row at a time. The state itself must be an input and an output of
that shape, since a Reshape of an output copies; it is the same memory, which whoever runs the graph binds in this shape.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.order import in_order
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.graph_passes.scaled_sums import is_single, number_of, read_twice, scaled_addend
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.bodies import as_tuple, write_body
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traits import ELEMENTWISE
from onnxgrad.core.ir.traverse import substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["PIECE", "TILE_UPDATES", "tile_updates"]

PIECE = COSTS.count("tile_updates.piece")
"""Elements of a tensor that each thread computes at a time: what they take stays in a processor's cache."""

_FEW = COSTS.count("tile_updates.fewest")
"""Rows, and operators of a chain, below which nothing is gained."""


class _Chain:
    """Elementwise operators over tensors of one shape, of which nothing but new state is read outside."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.operators: list[Operator] = []

    def read(self) -> list[Variable]:
        """The tensors that it takes from outside"""
        computed = {v for op in self.operators for v in op.outputs}
        operands = (v for op in self.operators for v in op.inputs if v is not None)
        return [v for v in dict.fromkeys(operands) if v not in computed and v.static_shape == self.shape]


def tile_updates(graph: Graph, target: Target) -> int:
    """Write chains of at least 4 elementwise operators that end in new state of 4 rows or more as Scans.

    Inputs and outputs that hold such state are then [rows, 1, columns], so that sums with a scaled tensor are products
    (``scaled_sums``); ``graph.own_shapes`` has what the state's own shape is.

    A row has at most ``target.chunk`` elements, and at least half of that, or the chain stays as it is.
    """
    length = target.chunk
    links, new = Links(graph), set(graph.updates.values())
    inputs, fetched = set(graph.inputs), links.returned - new
    whole: dict[Variable, Variable] = {}
    needed = read_twice(links)
    written: list[Operator] = []
    for chain in _chains(graph, links, new):
        size = prod(chain.shape)
        columns = _divisor(size, length)
        outside = [v for v in chain.read() if v.op is None]
        is_worth = size >= _FEW * length and len(chain.operators) >= _FEW
        if is_worth and columns and not fetched.intersection(outside) and inputs.issuperset(outside):
            written += _write(graph, chain, (size // columns, 1, columns), new, needed, whole)
    if written:
        substitute(graph.operators, whole)
        graph.operators = in_order([*graph.operators, *written], graph.resolve)
    return len(written)


TILE_UPDATES = Pass("tile_updates", tile_updates, when=lambda graph, target: bool(target.chunk), rounding="order", gain=CPU_FORMS)


def _chains(graph: Graph, links: Links, new: set[Variable]) -> list[_Chain]:
    of: dict[Operator, _Chain] = {}
    for op in reversed(graph.operators):
        y = op.outputs[0] if len(op.outputs) == 1 else None
        if y is None or op.domain or op.type not in ELEMENTWISE or not y.static_shape or (y in links.returned and y not in new):
            continue
        shape, readers = y.static_shape, links.readers.get(y, [])
        joined = {of[reader]: None for reader in readers if reader in of and of[reader].shape == shape}
        is_inside = all(reader in of and of[reader] in joined for reader in readers)
        if not is_inside or not all(v is None or v.static_shape == shape or is_single(v) for v in op.operands()):
            continue
        chain, *others = joined or [_Chain(shape)]
        for other in others:
            chain.operators += other.operators
            of.update(dict.fromkeys(other.operators, chain))
        chain.operators.append(op)
        of[op] = chain
    position = {op: i for i, op in enumerate(graph.operators)}
    for chain in dict.fromkeys(of.values()):
        chain.operators.sort(key=position.__getitem__)
    return list(dict.fromkeys(of.values()))


@lru_cache
def _divisor(size: int, length: int) -> int:
    """The largest number of columns that rows of a tensor can have; 0 for none."""
    columns = np.arange(length, length // 2, -1)
    divisors = columns[size % columns == 0]
    return int(divisors[0]) if divisors.size else 0


def _write(
    graph: Graph,
    chain: _Chain,
    rows: tuple[int, int, int],
    new: set[Variable],
    needed: set[Variable],
    whole: dict[Variable, Variable],
) -> list[Operator]:
    """The Scan, and the Reshapes around it.

    Args:
        new: values of state.
        needed: what is read twice.
        whole: gets what others read of state that it takes.
    """
    build = stage_builder(graph, chain.operators[-1])
    assert build.stage is not None
    addends = {op: addend for op in chain.operators if (addend := scaled_addend(op, needed)) is not None}
    numbers = {op: number_of(build, op, s) for op, (s, _, _) in addends.items()}
    absorbed = {v.op for op, (_, y, x) in addends.items() for v in op.inputs if v is not None and v is not x and v is not y}
    read, results = chain.read(), [y for op in chain.operators for y in op.outputs if y is not None and y in new]
    operands = []
    for v in read:
        if v.persistable and v.op is None:
            if v not in whole:
                graph.own_shapes[v] = chain.shape
                v.type, v.declared = TensorType(v.dtype, rows), None
                whole[v] = build.Reshape(v, list(chain.shape))
            operands.append(v)
        else:
            operands.append(build.Reshape(v, list(rows)))

    def body(inner: Any, *row: Variable) -> tuple[Variable, ...]:
        of: dict[Variable | None, Variable] = dict(zip(read, row, strict=True))
        for op in chain.operators:
            if op in addends:
                _, y, x = addends[op]
                of[op.outputs[0]] = inner.Gemm(numbers[op], of.get(y, y), of.get(x, x))
            elif op not in absorbed:
                _repeat(inner.block, op, of, rows[1:])
        return tuple(of[y] for y in results)

    block = write_body(build, "chunk", [("row", TensorType(v.dtype, rows[1:])) for v in read], body)
    tiles = as_tuple(build.Scan(*operands, body=block, num_scan_inputs=len(operands), outputs=len(results)))
    for old, scanned in zip(results, tiles, strict=True):
        graph.replace(old, scanned)
        graph.own_shapes[scanned] = chain.shape
    name_results(graph, build.stage, build.key)
    return build.stage


def _repeat(block: Block, op: Operator, of: dict[Variable | None, Variable], row: tuple[int, int]) -> None:
    copy = Operator(block, op.type, [None if v is None else of.get(v, v) for v in op.inputs], [], dict(op.attrs))
    (y,) = op.outputs
    assert y is not None
    name = block.program.fresh_name(f"{y.name}/chunk")
    of[y] = block.register(Variable(block, name, TensorType(y.dtype, row), copy))
    copy.outputs, copy.name, copy.role = [of[y]], name, op.role
    block.append(copy)

"""In which order to write the operators of a training step, so that onnxruntime holds few tensors at a time.

onnxruntime does not run a graph in the order of its file: it goes backwards from the operators that nobody reads, the last of them
first, and at each operator to that operand first whose producer stands last. So of two operators that do not depend on each other,
the one that stands later in the file runs first. A file in the natural order makes it run all gradients of activations before
the gradient of the first weight, holding everything until then.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from typing import Any

from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.sizes import bytes_of
from onnxgrad.core.ir.variable import Variable

__all__ = ["in_order", "order_for_memory", "order_of_file", "order_of_run", "peak_of_run"]


def order_for_memory(operators: list[Operator]) -> list[Operator]:
    """Reorder operators so that onnxruntime runs them forward, then backward, each update as soon as it can be computed.

    Graphs without a backward pass keep their order.

    Args:
        operators: of the main graph, in an order that can be run.
    """
    if all(op.role is Role.FORWARD for op in operators):
        return operators
    maker = {v: i for i, op in enumerate(operators) for v in op.outputs if v is not None}
    reads = [{maker[v] for v in op.operands() if v in maker} for op in operators]
    return [operators[i] for i in order_of_file(reads, _positions(operators, reads))]


def peak_of_run(operators: list[Operator], apart: Collection[Variable] = (), *, unknown_is_one: bool = False) -> int | None:
    """The most bytes of results that live at once when onnxruntime runs a file with operators in this order; outputs live on.

    Memory that operators take inside, as convolutions do, is not counted, nor what is computed in place counted less.

    Args:
        operators: of the main graph.
        apart: results that are not counted, as they lie in memory that is given.
        unknown_is_one: whether an unknown dimension counts as 1.

    Returns:
        None if a result has no known size, unless ``unknown_is_one``.
    """
    maker = {v: i for i, op in enumerate(operators) for v in op.outputs if v is not None}
    reads = [{maker[v] for v in op.operands() if v in maker} for op in operators]
    run = order_of_run(reads)
    last = {j: i for i in run for j in reads[i]}
    given = set(apart)
    sizes = []
    for op in operators:
        results = [v for v in op.outputs if v is not None and v not in given]
        if any(v.static_shape is None for v in results) and not unknown_is_one:
            return None
        sizes.append(sum(map(bytes_of, results)))
    alive = peak = 0
    for i in run:
        alive += sizes[i]
        peak = max(peak, alive)
        alive -= sum(sizes[j] for j in reads[i] if last[j] == i)
    return peak


def order_of_run(reads: Sequence[set[int]]) -> list[int]:
    """The order in which onnxruntime runs what is in a file, as the head of this module says."""
    read = set().union(*reads)
    order: list[int] = []
    done: set[int] = set()
    todo = [(i, False) for i in range(len(reads)) if i not in read]
    while todo:
        i, is_ready = todo.pop()
        if is_ready:
            order.append(i)
        elif i not in done:
            done.add(i)
            todo.append((i, True))
            todo += [(j, False) for j in sorted(reads[i]) if j not in done]
    return order


def in_order(operators: Sequence[Operator], resolve: Callable[[Variable], Variable]) -> list[Operator]:
    """Return the operators in topological order where they read ``resolve(v)`` for ``v``, else in their own order."""
    maker = {v: i for i, op in enumerate(operators) for v in op.outputs if v is not None}
    readers: list[list[int]] = [[] for _ in operators]
    missing = [0] * len(operators)
    for i, op in enumerate(operators):
        for j in {maker[x] for v in op.operands() if v is not None and (x := resolve(v)) in maker}:
            readers[j].append(i)
            missing[i] += 1
    ready = [i for i, count in enumerate(missing) if count == 0]
    done: list[Operator] = []
    while ready:
        i = heapq.heappop(ready)
        done.append(operators[i])
        for j in readers[i]:
            missing[j] -= 1
            if missing[j] == 0:
                heapq.heappush(ready, j)
    return done


def order_of_file(reads: Sequence[set[int]], position: Sequence[Any]) -> list[int]:
    """Return the file order of operators that are to run in the order of ``position``; ``reads`` are the operators before each."""
    open_readers = [0] * len(reads)
    for operands in reads:
        for i in operands:
            open_readers[i] += 1
    ready = [(position[i], i) for i, count in enumerate(open_readers) if count == 0]
    heapq.heapify(ready)
    backwards: list[int] = []
    while ready:
        _, i = heapq.heappop(ready)
        backwards.append(i)
        for j in reads[i]:
            open_readers[j] -= 1
            if open_readers[j] == 0:
                heapq.heappush(ready, (position[j], j))
    return backwards[::-1]


def _positions(operators: list[Operator], reads: list[set[int]]) -> list[tuple[int, int]]:
    """When each operator is to run: as it stands, but an operator of the optimizer right after the gradients it reads"""
    positions: list[tuple[int, int]] = []
    for i, op in enumerate(operators):
        after = max((positions[j][0] for j in reads[i]), default=-1)
        positions.append((after, i) if op.role is Role.OPTIMIZE else (i, i))
    return positions

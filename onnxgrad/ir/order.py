"""In which order to write the operators of a training step, so that onnxruntime holds few tensors at a time.

onnxruntime does not run a graph in the order of its file: it goes backwards from the operators that nobody reads, the last of them
first, and at each operator to that operand first whose producer stands last. So of two operators that do not depend on each other,
the one that stands later in the file runs first. A file in the natural order makes it run all gradients of activations before
the gradient of the first weight, holding everything until then.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from onnxgrad.ir.operator import Operator, Role
from onnxgrad.ir.variable import Variable

__all__ = ["order_for_memory", "order_of_file"]


def order_for_memory(operators: list[Operator], name_of: Callable[[Variable], str]) -> list[Operator]:
    """The same operators in an order that onnxruntime turns into: forward, then backward, each update as soon as it can be made.

    Graphs without a backward pass keep their order.

    Args:
        operators: of the main graph, in an order that can be run.
        name_of: the name of a variable in the file; two that have the same are one tensor there.
    """
    if all(op.role is Role.FORWARD for op in operators):
        return operators
    maker = {name_of(v): i for i, op in enumerate(operators) for v in op.outputs if v is not None}
    read = [{name_of(v) for v in op.operands() if v is not None} for op in operators]
    reads = [{maker[name] for name in names if name in maker} for names in read]
    return [operators[i] for i in order_of_file(reads, _places(operators, reads))]


def order_of_file(reads: Sequence[set[int]], place: Sequence[Any]) -> list[int]:
    """In which order to write operators that are to run in the order of ``place``; ``reads`` are the operators before each."""
    open_readers = [0] * len(reads)
    for found in reads:
        for i in found:
            open_readers[i] += 1
    ready = [(place[i], i) for i, count in enumerate(open_readers) if count == 0]
    heapq.heapify(ready)
    backwards: list[int] = []
    while ready:
        _, i = heapq.heappop(ready)
        backwards.append(i)
        for j in reads[i]:
            open_readers[j] -= 1
            if open_readers[j] == 0:
                heapq.heappush(ready, (place[j], j))
    return backwards[::-1]


def _places(operators: list[Operator], reads: list[set[int]]) -> list[tuple[int, int]]:
    """When each operator is to run: as it stands, but an operator of the optimizer right after the gradients it reads"""
    places: list[tuple[int, int]] = []
    for i, op in enumerate(operators):
        after = max((places[j][0] for j in reads[i]), default=-1)
        places.append((after, i) if op.role is Role.OPTIMIZE else (i, i))
    return places

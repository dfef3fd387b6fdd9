"""Choose where to cut a forward pass into stages of a pipeline that hold about as much each.

Tests: tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.sizes import bytes_of
from onnxgrad.core.ir.traverse import dependent_operators
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["choose_stages"]

_COPIES = COSTS.count("pipeline_cuts.copies_of_a_weight")
"""What a weight takes beside an activation: itself, its gradient, and two moments of an optimizer."""


def choose_stages(graph: Graph, loss: Variable, count: int) -> list[list[Variable]]:
    """The cuts behind all stages but the last, as ``make_pipeline`` takes them.

    A cut lies where the fewest values cross, and among these where the stages come closest to equal bytes: those of weights four
    times, as an optimizer holds two more numbers of each and a gradient, and those of the activations of one example.

    Args:
        graph: plain forward operators.
        loss: of the graph.
        count: of stages.

    Raises:
        ArgumentError: if there are less places than stages.
    """
    operators = _leading_to(graph.operators, loss)
    states = [v for v in graph.inputs if v.persistable] + [
        v for op in operators for v in op.operands() if v is not None and v.value is not None
    ]
    weighed = {v for op in dependent_operators(operators, [v for v in states if v.rank]) for v in op.outputs if v is not None}
    inputs = [v for v in graph.inputs if not v.persistable]
    fed = {v for op in dependent_operators(operators, inputs) for v in op.outputs if v is not None}
    passed = {v for v in weighed & fed if v.is_float}
    last = {v: number for number, op in enumerate(operators) for v in op.operands() if v is not None}
    positions: dict[int, list[Variable]] = {}
    alive: dict[Variable, None] = {}
    for number, op in enumerate(operators[:-1]):
        alive.update(dict.fromkeys(v for v in op.outputs if v is not None and v in passed))
        alive = {v: None for v in alive if last.get(v, number) > number}
        if alive and any(v in alive for v in op.outputs if v is not None):
            positions[number] = list(alive)
    behind = list(accumulate(_costs(operators)))
    for width in sorted({len(values) for values in positions.values()}):
        cuts = _balanced({n: values for n, values in positions.items() if len(values) <= width}, behind, count, operators)
        if cuts is not None:
            return cuts
    raise ArgumentError(f"this model has no {count} stages that follow each other. Take fewer, or name the cuts.")


def _leading_to(operators: Sequence[Operator], loss: Variable) -> list[Operator]:
    """The operators that a loss depends on, in order"""
    wanted, ops = {loss}, []
    for op in reversed(operators):
        if any(v in wanted for v in op.outputs if v is not None):
            ops.append(op)
            wanted.update(v for v in op.operands() if v is not None)
    return ops[::-1]


def _costs(operators: Sequence[Operator]) -> list[int]:
    """Bytes that each operator brings into a stage"""
    seen: set[Variable] = set()
    costs = []
    for op in operators:
        new = [v for v in op.operands() if v is not None and v.op is None and v not in seen]
        seen.update(new)
        weights = sum(bytes_of(v) for v in new if v.persistable or v.value is not None)
        costs.append(_COPIES * weights + sum(bytes_of(v) for v in op.outputs if v is not None))
    return costs


def _balanced(
    positions: dict[int, list[Variable]], behind: Sequence[int], count: int, operators: Sequence[Operator]
) -> list[list[Variable]] | None:
    """The cuts nearest to equal shares of the costs, each computed from the one before it; None if there are too few positions"""
    cuts: list[list[Variable]] = []
    begin, reached = -1, set[Variable]()
    for number in range(1, count):
        open_ = {}
        for position, values in positions.items():
            candidates = [v for v in values if not cuts or v in reached]
            if position > begin and candidates:
                open_[position] = candidates
        if len(open_) < count - number:
            return None
        ahead = sorted(open_)[: len(open_) - (count - number) + 1]
        done = behind[begin] if begin >= 0 else 0
        goal = done + (behind[-1] - done) / (count - number + 1)
        begin = min(ahead, key=lambda position: (abs(behind[position] - goal), position))
        cuts.append(open_[begin])
        reached = {v for op in dependent_operators(operators, cuts[-1]) for v in op.outputs if v is not None}
    return cuts

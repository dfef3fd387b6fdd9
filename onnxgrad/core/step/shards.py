"""Share out the application of gradients over ranks: each updates a range of elements, and holds the optimizer's state of these.

A tensor is shared out where each element is updated for itself, and by norms of whole tensors: a rank computes these of its range,
and ranks add them up. What is updated otherwise (rows and columns of Adafactor) every rank updates whole.

Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models", 2020, stages 1 and 2.

Tests: tests/distributed/test_sharded.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import NamedTuple

from onnxgrad.core.graph.contract import GraphPass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.plan import Plan, make_plan
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.graph_passes.scaled_sums import is_single
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import ELEMENTWISE
from onnxgrad.core.ir.traverse import substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.step.cut import Cut, is_applied, is_graded, is_small
from onnxgrad.core.step.stages import sum_over_ranks
from onnxgrad.errors import ArgumentError

__all__ = ["RangePart", "Shards", "Share", "range_parts", "shares_of_stages", "size_of_pieces", "sums_over_shares"]

_NORMS = {"ReduceSum": "ReduceSum", "ReduceSumSquare": "ReduceSumSquare", "ReduceL1": "ReduceL1", "ReduceL2": "ReduceSumSquare"}
"""Norms of a tensor, and the sum over its ranges that each is made of."""


class Share(NamedTuple):
    """The elements of a tensor, in the order in which they lie, that a rank updates: from ``start`` to before ``stop``."""

    rank: int
    start: int
    stop: int


class Shards(NamedTuple):
    """The owners of state: which rank updates which elements.

    Attributes:
        program: whose optimizers update it.
        cut: where gradients are applied.
        rank: of this process.
        states: the shares of each large state that ranks share out; no element is in two.
        gradients: the shares of each gradient of which a rank reads its share alone.
        norms: norms of whole tensors that updates by shares read, besides what ``cut`` computes first.
        apart: whether a rank alone has what it updates, weights included, as in a pipeline.
    """

    program: Program
    cut: Cut
    rank: int
    states: dict[Variable, list[Share]]
    gradients: dict[Variable, list[Share]]
    norms: list[Variable]
    apart: bool = False

    def own(self, v: Variable) -> tuple[int, int]:
        """The elements of a state or a gradient that this rank updates or reads; (0, 0) where there are none."""
        shares = self.states[v] if v in self.states else self.gradients[v]
        return next(((start, stop) for rank, start, stop in shares if rank == self.rank), (0, 0))

    def held(self) -> list[Variable]:
        """The state of which a rank holds its share alone; weights all hold, as the forward passes of all read them."""
        return [v for v in self.states if self.apart or not isinstance(v, Parameter)]


class RangePart(NamedTuple):
    """State that is updated element by element.

    Attributes:
        states: of one shape, updated together.
        gradient: the one that this reads.
        norms: of whole tensors, which it reads.
    """

    states: list[Variable]
    gradient: Variable
    norms: list[Variable]


def range_parts(program: Program, cut: Cut) -> list[RangePart]:
    """Find the parts of a cut that ranks can share out by ranges of elements; each rank updates the others whole.

    Args:
        program: that ``minimize`` was called on.
        cut: of the program.
    """
    plan = _plan_of(program, cut)
    sources = _sources(plan, cut)
    new = [[plan.resolve(cut.updates[v]) for v in states] for states in cut.parts]
    reads = [set().union(*(sources.of.get(v, ()) for v in values)) for values in new]
    readers = Counter(v for read in reads for v in read)
    # The part for which alone a value is computed.
    shared, part_of = set(cut.shared), {v: number for number, values in enumerate(new) for v in values}
    for op in reversed(plan.operators):
        number = next((part_of[v] for v in op.outputs if v in part_of), None)
        if number is not None and op.role is Role.OPTIMIZE:
            part_of.update((v, number) for v in _resolved(plan, op) if v not in shared)
    parts = []
    for number, (states, values, read) in enumerate(zip(cut.parts, new, reads, strict=True)):
        gradients = [v for v in cut.gradients if v in read]
        shapes = {v.static_shape for v in [*states, *values, *read]}
        if len(gradients) != 1 or len(shapes) != 1 or None in shapes:
            continue
        if read.difference(states, gradients) or not read.isdisjoint(values):
            continue
        (gradient,) = gradients
        if is_graded(gradient) and readers[gradient] == 1 and sources.mixed.isdisjoint([*states, gradient]):
            norms = [v for v in sources.norms if part_of.get(v) == number]
            parts.append(RangePart(states, gradient, norms))
    return parts


class _Sources(NamedTuple):
    """The large states and gradients that values are computed of.

    Attributes:
        of: those of each large value.
        norms: of whole tensors.
        mixed: those of which something is computed that is neither a norm nor element by element.
    """

    of: dict[Variable, set[Variable]]
    norms: list[Variable]
    mixed: set[Variable]


def _plan_of(program: Program, cut: Cut) -> Plan:
    return make_plan(program, [new for new in cut.updates.values() if is_applied(new)])


def _resolved(plan: Plan, op: Operator) -> list[Variable]:
    """The operands of an operator as they are really computed"""
    return [plan.resolve(v) for v in op.operands() if v is not None]


def _sources(plan: Plan, cut: Cut) -> _Sources:
    """What operators of the optimizer compute large values of"""
    inputs = [*(v for states in cut.parts for v in states), *(v for v in cut.gradients if not is_small(v))]
    sources = _Sources({v: {v} for v in inputs}, [], set())
    for op in plan.operators:
        operands = _resolved(plan, op)
        read = set().union(*(sources.of.get(v, ()) for v in operands))
        if op.role is not Role.OPTIMIZE or not read:
            continue
        results = [v for v in op.outputs if v is not None]
        shapes = {v.static_shape for v in [*operands, *results] if not is_single(v)}
        is_standard = op.domain in ("", "ai.onnx")
        if is_standard and op.type in _NORMS and is_single(results[0]):
            sources.norms.append(results[0])
        elif not is_standard or op.type not in ELEMENTWISE or len(shapes) != 1:
            sources.mixed.update(read)
        sources.of.update((v, read) for v in results if not is_single(v))
    return sources


def size_of_pieces(graph: Graph) -> int | None:
    """Elements of the large tensors of a graph, if each element of its results depends on the same one of its operands alone."""
    shapes = {v.static_shape for v in graph.inputs if not is_small(v)} | {v.static_shape for _, v in graph.outputs}
    shape = shapes.pop()
    if shapes or shape is None:
        return None

    def fits(v: Variable | None) -> bool:
        return v is None or v.static_shape == shape or is_single(v)

    for op in graph.operators:
        if op.domain not in ("", "ai.onnx") or op.type not in ELEMENTWISE or not all(map(fits, [*op.operands(), *op.outputs])):
            return None
    produced = {v for op in graph.operators for v in op.outputs}
    return prod(shape) if all(v in produced for _, v in graph.outputs) else None


def shares_of_stages(program: Program, cut: Cut, rank: int, rank_of: Mapping[str, int]) -> Shards:
    """Give each part of the state, weights included, to the stage of a pipeline that has its layers.

    Args:
        program: that ``minimize`` was called on.
        cut: of the program.
        rank: of this process.
        rank_of: the stage of each parameter, by name.

    Raises:
        ArgumentError: if two parameters of different stages are updated together.
    """
    plan = _plan_of(program, cut)
    sources = _sources(plan, cut).of
    shares: dict[Variable, list[Share]] = {}
    readers: Counter[Variable] = Counter()
    for states in cut.parts:
        read = set().union(*(sources.get(plan.resolve(cut.updates[v]), ()) for v in states)).intersection(cut.gradients)
        readers.update(read)
        owner = _stage_of(states, rank_of)
        shares.update((v, [Share(owner, 0, prod(v.static_shape or ()))]) for v in [*states, *read])
    # All ranks compute small values: of whole gradients, where these are no norms.
    mixed = _sources(make_plan(program, [*cut.shared, *cut.small]), cut).mixed
    gradients = {v: shares[v] for v in cut.gradients if readers[v] == 1 and v not in mixed}
    return Shards(program, cut, rank, {v: shares[v] for states in cut.parts for v in states}, gradients, [], apart=True)


def _stage_of(part: Sequence[Variable], rank_of: Mapping[str, int]) -> int:
    ranks = {rank_of[v.name] for v in part if v.name in rank_of}
    if len(ranks) != 1:
        names = ", ".join(v.name for v in part if isinstance(v, Parameter))
        raise ArgumentError(f"{names} are updated together, but belong to ranks {sorted(ranks)}. Give them one rank.")
    return ranks.pop()


# Norms of whole tensors --------------------------------------------------------------------------------------------------------


def sums_over_shares(own: Mapping[Variable, tuple[int, int]], whole: Collection[Variable]) -> GraphPass:
    """The pass that computes norms of tensors of the ranges that this rank has, and adds them up over ranks.

    Args:
        own: for inputs of the graph, the elements of this rank; such an input is a row of these.
        whole: inputs among them that are given whole.
    """

    def run(graph: Graph, target: Target) -> int:
        before = graph.replacements
        _add_up(graph, own, set(whole))
        return graph.replacements - before

    return GraphPass("sums_over_shares", run, rounding="order", gain="docs/use/scale.md")


def _add_up(graph: Graph, own: Mapping[Variable, tuple[int, int]], whole: Collection[Variable]) -> None:
    lengths: dict[Variable, int] = {}
    rows: dict[Variable, Variable] = {}
    first = stage_builder(graph, None, key="share")
    for v, (start, stop) in own.items():
        row = v
        if v in whole:
            row = rows[v] = first.Slice(first.Reshape(v, [-1]), [start], [stop])
        row.type, row.declared = TensorType(v.dtype, (stop - start,)), None
        lengths[row] = stop - start
    substitute(graph.operators, rows)
    name_results(graph, first.stage or [], first.key)
    done = list(first.stage or [])
    # Of what depends on a sum over ranks: how many stages lie before it, and the last sum.
    after: dict[Variable, tuple[int, Variable]] = {}
    for op in graph.operators:
        read = [after[v] for v in op.operands() if v in after]
        stages, last = max(read, key=lambda one: one[0], default=(0, None))
        if last is not None:
            after.update((v, (stages, last)) for v in op.outputs if v is not None)
        length, y = next((lengths[v] for v in op.operands() if v is not None and v in lengths), None), op.outputs[0]
        if length is None or y is None:
            done.append(op)
        elif op.type not in _NORMS:
            done.append(op)
            for result in op.outputs:
                if result is not None and not is_single(result):
                    result.type, result.declared = TensorType(result.dtype, (length,)), None
                    lengths[result] = length
        else:
            build = stage_builder(graph, op)
            if length:
                local = build.emit(_NORMS[op.type], [op.inputs[0]], {"keepdims": 0})
            else:
                # Of nothing it is 0, also where this could be computed of nothing; in the stage in which others add up.
                zero = build.constant(0, y.dtype)
                local = zero if last is None else build.Where(build.Equal(last, last), zero, zero)
            total = sum_over_ranks(build, local)
            after[total] = after[y] = (stages + 1, total)
            total = build.Sqrt(total) if op.type == "ReduceL2" else total
            graph.replace(y, build.Reshape(total, list(y.static_shape)) if y.static_shape else total)
            name_results(graph, build.stage or [], build.key)
            done += build.stage or []
    graph.operators = done
    graph.settle()
    graph.take_constants()

"""The application of gradients shared out over ranks: each updates some parameters, and holds the optimizer's state of these alone.

Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models", 2020, stages 1 and 2.

Tests: tests/distributed/test_sharded.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.compile.door import compile
from onnxgrad.core.graph.contract import GraphPass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import name_results, return_instead, stage_builder
from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import needed_operators
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.step.cut import Cut, cut_exchanged
from onnxgrad.core.step.stages import sum_over_ranks
from onnxgrad.errors import ArgumentError

__all__ = ["Shards", "make_shards"]


class Shards(NamedTuple):
    """The owners of state: which rank updates which.

    Attributes:
        program: whose optimizers update it.
        cut: where gradients are applied.
        owned: for each rank, the large state that it alone updates.
        owners: by gradient, the rank whose update reads it; those that all read are left out.
        statistics: names of running statistics, which are state that an optimizer keeps where gradients overflow.
        apart: whether what a rank updates is nobody else's, weights included, as in a pipeline.
    """

    program: Program
    cut: Cut
    owned: list[list[Variable]]
    owners: dict[Variable, int]
    statistics: frozenset[str]
    apart: bool = False

    def is_spread(self, v: Variable) -> bool:
        """Whether state that one rank updates is held by all, as their forward passes read it."""
        return not self.apart and (isinstance(v, Parameter) or v.name in self.statistics)

    def names(self) -> list[list[str]]:
        """Of the state that each rank updates."""
        return [[v.name for v in states] for states in self.owned]

    def spread(self, rank: int) -> list[Variable]:
        """The state that a rank gives the others when it has updated it."""
        return [v for v in self.owned[rank] if self.is_spread(v)]

    def held(self, rank: int) -> list[Variable]:
        """The state that a rank alone holds."""
        return [v for v in self.owned[rank] if not self.is_spread(v)]

    def bytes_of_state(self, rank: int) -> int:
        """Bytes of the optimizer's large state that a rank holds."""
        return sum(_bytes(v) for v in self.owned[rank] if not isinstance(v, Parameter))


def make_shards(program: Program, count: int, rank_of: Mapping[str, int] | None = None, cut: Cut | None = None) -> Shards:
    """Share out what an optimizer updates.

    Args:
        program: that ``minimize`` was called on. Where it adds gradients up, it is the sums that are applied.
        count: number of ranks.
        rank_of: the rank of each parameter, by name, which alone holds it; None to balance bytes.
        cut: of the program, if it is known.

    Raises:
        ArgumentError: if no optimizer updates the program, what it reads is fed, or two parameters of different ranks are
            updated together.
    """
    if cut is None:
        cut = cut_exchanged(program, "whole" if program.plan.accumulation is None else "apply")
    owned: list[list[Variable]] = [[] for _ in range(count)]
    load = [0] * count
    for part in sorted(cut.parts, key=lambda part: -sum(map(_bytes, part))):
        rank = load.index(min(load)) if rank_of is None else _owner_of(part, rank_of)
        owned[rank] += part
        load[rank] += sum(map(_bytes, part))
    readers: dict[Variable, set[int]] = {}
    for rank, states in enumerate(owned):
        if states:
            operands = [*cut.gradients, *cut.shared]
            graph = compile(program, [program.updates[v] for v in states], inputs=operands, state_as_inputs=True, updates=False)
            inputs = set(graph.inputs)
            for v in cut.gradients:
                if graph.of(v) in inputs:
                    readers.setdefault(v, set()).add(rank)
    owners = {v: ranks.pop() for v, ranks in readers.items() if len(ranks) == 1}
    normalising = [op for op in program.global_block().ops if op.type == "BatchNormalization" and not op.domain]
    statistics = frozenset(v.name for op in normalising for v in op.inputs[3:5] if v is not None)
    return Shards(program, cut, owned, owners, statistics, rank_of is not None)


def _bytes(v: Variable) -> int:
    return bytes_needed(v.dtype, v.static_shape or ())


def _owner_of(part: Sequence[Variable], rank_of: Mapping[str, int]) -> int:
    ranks = {rank_of[v.name] for v in part if v.name in rank_of}
    if len(ranks) != 1:
        names = ", ".join(v.name for v in part if isinstance(v, Parameter))
        raise ArgumentError(f"{names} are updated together, but belong to ranks {sorted(ranks)}. Give them one rank.")
    return ranks.pop()


# Sums over the gradients of all ranks ------------------------------------------------------------------------------------------


def sums_over_ranks(owners: Mapping[Variable, int], rank: int) -> GraphPass:
    """The pass that lets a rank compute what depends on its gradients, and adds up what depends on those of several.

    A value of which only one rank has the operands is that of the others too once zeros are added to it.
    """

    def run(graph: Graph, target: Target) -> int:
        before = graph.replacements
        returned = _reduce_parts(graph, owners, rank)
        return graph.replacements - before + returned

    return GraphPass("sums_over_ranks", run, rounding="order", gain="docs/use/scale.md")


def _reduce_parts(graph: Graph, owners: Mapping[Variable, int], rank: int) -> int:
    """How many results of one rank are given to all"""
    of: dict[Variable, int | None] = dict(owners)  # None: every rank computes it
    everywhere: dict[Variable, Variable] = {}
    done: list[Operator] = []

    def exchanged(build: Any, v: Variable) -> Variable:
        """A value of one rank, on all"""
        if v not in everywhere:
            is_bool = v.dtype.name == "bool"
            zeros = build.constant(np.zeros(v.static_shape or (), np.float32 if is_bool else v.dtype.numpy))
            total = sum_over_ranks(build, build.Cast(v, to=1 if is_bool else v.dtype.number) if of[v] == rank else zeros)
            everywhere[v] = build.Cast(total, to=9) if is_bool else total
        return everywhere[v]

    for op in graph.operators:
        owned = {of[v] for v in op.operands() if v is not None and of.get(v) is not None}
        if len(owned) <= 1:
            of.update(dict.fromkeys((v for v in op.outputs if v is not None), owned.pop() if owned else None))
            done.append(op)
            continue
        build = stage_builder(graph, op)
        y = op.outputs[0]
        assert y is not None
        if op.type in ("Sum", "Add"):
            # What all have is added by one rank.
            mine = [v for v in op.inputs if v is not None and (of.get(v) == rank or (of.get(v) is None and rank == 0))]
            zero = build.constant(np.zeros(y.static_shape or (), y.dtype.numpy))
            local = build.Sum(*mine) if len(mine) > 1 else mine[0] if mine else zero
            graph.replace(y, sum_over_ranks(build, local))
        else:
            inputs = [exchanged(build, v) if v is not None and of.get(v) is not None else v for v in op.inputs]
            graph.replace(y, build.emit(op.type, inputs, dict(op.attrs)))
        name_results(graph, build.stage or [], build.key)
        done += build.stage or []
    graph.operators = done
    graph.settle()
    build = stage_builder(graph, None, key="shared")
    returned = [(v, exchanged(build, v)) for v in dict.fromkeys(v for _, v in graph.outputs) if of.get(v) is not None]
    name_results(graph, build.stage or [], build.key)
    for v, total in returned:
        return_instead(graph, v, total)
    graph.operators = needed_operators([*done, *(build.stage or [])], [v for _, v in graph.outputs])
    graph.take_constants()
    return len(returned)

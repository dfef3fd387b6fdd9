"""Rewriting operators of a graph one by one, each by the form that its type has.

Tests: tests/core/graph/test_manager.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnxgrad.core.graph.contract import Form
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.variable import Variable

__all__ = ["Links", "name_results", "return_instead", "rewrite_operators", "stage_builder"]


class Links:
    """The producer and the readers of each variable of a graph, and its outputs, at the time of construction."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers: dict[Variable, Operator] = {}
        self.readers: dict[Variable, list[Operator]] = {}
        makers, readers = self.makers, self.readers
        for op in graph.operators:
            for v in op.operands():
                if v is None:
                    continue
                if v in readers:
                    readers[v].append(op)
                else:
                    readers[v] = [op]
            for v in op.outputs:
                if v is not None:
                    makers[v] = op
        self.returned = {v for _, v in graph.outputs}


def rewrite_operators(graph: Graph, forms: Mapping[str, Form]) -> int:
    """Write out the operators whose type has a form, where the form applies, and return their number."""
    if graph.types().isdisjoint(forms):
        return 0
    rewritten: list[Operator] = []
    rewrites = 0
    build: Builder | None = None
    for op in graph.operators:
        form = forms.get(op.type) if op.domain == "" else None
        if form is None:
            rewritten.append(op)
            continue
        if build is None or build.stage:
            build = stage_builder(graph, op)
        else:  # no form has written with it
            build.role, build.key = op.role, _key_of(op)
        results = form(build, op)
        if results is None or build.stage is None:
            rewritten.append(op)
            continue
        for old, new in zip(op.outputs, results, strict=False):
            if old is not None and new is not None:
                graph.replace(old, new)
        name_results(graph, build.stage, build.key)
        rewritten.extend(build.stage)
        rewrites += 1
    graph.operators = rewritten
    return rewrites


def return_instead(graph: Graph, old: Variable, new: Variable) -> None:
    """Let an output be another variable, under its name; whoever reads the old one goes on reading it."""
    name, graph.helpers = old.name, graph.helpers - {new}
    old.name = graph.program.fresh_name(f"{name}/own")
    new.name = name
    for updated in (old, new):
        if updated.op is not None and updated.op.outputs[0] is updated:
            updated.op.name = updated.name
    graph.outputs = [(shown, new if v is old else v) for shown, v in graph.outputs]
    graph.updates = {v: new if updated is old else updated for v, updated in graph.updates.items()}
    graph.copy.variables = {v: new if copy is old else copy for v, copy in graph.copy.variables.items()}


def stage_builder(graph: Graph, op: Operator | None, key: str = "") -> Builder:
    """Writes operators into a list of its own, which is to replace ``op``."""
    block = graph.program.global_block()
    role = Role.FORWARD if op is None else op.role
    return Builder(block, [], role, key=key or (_key_of(op) if op is not None else "outputs"))


def _key_of(op: Operator) -> str:
    return op.name or _first_name(op)


def _first_name(op: Operator) -> str:
    for v in op.outputs:
        if v is not None:
            return v.name
    return op.type


def name_results(graph: Graph, stage: list[Operator], key: str) -> None:
    """Give the operators of a stage, and their results without a final name, names that nothing else has."""
    program = graph.program
    for op in stage:
        for v in op.outputs:
            if v is not None and v.name == "":
                v._name = program.fresh_name(f"{key}/{op.type}")
                program.global_block().register(v)
                graph.helpers.add(v)
        op.name = _first_name(op)

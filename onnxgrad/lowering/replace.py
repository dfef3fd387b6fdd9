"""Replacing operators of a graph that is about to be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgrad.interop.onnx_export import Graph
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.operator import Operator
from onnxgrad.ir.variable import Variable

__all__ = ["Form", "add_constants", "drop_dead", "name_helpers", "replace_operators"]

Form = Callable[[Any, Operator], "list[Variable | None] | None"]
"""Writes an operator out by a Builder and returns what stands for its outputs, or None to leave it as it is."""


def replace_operators(graph: Graph, forms: dict[str, Form]) -> None:
    """Write out the operators whose type has a form, where the form applies."""
    lowered: list[Operator] = []
    for op in graph.operators:
        form = forms.get(op.type) if op.domain == "" else None
        stage: list[Operator] = []
        results = form(Builder(op.block, stage, op.role, key=op.name or op.type), op) if form else None
        if results is None:
            lowered.append(op)
            continue
        name_helpers(graph, op.name or graph.name(op.outputs[0]), stage)
        for old, new in zip(op.outputs, results, strict=False):
            if old is not None and new is not None:
                graph.rename(new, graph.name(old))
        add_constants(graph, stage)
        lowered.extend(stage)
    graph.operators = lowered


def name_helpers(graph: Graph, name: str, stage: list[Operator], besides: Operator | None = None) -> None:
    """Give the operators of a stage, and those results that have no final name, names of their own."""
    for number, inner in enumerate(stage):
        if inner is besides:
            continue
        inner.name = f"{name}/{inner.type}.{number}"
        for place, v in enumerate(inner.outputs):
            if v is not None and id(v) not in graph.names:
                graph.rename(v, inner.name if place == 0 else f"{inner.name}.{place}")


def add_constants(graph: Graph, stage: list[Operator]) -> None:
    """Let the graph hold the constants that a stage reads."""
    known = {id(v) for v in graph.initializers}
    for v in (v for inner in stage for v in inner.inputs if v is not None and v.value is not None and not v.persistable):
        if id(v) not in known:
            known.add(id(v))
            graph.initializers.append(v)


def drop_dead(graph: Graph) -> None:
    """Leave out what only replaced operators read, which onnxruntime would compute."""
    wanted = {graph.name(v) for _, v in graph.outputs}
    kept: list[Operator] = []
    for op in reversed(graph.operators):
        if any(v is not None and graph.name(v) in wanted for v in op.outputs):
            kept.append(op)
            wanted.update(graph.name(v) for v in op.operands() if v is not None)
    graph.operators = kept[::-1]
    graph.initializers = [v for v in graph.initializers if graph.name(v) in wanted]

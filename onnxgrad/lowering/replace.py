"""Replacing operators of a graph that is about to be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgrad.interop.onnx_export import Graph
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.operator import Operator, Role
from onnxgrad.ir.variable import Variable

__all__ = ["Form", "replace_operators"]

Form = Callable[[Any, Operator], "list[Variable | None] | None"]
"""Writes an operator out by a Builder and returns what stands for its outputs, or None to leave it as it is."""


def replace_operators(graph: Graph, forms: dict[str, Form]) -> None:
    """Write out the operators whose type has a form, where the form applies."""
    lowered: list[Operator] = []
    known = {id(v) for v in graph.initializers}
    for op in graph.operators:
        form = forms.get(op.type) if op.domain == "" else None
        stage: list[Operator] = []
        results = form(Builder(op.block, stage, Role.FORWARD, key=op.name or op.type), op) if form else None
        if results is None:
            lowered.append(op)
            continue
        _take_over(graph, op, results, stage)
        for v in (v for inner in stage for v in inner.inputs if v is not None and v.value is not None and not v.persistable):
            if id(v) not in known:
                known.add(id(v))
                graph.initializers.append(v)
        lowered.extend(stage)
    graph.operators = lowered


def _take_over(graph: Graph, op: Operator, results: list[Variable | None], stage: list[Operator]) -> None:
    """Give the results the names of what they replace, and the helpers names of their own."""
    for number, inner in enumerate(stage):
        inner.role = op.role
        inner.name = f"{op.name or op.outputs[0].name}/{inner.type}_{number}"  # type: ignore[union-attr]
        for v in inner.outputs:
            if v is not None:
                graph.names[id(v)] = inner.name
    for old, new in zip(op.outputs, results, strict=False):
        if old is not None and new is not None:
            graph.names[id(new)] = graph.name(old)

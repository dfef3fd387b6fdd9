"""Write operators that onnxruntime does not know by the bodies that their schemas define, in a graph that is to be run."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph_passes.float64 import write_block
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Variable
from onnxgrad.internal.late import late

__all__ = ["SCHEMA_BODIES", "write_schema_bodies"]

_UNKNOWN_DOMAINS = ("ai.onnx.preview",)
"""Domains of ONNX none of whose operators onnxruntime has a kernel or a body for. It has those of the standard domain."""


def write_schema_bodies(graph: Graph, target: Target) -> int:
    """Write the operators of a graph, and of its bodies, that nobody runs by what they are defined as."""
    rewrites = write_block(graph.program.global_block(), _form_of)
    if rewrites:
        graph.take_constants()
    return rewrites


def _form_of(op: Operator) -> Any:
    return _written_out if _is_unknown(op) else None


def _is_unknown(op: Operator) -> bool:
    """Whether an operator has a body by its schema alone, which onnxruntime does not know"""
    if op.domain not in _UNKNOWN_DOMAINS or (op.domain, op.type, op.overload) in op.block.program.functions:
        return False
    return not op.blocks()  # a body made of subgraphs is not written


def _written_out(build: Any, op: Operator) -> list[Variable | None] | None:
    results: list[Variable | None] | None = late("Operator.written_out")(op, build)
    return results


def _may_be_needed(graph: Graph, target: Target) -> bool:
    return not graph.is_whole and any(op.domain in _UNKNOWN_DOMAINS for op in all_operators_of(graph.program.global_block()))


SCHEMA_BODIES = Pass("schema_bodies", write_schema_bodies, when=_may_be_needed)

"""Branches whose condition is known, written in the place of their If.

onnxruntime does the same, but of nested ones, and of those beside a Loop or Scan, it loses values or the process.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.bodies import keep_needed
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import entries_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traverse import needed_operators, substitute
from onnxgrad.core.ir.variable import Variable

__all__ = ["BRANCHES", "choose_branches"]


def choose_branches(graph: Graph, target: Target) -> int:
    """Replace each If whose condition does not depend on what is fed by the branch that it takes, bodies included."""
    inputs = set(graph.inputs)
    main = graph.program.global_block()
    rewrites = _choose(main, inputs) if any(True for op in main.ops for _ in op.blocks()) else 0
    if rewrites:
        graph.operators = needed_operators(graph.operators, [v for _, v in graph.outputs])
        _make_scalars(graph)
        graph.take_constants()
    return rewrites


BRANCHES = Pass("branches", choose_branches, when=lambda graph, target: not graph.is_whole)


def _make_scalars(graph: Graph) -> None:
    """Give Range scalars where a branch gave vectors of one element: onnxruntime takes them only as long as it cannot see that"""
    kept: list[Operator] = []
    for op in graph.operators:
        if op.type == "Range" and not op.domain:
            for i, v in enumerate(op.inputs):
                if v is not None and v.rank != 0 and v.value is None:
                    scalar: Variable = Builder(op.block, kept, op.role, key=v.name).Reshape(v, [])
                    kept[-1].name = scalar._name = op.block.program.fresh_name(f"{v.name}/scalar")
                    op.inputs[i] = op.block.register(scalar)
        kept.append(op)
    graph.operators = kept


def _choose(block: Block, inputs: set[Variable]) -> int:
    """Replace the Ifs of a block and of its bodies, and return how many"""
    chosen = 0
    kept: list[Operator] = []
    for op in block.ops:
        condition = _known(op.inputs[0], inputs) if op.type == "If" and not op.domain else None
        if condition is None:
            for body in op.blocks():
                inner = _choose(body, inputs)
                if inner:
                    keep_needed(body)
                    chosen += inner
            kept.append(op)
        else:
            branch = op.attrs["then_branch" if condition else "else_branch"]
            chosen += 1 + _choose(branch, inputs)
            kept += _inline(op, branch, block)
    block.ops = kept
    return chosen


def _inline(op: Operator, branch: Block, block: Block) -> list[Operator]:
    """The operators of a branch, computing the results of its If in another block"""
    program = block.program
    for v in branch.initializers:
        v._name, v.block = program.fresh_name(v.name), block
        block.initializers.append(block.register(v))
    computed = {v for inner in branch.ops for v in inner.outputs}
    results: dict[Variable, Variable] = {}
    copies: list[Operator] = []
    for v, result in zip(branch.outputs, op.outputs, strict=True):
        if result is None:
            continue
        if v in computed and v not in results:
            results[v] = result
        else:
            copy = Operator(block, "Identity", [results.get(v, v)], [result])
            copy.name, copy.role, result.op = op.name, op.role, copy
            copies.append(copy)
    substitute(branch.ops, results)
    for inner in branch.ops:
        inner.block = block
        for body in inner.blocks():
            body.parent = block
        for i, inner_result in enumerate(inner.outputs):
            if inner_result is None:
                continue
            if inner_result in results:
                inner.outputs[i] = results[inner_result]
                results[inner_result].op = inner
            else:
                inner_result._name, inner_result.block = program.fresh_name(inner_result.name), block
                block.register(inner_result)
    return [*branch.ops, *copies]


def _known(v: Variable | None, inputs: set[Variable]) -> Any:
    """Return whether a condition holds; None where that is known only when the graph runs"""
    entries = None if v in inputs else entries_of(v)
    return entries[0] if entries is not None and len(entries) == 1 else None

"""BatchNormalization in training mode, in a form that leaves its operands alone."""

from __future__ import annotations

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable

__all__ = ["RUNNING_STATS", "copy_running_stats"]


def copy_running_stats(graph: Graph, target: Target) -> int:
    """Let the BatchNormalizations of a graph and its bodies read copies of their running statistics."""
    rewrites = _copy_in_block(graph.program.global_block(), {v for _, v in graph.outputs})
    if rewrites:
        graph.take_constants()
    return rewrites


RUNNING_STATS = Pass("running_stats", copy_running_stats, when=lambda graph, target: not graph.is_whole)


def _copy_in_block(block: Block, returned: set[Variable]) -> int:
    """Let BatchNormalization in training mode read copies of its mean and variance, unless it returns new ones from the graph.

    onnxruntime writes the new ones over the old ones elsewhere: over what was fed, over a constant, over what others read.
    """
    kept: list[Operator] = []
    rewrites = 0
    for op in block.ops:
        for body in op.blocks():
            rewrites += _copy_in_block(body, set())
        # Before opset 14, several outputs meant training.
        if op.type == "BatchNormalization" and not op.domain and (op.attrs.get("training_mode") or len(op.outputs) > 1):
            _declare_all(op)
            for operand, result in ((3, op.outputs[1]), (4, op.outputs[2])):
                if result not in returned:
                    op.inputs[operand] = _copy(op, kept, op.inputs[operand])
                    rewrites += 1
        kept.append(op)
    block.ops = kept
    return rewrites


def _declare_all(op: Operator) -> None:
    """Training mode has three outputs; onnxruntime refuses fewer"""
    y, program = op.outputs[0], op.block.program
    op.outputs += [None] * (3 - len(op.outputs))
    for i, statistic_name in ((1, "mean"), (2, "var")):
        statistic = op.inputs[i + 2]
        if op.outputs[i] is None and y is not None and statistic is not None:
            op.outputs[i] = op.block.register(
                Variable(op.block, program.fresh_name(f"{y.name}/{statistic_name}"), statistic.type, op)
            )


def _copy(op: Operator, stage: list[Operator], v: Variable | None) -> Variable | None:
    """An Identity would be taken out again"""
    if v is None:
        return None
    build = Builder(op.block, stage, op.role, key=v.name)
    copy: Variable = build.Add(v, 0.0)
    copy._name = op.block.program.fresh_name(f"{v.name}/copy")
    stage[-1].name = copy.name
    return op.block.register(copy)

"""What onnxruntime's CUDA provider needs written differently."""

from __future__ import annotations

from onnxgrad.interop.onnx_export import Graph
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.operator import Operator, Role
from onnxgrad.ir.variable import Variable

__all__ = ["lower_for_cuda"]


def lower_for_cuda(graph: Graph) -> None:
    """Write out training-mode BatchNormalization, which the CUDA provider refuses from opset 14 on."""
    lowered: list[Operator] = []
    for op in graph.operators:
        if op.type == "BatchNormalization" and op.domain == "" and op.attr("training_mode"):
            lowered.extend(_training_batch_normalization(graph, op))
        else:
            lowered.append(op)
    graph.operators = lowered


def _training_batch_normalization(graph: Graph, op: Operator) -> list[Operator]:
    x, scale, shift, old_mean, old_var = op.inputs
    assert x is not None and x.rank is not None
    stage: list[Operator] = []
    build = Builder(op.block, stage, Role.FORWARD, key=op.name or op.type)
    axes, inner = [0, *range(2, x.rank)], list(range(1, x.rank - 1))
    mean = build.ReduceMean(x, axes, keepdims=1)
    centred = build.Sub(x, mean)
    variance = build.ReduceMean(build.Mul(centred, centred), axes, keepdims=1)
    inverse = build.Reciprocal(build.Sqrt(build.Add(variance, op.attr("epsilon"))))
    factor = build.Mul(inverse, build.Unsqueeze(scale, inner))
    results = [build.Add(build.Mul(centred, factor), build.Unsqueeze(shift, inner))]
    momentum = op.attr("momentum")
    for old, new in ((old_mean, mean), (old_var, variance)):
        flat = build.Reshape(new, [-1])
        results.append(build.Add(build.Mul(old, momentum), build.Mul(flat, 1.0 - momentum)))
    _take_over(graph, op, results, stage)
    graph.initializers += [
        v
        for inner_op in stage
        for v in inner_op.inputs
        if v is not None and v.value is not None and not v.persistable and _new(graph, v)
    ]
    return stage


def _take_over(graph: Graph, op: Operator, results: list[Variable], stage: list[Operator]) -> None:
    """Give the results the names of what they replace, and the helpers names of their own."""
    for number, inner in enumerate(stage):
        inner.name = f"{op.name or op.outputs[0].name}/{inner.type}_{number}"  # type: ignore[union-attr]
        for v in inner.outputs:
            if v is not None:
                graph.names[id(v)] = inner.name
    for old, new in zip(op.outputs, results, strict=False):
        if old is not None:
            graph.names[id(new)] = graph.name(old)


def _new(graph: Graph, v: Variable) -> bool:
    return not any(v is other for other in graph.initializers)

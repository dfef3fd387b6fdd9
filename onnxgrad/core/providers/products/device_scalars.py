"""Counts and sizes for operators on a device, without a copy node.

onnxruntime computes arithmetic on shapes on the host. Where its result meets a tensor, it inserts a copy to the device, which bars
CUDA graphs. Range takes its bounds from the host and writes to the device, so the one element of Range(n, n + 1) is n there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CUDA_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["DEVICE_SCALARS", "HOST_OPERANDS", "read_scalars_on_device"]

HOST_OPERANDS = frozenset({
    "Clip", "CumSum", "Dropout", "Expand", "OneHot", "Pad", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Reshape", "Resize", "Slice", "Split", "Squeeze",
    "Tile", "TopK", "Trilu", "Unsqueeze",
})  # fmt: skip
"""Operators that read all operands but the first on the host."""
_ALL_ON_HOST = ("ConstantOfShape", "Range", "If", "Loop", "Scan", "SplitToSequence", "SequenceAt", "SequenceInsert")
_MOST = COSTS.count("device_scalars.most_numbers")


def read_scalars_on_device(graph: Graph, target: Target) -> int:
    """Let operators on the device read up to eight integers that were computed from shapes by way of Range."""
    on_host: set[Variable] = set()
    constant: set[Variable] = set()
    copies: dict[Variable, Variable] = {}
    rewritten: list[Operator] = []
    count = 0
    for op in graph.operators:
        if op.domain:
            # Which operands these read on the host is not known. GroupQueryAttention read 0 words of a cache on a GPU where its
            # total_sequence_length had gone to the device and back.
            rewritten.append(op)
            continue
        results = [v for v in op.outputs if v is not None]
        if _is_constant(op, constant) or _is_on_host(op, on_host, constant):
            (constant if _is_constant(op, constant) else on_host).update(results)
            rewritten.append(op)
            continue
        build: Any = stage_builder(graph, op)
        for index, v in enumerate(op.inputs):
            if v is None or v not in on_host or _reads_on_host(op, index):
                continue
            if v not in copies:
                copy = _ferried(build, v)
                if copy is None:
                    continue
                copies[v] = copy
            op.inputs[index] = copies[v]
            count += 1
        name_results(graph, build.stage, build.key)
        rewritten += [*build.stage, op]
    graph.operators = rewritten
    graph.take_constants()
    return count


DEVICE_SCALARS = Pass("device_scalars", read_scalars_on_device, gain=CUDA_FORMS)


def _is_constant(op: Operator, constant: set[Variable]) -> bool:
    """Return whether onnxruntime computes it when the session is opened."""
    if op.domain or any(True for _ in op.blocks()) or not op.outputs:
        return False
    inputs = [v for v in op.inputs if v is not None]
    if op.type in ("Shape", "Size") and inputs and isinstance(inputs[0].type, TensorType) and inputs[0].static_shape is not None:
        return True
    return op.type == "Constant" or (bool(inputs) and all(v in constant or _is_small_constant(v) for v in inputs))


def _is_on_host(op: Operator, on_host: set[Variable], constant: set[Variable]) -> bool:
    """Return whether onnxruntime puts it there: all that it reads are shapes, or follow from them, and its results are integers."""
    if any(True for _ in op.blocks()):
        return False
    if op.type in ("Shape", "Size"):
        return True
    if op.type in _ALL_ON_HOST or not all(v is None or _is_integer(v) for v in op.outputs):
        return False
    inputs = [v for v in op.inputs if v is not None]
    first = inputs[:1] if op.type in HOST_OPERANDS else inputs
    return any(v in on_host for v in first) and all(v in on_host or v in constant or _is_small_constant(v) for v in inputs)


def _is_integer(v: Variable) -> bool:
    return isinstance(v.type, TensorType) and v.dtype.name in ("int64", "int32", "bool")


def _is_small_constant(v: Variable) -> bool:
    return v.op is None and v.value is not None and not v.persistable and int(np.prod(v.static_shape or (), dtype=np.int64)) < 100


def _reads_on_host(op: Operator, index: int) -> bool:
    if op.type == "NonMaxSuppression":
        return index > 1
    return op.type in _ALL_ON_HOST or (op.type in HOST_OPERANDS and index > 0)


def _ferried(build: Any, v: Variable) -> Variable | None:
    """The same numbers on the device; of int64 alone, which steps on a GPU were seen to read right."""
    shape = v.static_shape
    if shape is None or v.dtype.name != "int64" or int(np.prod(shape, dtype=np.int64)) not in range(1, _MOST + 1):
        return None
    one = np.array(1, v.dtype.numpy)
    count = int(np.prod(shape, dtype=np.int64))
    scalars = [build.Reshape(v, [])] if count == 1 else [build.Gather(build.Reshape(v, [-1]), np.array(i)) for i in range(count)]
    parts = [build.Range(scalar, build.Add(scalar, one), one) for scalar in scalars]
    flat = parts[0] if count == 1 else build.Concat(*parts, axis=0)
    copy: Variable = flat if shape == (count,) else build.Reshape(flat, list(shape))
    return copy

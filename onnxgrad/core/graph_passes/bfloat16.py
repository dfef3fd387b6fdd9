"""Operators on bfloat16 in float32 between Casts, for providers that have few kernels for it."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.core.graph_passes.contrib_kernels import emit_foreign
from onnxgrad.core.graph_passes.float64 import write_block
from onnxgrad.core.graph_passes.float64_functions import Written
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["BFLOAT16", "NARROW", "in_float32", "write_out_bfloat16"]

NARROW = ("bfloat16", "float16")
_BFLOAT16, _FLOAT32 = 16, 1
_HAVE = frozenset({
    "Cast", "Compress", "Concat", "ConcatFromSequence", "ConstantOfShape", "Flatten", "Gather", "GatherElements", "GatherND",
    "Identity", "IsInf", "IsNaN", "Reshape", "ReverseSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
    "SequenceInsert", "SequenceLength", "Shape", "Slice", "Split", "SplitToSequence", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators for which onnxruntime's CPU provider has a kernel in bfloat16: they move numbers, and compute none."""


def in_float32(build: Any, op: Operator) -> list[Variable | None]:
    """Emit the operator in float32, between Casts"""
    attrs = dict(op.attrs)
    if attrs.get("dtype") == _BFLOAT16:
        attrs["dtype"] = _FLOAT32
    wide = [build.Cast(v, to=_FLOAT32) if v is not None and _is_narrow(v) else v for v in op.inputs]
    if op.schema is None:
        results = tuple(emit_foreign(build, op, wide, attrs, "float32"))
    else:
        emitted = build.emit(op.type, wide, attrs, len(op.outputs))
        results = emitted if isinstance(emitted, tuple) else (emitted,)
    return [
        build.Cast(new, to=old.dtype.number) if old is not None and new is not None and _is_narrow(old) else new
        for old, new in zip(op.outputs, results, strict=True)
    ]


def _is_narrow(v: Variable) -> bool:
    return isinstance(v.type, TensorType) and v.type.dtype.name in NARROW


def _form_of(op: Operator) -> Written | None:
    if op.domain not in ("", CONTRIB_DOMAIN) or (not op.domain and op.type in _HAVE):
        return None
    if not (_has_bfloat16(op.inputs) or _has_bfloat16(op.outputs)):
        return None
    return None if op.blocks() else in_float32


def _has_bfloat16(values: list[Variable | None]) -> bool:
    return any(v is not None and isinstance(v.type, TensorType) and v.type.dtype.name == "bfloat16" for v in values)


def write_out_bfloat16(graph: Graph, target: Target) -> int:
    """Each result is rounded to bfloat16, as the operator's own would be."""
    rewrites = write_block(graph.program.global_block(), lambda op: _form_of(op) if op.schema is None else None)
    rewrites += sum(write_block(body, _form_of) for op in graph.operators for body in op.blocks())
    types = {op.type for op in graph.operators if not op.domain and _form_of(op) is not None}
    return rewrites + rewrite_operators(
        graph, dict.fromkeys(types, lambda build, op: None if _form_of(op) is None else in_float32(build, op))
    )


def _has_few_kernels(graph: Graph, target: Target) -> bool:
    return target.runs_on_cpu or str(target.provider).startswith("openvino")


BFLOAT16 = Pass("bfloat16", write_out_bfloat16, when=_has_few_kernels, rounding="order")
"""An operator that is several in float32 is rounded once, where in bfloat16 each of them would be."""

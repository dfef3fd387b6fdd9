"""Operators in element types that onnxruntime's CUDA provider has kernels for, so that no value goes to the host and back.

``cuda_kernels.json`` has the kernels of the installed package onnxruntime-gpu; scripts/write_cuda_kernels writes it.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from onnxgrad.core.graph.contract import CUDA_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import rewrite_operators
from onnxgrad.core.graph_passes.bfloat16 import NARROW, in_float32
from onnxgrad.core.graph_passes.float64 import write_block
from onnxgrad.core.graph_passes.float64_functions import FUNCTIONS, Written
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["KERNELS", "has_kernel", "use_kernels"]

_NAMES = {"float32": "float", "float64": "double"}
_WRITTEN = {name: form for name, form in FUNCTIONS.items() if name not in ("Mish", "Swish")}
"""Forms of functions that onnxruntime puts on the host; the two that the CPU has no kernel for either it writes out itself."""


@cache
def _kernels() -> dict[str, dict[str, list[dict[str, str]]]]:
    table = json.loads(files("onnxgrad.core.providers").joinpath("cuda_kernels.json").read_text())
    kernels: dict[str, dict[str, list[dict[str, str]]]] = table["kernels"]
    return kernels


def _types(op: Operator) -> dict[str, str]:
    """The element type of each type variable of an operator, by onnxruntime's names."""
    schema = op.schema
    assert schema is not None
    types: dict[str, str] = {}
    slots = [(v, schema.input_at(index)) for index, v in enumerate(op.inputs)]
    slots += [(v, schema.outputs[min(index, len(schema.outputs) - 1)]) for index, v in enumerate(op.outputs)]
    for v, slot in slots:
        if v is not None and slot is not None and isinstance(v.type, TensorType):
            types[slot.typestr] = _NAMES.get(v.type.dtype.name, v.type.dtype.name)
    return types


def has_kernel(op: Operator, types: dict[str, str] | None = None) -> bool:
    """Return whether CUDA computes an operator in its element types, or in others."""
    schema = op.schema
    rows = None if schema is None else _kernels().get(op.type, {}).get(str(schema.since))
    if not rows:
        return False
    types = _types(op) if types is None else types
    return any(all(types[name] in row[name].split() for name in types if name in row) for row in rows)


def _in_float64(function: Written) -> Written:
    """Write a function of one number that CUDA has no kernel for in float64, with one rounding at the end."""

    def form(build: Any, op: Operator) -> list[Variable | None] | None:
        copy = Operator(op.block, op.type, [None if v is None else build.Cast(v, to=11) for v in op.inputs], [], dict(op.attrs))
        results, old = function(build, copy), op.outputs[0]
        return None if results is None or old is None else [build.Cast(results[0], to=old.dtype.number)]

    return form


def _form_of(op: Operator) -> Written | None:
    if op.domain or op.schema is None or "dtype" in op.attrs or op.type == "Cast" or any(True for _ in op.blocks()):
        return None
    if has_kernel(op):
        return None
    types = _types(op)
    floats = [v for v in op.inputs if v is not None and v.is_float]
    if op.type in _WRITTEN and floats and floats[0].dtype.name != "float64" and not has_kernel(op, {"T": "float"}):
        return _in_float64(_WRITTEN[op.type])
    narrow = {name: "float" if t in NARROW else t for name, t in types.items()}
    if narrow == types:
        return None
    # Where there is no kernel in float32 either, the CPU provider computes it; of bfloat16 it has none.
    if has_kernel(op, narrow) or "bfloat16" in types.values():
        return in_float32
    return None


def use_kernels(graph: Graph, target: Target) -> int:
    """Write operators without a kernel in float32 between Casts, or in operators that have one.

    onnxruntime puts the others on the host, and refuses those of bfloat16 with "node_provider_type.empty()".
    """
    count = sum(write_block(body, _form_of) for op in graph.operators for body in op.blocks())
    types = {op.type for op in graph.operators if _form_of(op) is not None}

    def form(build: Any, op: Operator) -> list[Variable | None] | None:
        function = _form_of(op)
        return None if function is None else function(build, op)

    return count + rewrite_operators(graph, dict.fromkeys(types, form))


KERNELS = Pass("cuda_kernels", use_kernels, rounding="order", gain=CUDA_FORMS)
"""What has no kernel in 16 bits is computed in float32 and rounded once, which is nearer to float64 than the operator itself."""

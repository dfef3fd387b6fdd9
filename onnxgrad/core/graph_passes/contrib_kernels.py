"""Operators of onnxruntime in forms that its CPU provider has kernels for, in a graph that it is to run; files keep them.

GroupQueryAttention that normalises queries and keys, which files for GPUs hold, runs behind the normalisations that it stands for.
MatMulNBits with ``accuracy_level`` 4 reads its scales while the session opens, and gives zeros where they are not stored there as
numbers: where they are computed or fed, and where onnxruntime puts a Cast before them, as it does to operators in 16 bits between
others. It runs with level 0, which does not round its other operand to 8 bits.

Tests: tests/core/graph_passes/test_contrib_kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph_passes.float64 import write_block
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of

__all__ = ["CONTRIB_KERNELS", "K_NORM", "Q_NORM", "emit_foreign", "loses_scales", "normalised_heads", "norms_of"]

Q_NORM, K_NORM = 14, 15
"""Operands of GroupQueryAttention."""
_FLOAT32 = 1


def emit_foreign(
    build: Any, op: Operator, inputs: Sequence[Variable | None], attrs: dict[str, Any] | None = None, dtype: str | None = None
) -> list[Variable | None]:
    """Emit an operator as another one that onnx has no schema for, on other operands.

    Args:
        build: of a stage.
        op: the operator, whose domain, attributes and types of results the new one has.
        inputs: its operands; absent ones at the end are left out.
        attrs: in place of its attributes.
        dtype: of those of its results that are floating-point numbers.
    """
    operands = list(inputs)
    while operands and operands[-1] is None:
        operands.pop()
    again = Operator(build.block, op.type, operands, [], dict(op.attrs if attrs is None else attrs), op.domain)
    again.role, again.origin, again.name = build.role, build.origin, build.key
    again.outputs = [None if v is None else Variable(build.block, "", _as(v, dtype), again) for v in op.outputs]
    build.stage.append(again)
    return list(again.outputs)


def _as(v: Variable, dtype: str | None) -> Any:
    if dtype is None or not isinstance(v.type, TensorType) or not v.is_float:
        return v.type
    return TensorType(dtype_of(dtype), v.type.dims)


def _form_of(op: Operator) -> Any:
    if op.domain != CONTRIB_DOMAIN:
        return None
    if op.type == "GroupQueryAttention" and _operand(op, Q_NORM) is not None and _operand(op, K_NORM) is not None:
        return _normalised_before
    if loses_scales(op):
        return _unrounded
    return _gated if op.type == "GatedAdd" and _operand(op, 3) is not None else None


def loses_scales(op: Operator) -> bool:
    """Whether the CPU provider would give zeros for a MatMulNBits."""
    if (op.domain, op.type) != (CONTRIB_DOMAIN, "MatMulNBits") or op.attrs.get("accuracy_level") != 4:
        return False
    x, stored = _operand(op, 0), [_operand(op, index) for index in (2, 3)]
    narrow = x is not None and isinstance(x.type, TensorType) and x.dtype.name in ("float16", "bfloat16")
    return narrow or any(v is not None and (v.value is None or v.persistable) for v in stored)


def _unrounded(build: Any, op: Operator) -> list[Variable | None] | None:
    """MatMulNBits that does not round its other operand"""
    return emit_foreign(build, op, op.inputs, {**op.attrs, "accuracy_level": 0})


def _operand(op: Operator, index: int) -> Variable | None:
    return op.inputs[index] if index < len(op.inputs) else None


def _normalised_before(build: Any, op: Operator) -> list[Variable | None] | None:
    """GroupQueryAttention of queries and keys that are normalised head by head"""
    q, k, v = (_operand(op, index) for index in range(3))
    heads, kv_heads = (op.attrs.get(name, 0) for name in ("num_heads", "kv_num_heads"))
    weights = [_operand(op, index) for index in (Q_NORM, K_NORM)]
    if k is None:
        size = None if weights[0] is None or weights[0].static_shape is None else weights[0].static_shape[0]
        if size is None:
            return None
        q, k, v = build.Split(q, [heads * size, kv_heads * size, kv_heads * size], axis=2, outputs=3)
    q, k = (
        normalised_heads(build, x, weight, count, eps)
        for x, count, (weight, eps) in zip((q, k), (heads, kv_heads), norms_of(op), strict=True)
    )
    attrs = {name: value for name, value in op.attrs.items() if not name.endswith("_norm_epsilon")}
    rest = [None if index in (Q_NORM, K_NORM) else operand for index, operand in enumerate(op.inputs)][3:]
    return emit_foreign(build, op, [q, k, v, *rest], attrs)


def norms_of(op: Operator) -> list[tuple[Variable | None, float]]:
    """The weight and the epsilon by which a GroupQueryAttention normalises queries, and those for keys; None where it does not."""
    epsilon = op.attrs.get("qk_norm_epsilon", 1e-6)
    epsilons = [op.attrs.get(name, epsilon) for name in ("q_norm_epsilon", "k_norm_epsilon")]
    return [(_operand(op, index), eps) for index, eps in zip((Q_NORM, K_NORM), epsilons, strict=True)]


def normalised_heads(build: Any, x: Variable | None, weight: Variable | None, heads: int, epsilon: float) -> Variable:
    """x / sqrt(mean(x^2) + epsilon) * weight in each head, the root in float32"""
    apart = build.Reshape(x, [0, 0, heads, -1])
    narrow = apart.dtype.name in ("float16", "bfloat16")
    wide = build.Cast(apart, to=_FLOAT32) if narrow else apart
    root = build.Sqrt(build.Add(build.ReduceMean(build.Mul(wide, wide), axes=[-1], keepdims=1), epsilon))
    unit = build.Div(wide, root)
    y = build.Mul(build.Cast(unit, to=apart.dtype.number) if narrow else unit, weight)
    together: Variable = build.Reshape(y, [0, 0, -1])
    return together


def _gated(build: Any, op: Operator) -> list[Variable | None] | None:
    """GatedAdd whose gate is a projection, as the operators that it rounds between"""
    x, y, activation, weight = op.inputs
    return [build.Add(x, build.Mul(y, build.Sigmoid(build.MatMul(activation, weight))))]


def _write(graph: Graph, target: Target) -> int:
    rewrites = write_block(graph.program.global_block(), _form_of)
    if rewrites:
        graph.take_constants()
    return rewrites


def _may_be_needed(graph: Graph, target: Target) -> bool:
    return (
        target.runs_on_cpu
        and not graph.is_whole
        and any(_form_of(op) is not None for op in all_operators_of(graph.program.global_block()))
    )


CONTRIB_KERNELS = Pass("contrib_kernels", _write, when=_may_be_needed, rounding="order")

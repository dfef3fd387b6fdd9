"""Rewrite operators for onnxruntime's CUDA provider.

Tests: tests/core/providers/test_cuda_kernels.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import CUDA_FORMS, GraphPass, Pass
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.cuda_kernels import KERNELS
from onnxgrad.core.providers.products.device_scalars import DEVICE_SCALARS

__all__ = ["PASSES", "TRAINING_BATCH_NORMALIZATION"]


def _training_batch_normalization(build: Any, op: Operator) -> list[Variable | None] | None:
    if not op.attr("training_mode"):
        return None
    x, scale, shift, old_mean, old_var = op.inputs
    assert x is not None and x.rank is not None and scale is not None
    axes, inner = [0, *range(2, x.rank)], list(range(1, x.rank - 1))
    narrow = x.dtype if x.dtype != scale.dtype else None
    x = x if narrow is None else build.Cast(x, to=scale.dtype.number)
    mean = build.ReduceMean(x, axes, keepdims=1)
    centred = build.Sub(x, mean)
    variance = build.ReduceMean(build.Mul(centred, centred), axes, keepdims=1)
    inverse = build.Reciprocal(build.Sqrt(build.Add(variance, op.attr("epsilon"))))
    factor = build.Mul(inverse, build.Unsqueeze(scale, inner))
    results: list[Variable | None] = [build.Add(build.Mul(centred, factor), build.Unsqueeze(shift, inner))]
    if narrow is not None:
        results[0] = build.Cast(results[0], to=narrow.number)
    momentum = op.attr("momentum")
    for old, new in ((old_mean, mean), (old_var, variance)):
        flat = build.Reshape(new, [-1])
        results.append(build.Add(build.Mul(old, momentum), build.Mul(flat, 1.0 - momentum)))
    return results


TRAINING_BATCH_NORMALIZATION = Pass(
    "training_batch_normalization", forms={"BatchNormalization": _training_batch_normalization}, rounding="order"
)
"""In training mode, which the CUDA provider refuses from opset 14 on."""

_MOST_OPERANDS = 32
"""Concat and Split of more read a list of addresses, which is copied to the device in each run; that fails in a capture."""


def _nested_concat(build: Any, op: Operator) -> list[Variable | None] | None:
    parts: list[Any] = list(op.inputs)
    if len(parts) <= _MOST_OPERANDS:
        return None
    axis = op.attr("axis")
    while len(parts) > _MOST_OPERANDS:
        groups = [parts[at : at + _MOST_OPERANDS] for at in range(0, len(parts), _MOST_OPERANDS)]
        parts = [build.Concat(*group, axis=axis) if len(group) > 1 else group[0] for group in groups]
    return [build.Concat(*parts, axis=axis)]


def _nested_split(build: Any, op: Operator) -> list[Variable | None] | None:
    sizes = op.inputs[1] if len(op.inputs) > 1 else None
    if len(op.outputs) <= _MOST_OPERANDS or sizes is None or sizes.value is None:
        return None
    return list(_split(build, op.inputs[0], [int(size) for size in sizes.value.numpy()], op.attr("axis")))


def _split(build: Any, x: Any, sizes: list[int], axis: int) -> list[Variable]:
    """Parts of the given sizes, by Splits of at most 32 results."""
    if len(sizes) == 1:
        return [x]
    if len(sizes) <= _MOST_OPERANDS:
        return list(build.Split(x, np.array(sizes), axis=axis, outputs=len(sizes)))
    step = -(-len(sizes) // _MOST_OPERANDS)
    groups = [sizes[at : at + step] for at in range(0, len(sizes), step)]
    wholes = _split(build, x, [sum(group) for group in groups], axis)
    return [part for whole, group in zip(wholes, groups, strict=True) for part in _split(build, whole, group, axis)]


FEW_OPERANDS = Pass("few_operands", forms={"Concat": _nested_concat, "Split": _nested_split}, gain=CUDA_FORMS)

PASSES: list[GraphPass] = [TRAINING_BATCH_NORMALIZATION, KERNELS, FEW_OPERANDS, DEVICE_SCALARS]

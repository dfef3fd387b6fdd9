"""Rewrite operators for onnxruntime's CUDA provider.

Tests: tests/core/providers/test_cuda_kernels.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.graph.contract import GraphPass, Pass
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

PASSES: list[GraphPass] = [TRAINING_BATCH_NORMALIZATION, KERNELS, DEVICE_SCALARS]

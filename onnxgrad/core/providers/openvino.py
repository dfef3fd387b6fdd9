"""Forms of a training graph that OpenVINO's provider computes rightly, or faster, on a processor.

Its kernels let NaN pass for a number (a diverged run would go on with a finite loss), compute 64-bit integers in 32 bits and divide
them in float32. docs/develop/engines.md lists what was measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from onnxgrad.core.graph.contract import OPENVINO_FORMS, GraphPass, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.chwn import CHWN
from onnxgrad.core.providers.layouts.filter_gradient import FILTER_GRADIENT
from onnxgrad.core.providers.layouts.filter_taps import filter_taps
from onnxgrad.core.providers.layouts.one_tap import ONE_TAP
from onnxgrad.core.providers.layouts.pool_gradient import UNREAD_INDICES, pool_gradient
from onnxgrad.core.providers.layouts.pool_residues import pool_gradient_by_residues
from onnxgrad.core.providers.loops import written_out
from onnxgrad.core.providers.losses.labelled import LABELLED_LOSSES
from onnxgrad.core.providers.losses.rows import embedding_gradient
from onnxgrad.core.providers.losses.shared_exponentials import SHARED_EXPONENTIALS
from onnxgrad.core.providers.products.attention import ATTENTION
from onnxgrad.core.providers.products.fold_alpha import FOLD_ALPHA
from onnxgrad.core.providers.products.hoist_transposes import HOIST_TRANSPOSES_APART
from onnxgrad.core.providers.products.turned_products import TURNED_PRODUCTS
from onnxgrad.errors import ProviderError

__all__ = ["LIMIT", "PASSES"]

LIMIT = 2**31
"""Integers from here on wrap around."""
_COUNTS = ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Where", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
           "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift")  # fmt: skip


# NaN -----------------------------------------------------------------------------------------------------------------------


def _relu(build: Any, op: Operator) -> list[Variable | None] | None:
    """LeakyRelu without a slope: Relu(NaN) is 0 there. Its zeros are negative."""
    return [build.LeakyRelu(op.inputs[0], alpha=0.0)]


def _swapped(build: Any, op: Operator) -> list[Variable | None] | None:
    """a > b as b < a, and with equality: NaN > 0 is true there, 0 < NaN is not."""
    a, b = op.inputs
    if a is None or not a.is_float:
        return None
    return [build.emit(op.type.replace("Greater", "Less"), [b, a], {})]


def _clip(build: Any, op: Operator) -> list[Variable | None] | None:
    """Clip by comparisons that NaN fails: they are one pass, where IsNaN is another. Older bounds are attributes."""
    x, low, high = [*op.inputs, None, None][:3]
    if x is None or not x.is_float or not op.attrs.keys().isdisjoint(("min", "max")):
        return _passes_nan(build, op)
    limited: Any = x if low is None else build.Where(build.Less(x, low), low, x)
    return [limited if high is None else build.Where(build.Less(high, limited), high, limited)]


def _passes_nan(build: Any, op: Operator) -> list[Variable | None] | None:
    """Clip, Max, Min and Celu with NaN where an operand is NaN."""
    y = op.outputs[0]
    operands = [v for v in (op.inputs[:1] if op.type in ("Clip", "Celu") else op.inputs) if v is not None]
    if y is None or not y.is_float:
        return None
    kept: Any = build.emit(op.type, list(op.inputs), dict(op.attrs))
    for x in operands:
        if x.value is None or x.persistable:
            kept = build.Where(build.IsNaN(x), x, kept)
    return [kept]


def _pool_gradient(build: Any, op: Operator) -> list[Variable | None] | None:
    """By residues as channels where that can be written, else tap by tap."""
    return pool_gradient_by_residues(build, op) or pool_gradient(build, op)


def _max_pool(build: Any, op: Operator) -> list[Variable | None] | None:
    """The maxima, and 0 times the mean of each window."""
    x, indices = op.inputs[0], op.outputs[1] if len(op.outputs) > 1 else None
    if x is None or not x.is_float or indices is not None or any(d != 1 for d in op.attr("dilations") or ()):
        return None
    attrs = {name: value for name, value in op.attrs.items() if name not in ("storage_order", "dilations")}
    y = build.emit("MaxPool", [x], dict(op.attrs))
    return [build.Add(y, build.Mul(build.AveragePool(x, **attrs), 0.0))]


# Images --------------------------------------------------------------------------------------------------------------------

_MANY_IMAGES = 16
"""Numbers in a vector of float32: with fewer images to a row, OpenVINO's own layouts are faster."""


def _has_rows_of_images(graph: Graph, target: Target) -> bool:
    """Whether a net is depthwise, or trains on so many images that a row of them is a vector."""
    # Gradients of filters are convolutions too, over channels where others have images.
    convolutions = [op for op in graph.operators if op.type == "Conv" and not op.domain and op.role is Role.FORWARD]
    images = [(x.static_shape or (0,))[0] for op in convolutions if (x := op.inputs[0]) is not None]
    return any((op.attr("group") or 1) > 1 for op in convolutions) or max(images, default=0) >= _MANY_IMAGES


# Attributes ----------------------------------------------------------------------------------------------------------------


def _hard_sigmoid(build: Any, op: Operator) -> list[Variable | None] | None:
    """By its definition: beta=0 is taken for the default."""
    line = build.Add(build.Mul(op.inputs[0], op.attr("alpha")), op.attr("beta"))
    return [build.Where(build.IsNaN(line), line, build.Clip(line, 0.0, 1.0))]


# Integers ------------------------------------------------------------------------------------------------------------------


def _mod(build: Any, op: Operator) -> list[Variable | None] | None:
    """Integers modulo a power of two as BitwiseAnd; otherwise it is computed in float32, wrong beyond 2^24."""
    x, divisor = op.inputs
    if x is None or divisor is None or x.is_float or divisor.value is None or divisor.persistable or op.attr("fmod"):
        return None
    sizes = divisor.value.numpy()
    if sizes.size != 1 or sizes.item() <= 0 or sizes.item() & (sizes.item() - 1):
        return None
    return [build.BitwiseAnd(x, np.asarray(sizes - 1, sizes.dtype))]


def refuse(graph: Graph, target: Target) -> None:
    """Refuse what would be computed wrong without a word.

    Raises:
        ProviderError: naming the operator, for float64 and for integers that do not fit 32 bits.
    """
    advice = "Use CPUPlace(), or write the file without this lowering."
    for op in graph.operators:
        for v in op.inputs:
            if v is None or not isinstance(v.type, TensorType):
                continue
            if v.dtype.name in ("float64", "complex64", "complex128"):
                raise ProviderError(f"{op}: OpenVINO would compute {v.dtype.name} in float32. {advice}")
            if op.type in _COUNTS and v.value is not None and v.dtype.name in ("int64", "uint64", "uint32"):
                value = v.value.numpy()
                if value.size and (int(value.max()) >= LIMIT or int(value.min()) < -LIMIT):
                    raise ProviderError(f"{op}: OpenVINO computes integers in 32 bits, and {v.name!r} needs more. {advice}")


PASSES: list[GraphPass] = [
    # Before all that looks at operators, which are in bodies before.
    HOIST_TRANSPOSES_APART,
    # In float32, steps of a smaller weight take longer than on the CPU provider.
    written_out(least=2**20),
    Pass("refusals", lambda graph, target: 0, needs=refuse),
    replace(CHWN, when=_has_rows_of_images, gain=OPENVINO_FORMS),
    ATTENTION,
    Pass("nan_through_limits", forms={**dict.fromkeys(("Celu", "Max", "Min"), _passes_nan), "Clip": _clip}),
    Pass("nan_through_comparisons", forms=dict.fromkeys(("Greater", "GreaterOrEqual"), _swapped)),
    Pass("nan_through_relu", forms={"Relu": _relu}, rounding="order"),
    Pass("hard_sigmoid", forms={"HardSigmoid": _hard_sigmoid}, rounding="order"),
    Pass("mod_as_bitwise_and", forms={"Mod": _mod}),
    FILTER_GRADIENT,
    # Copies of larger maps take longer than the convolution, in float32.
    filter_taps(most=4096),
    ONE_TAP,
    Pass("one_hot_rows", forms={"ScatterElements": embedding_gradient}, rounding="order"),
    Pass("pool_gradient", forms={"ScatterElements": _pool_gradient}, rounding="order", gain=OPENVINO_FORMS),
    LABELLED_LOSSES,
    SHARED_EXPONENTIALS,
    # After the gradients, which no longer read their indices.
    UNREAD_INDICES,
    Pass("nan_through_pools", forms={"MaxPool": _max_pool}),
    FOLD_ALPHA,
    TURNED_PRODUCTS,
]

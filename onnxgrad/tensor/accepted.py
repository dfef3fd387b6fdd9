"""Which element types, numbers of axes and sizes functions take. What Paddle refuses is refused before anything is appended.

Tests: tests/paddle_suite/test_arguments.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, IllTyped, Mismatch

__all__ = ["check_operands"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_TYPES = {
    "a floating-point type": _FLOATS,
    "float32 or float64": ("float32", "float64"),
    "a floating-point type, int32 or int64": (*_FLOATS, "int32", "int64"),
    "bool, a floating-point type, int32 or int64": ("bool", *_FLOATS, "int32", "int64"),
    "an integer type": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    "int32 or int64": ("int32", "int64"),
    "bool": ("bool",),
}
# Layers, each by the name it is made with, whose operands are all of one kind.
_ALL = {
    "a floating-point type": "isclose allclose logsumexp logcumsumexp nanmean p_norm addmm corrcoef renorm lerp var std "
    "sgn digamma logit selu rrelu",
    "float32 or float64": "inverse solve triangular_solve cholesky cholesky_solve qr householder_product matrix_power determinant "
    "slogdet npair_loss identity_loss",
    "a floating-point type, int32 or int64": "clip dot inner frac trunc cross kron outer unique histogram is_empty multiplex "
    "nanmedian pad3d searchsorted",
    "bool, a floating-point type, int32 or int64": "expand_as flip diagonal tile broadcast_tensors",
    "an integer type": "shard_index gcd lcm",
}
# Those of the operands behind the first, which is of any kind.
_BEHIND = {
    "an integer type": "gather gather_nd index_select index_sample take",
    "bool": "masked_select",
}
_TAKEN: dict[str, tuple[str | None, str | None]] = {
    **{kind: (types, types) for types, kinds in _ALL.items() for kind in kinds.split()},
    **{kind: (None, types) for types, kinds in _BEHIND.items() for kind in kinds.split()},
    "bincount": ("an integer type", None),
}
# Those that work along an axis, or on matrices or images, of which a number has none.
_WITH_AXES = {
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "channel_shuffle", "combinations", "conv1d",
    "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "cross_entropy", "dice_loss", "group_norm",
    "instance_norm", "label_smooth", "multi_margin_loss", "pixel_unshuffle", "qr", "split", "temporal_shift", "unfold", "unstack",
    "vander",
}  # fmt: skip
# How many axes operands have, and the layers that need elements.
_AXES = {"accuracy": (2,), "bincount": (1,), "fold": (3,), "mv": (2, 1)}
_FILLED = ("logsumexp", "mode", "normalize", "p_norm")
_CHECKED = {*_TAKEN, *_WITH_AXES, *_AXES, *_FILLED}


def check_operands(layer_name: str, operands: Sequence[Variable]) -> None:
    """Refuse operands of a layer that it does not take.

    Raises:
        IllTyped: naming the layer, the operand and the types.
        Mismatch: (an ArgumentError) for another number of axes.
        ArgumentError: for no elements.
    """
    if layer_name not in _CHECKED:
        return
    if layer_name in _WITH_AXES and operands[0].dims == ():
        raise Mismatch(f"{layer_name} takes a tensor with axes; {operands[0]!r} is a single number. Reshape it first.")
    for at, (operand, rank) in enumerate(zip(operands, _AXES.get(layer_name, ()))):
        if operand.dims is not None and operand.ndim != rank:
            raise Mismatch(f"{layer_name}: operand {at + 1} has {rank} axes, unlike {operand!r}. Reshape it first.")
    if layer_name in _FILLED and operands[0].dims is not None and 0 in operands[0].dims:
        raise ArgumentError(f"{layer_name}: {operands[0]!r} has no elements. Leave it out.")
    taken = _TAKEN.get(layer_name, (None, None))
    for at, operand in enumerate(operands):
        types = taken[min(at, 1)]
        if types is not None and operand.dtype.name not in _TYPES[types]:
            raise IllTyped(f"{layer_name} takes {types}, but operand {at + 1} is {operand.dtype.name}. Cast it first.")

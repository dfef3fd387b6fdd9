"""Which constant of a model file is a weight? Decided by what it feeds, and explained.

Tests: tests/core/interop/test_tables.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

import numpy as np

from onnxgrad.core.interop.tables import Reads, Slots, sets_shapes_only, table_reason
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.traverse import all_operators_of, readers_in
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ArgumentTypeError, UnknownName

__all__ = ["Choice", "Decision", "decide", "is_table"]

Choice: TypeAlias = "Iterable[str] | str | Callable[[Variable], bool]"
"""Names, a pattern such as ``"head.*"``, or a predicate on the constant."""

# Slots whose constants configure an operator or hold statistics; training must not touch them.
_SETTINGS: dict[str, tuple[int, ...]] = {
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Clip": (1, 2),
    "Pow": (1,),
    "BatchNormalization": (3, 4),
    "Pad": (2,),
    "Dropout": (1, 2),
    "OneHot": (1, 2),
    "RoiAlign": (1,),
    "Range": (0, 1, 2),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "QLinearConv": (1, 4, 6),
    "QLinearMatMul": (1, 4, 6),
    "NonMaxSuppression": (0, 1, 3, 4),
    "STFT": (1, 2, 3),
    **dict.fromkeys(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Mod"), (0, 1)),
}
# The same of onnxruntime's own operators, some of which have the name of another one in ONNX.
_SETTINGS_CONTRIB: dict[str, tuple[int, ...]] = {
    "MatMulNBits": (2, 3),
    "GatherBlockQuantized": (2, 3),
    "GroupQueryAttention": (3, 4, 10, 12, 13),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "DynamicQuantizeMatMul": (2,),
    "QAttention": (3, 4),
    "QGemm": (1, 4, 7),
    "QLinearConv": (1, 4, 6),
    "MatMulIntegerToFloat": (2, 3),
    "QMoE": (3, 6, 9, 15, 16, 17, 18),
}
# Slots that hold a weight, bias, slope or scale whatever its size.
_WEIGHT_SLOTS: dict[str, tuple[int, ...]] = {
    "Gemm": (0, 1, 2),
    "MatMul": (0, 1),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "DeformConv": (1, 3),
    "PRelu": (1,),
    "BatchNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "SimplifiedLayerNormalization": (1,),
    "SkipSimplifiedLayerNormalization": (2, 3),
    "SkipLayerNormalization": (2, 3, 4),
    "RMSNormalization": (1,),
    "LSTM": (1, 2, 3, 5, 6, 7),
    "GRU": (1, 2, 3, 5),
    "RNN": (1, 2, 3, 5),
    "Gather": (0,),
    "Einsum": tuple(range(8)),
    **dict.fromkeys(("Exp", "Softplus", "Sigmoid", "Tanh"), (0,)),
}
_PASSES_ON = VIEWS | {"Cast", "Transpose", "Expand"}
_MASK = -1e30


class Decision(NamedTuple):
    """``category`` is ``"weight"``, ``"table"`` (a parameter that stays as it is unless it is named) or ``"constant"``."""

    category: str
    reason: str


def decide(constants: list[Variable], block: Block, choice: Choice | None) -> dict[Variable, Decision]:
    """For each constant: whether it is a weight, and why.

    Raises:
        UnknownName: if ``choice`` names a tensor that the model does not hold.
    """
    if choice is not None:
        return _chosen(constants, choice)
    uses = readers_in(all_operators_of(block))
    returned = {v for b in block.program.blocks for v in b.outputs}
    shapes: dict[tuple[int, ...], list[Variable]] = {}
    for v in constants:
        if v.value is not None and v.is_float:
            shapes.setdefault(v.value.shape, []).append(v)
    reads = Reads(uses, returned, shapes, {})
    return {v: _decide_one(v, reads) for v in constants}


def is_table(p: Parameter) -> bool:
    """Whether a parameter of a loaded file is a table rather than a weight; see ``Decision``."""
    return p.block.program.decisions.get(p.name, "").startswith("table: ")


def _chosen(constants: list[Variable], choice: Choice) -> dict[Variable, Decision]:
    if callable(choice):
        return {v: _decision(choice(v), "chosen by the caller's predicate") for v in constants}
    if isinstance(choice, str):
        return {v: _decision(fnmatchcase(v.name, choice), f"matched against {choice!r}") for v in constants}
    names = list(choice)
    if not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError("parameters= takes names, a pattern or a predicate.")
    known = {v.name for v in constants}
    missing = [name for name in names if name not in known]
    if missing:
        raise UnknownName(f"parameters= names {missing[0]!r}, which is not a float constant of the model.")
    wanted = set(names)
    return {v: _decision(v.name in wanted, "named by the caller") for v in constants}


def _decision(is_weight: bool, reason: str) -> Decision:
    return Decision("weight" if is_weight else "constant", reason)


def _decide_one(v: Variable, reads: Reads) -> Decision:
    if v.value is None or v.value.dtype.name not in ("float32", "float64", "float16", "bfloat16"):
        return Decision("constant", "not a floating-point tensor")
    if v.default is not None and (v.static_shape is None or not v.value.size):
        return Decision("constant", "an input of open shape, or an empty one, that has a default")
    slots, returned = _slots(v, reads.uses, 0), v in reads.returned
    if not slots:
        returns = returned and v.value.size > 1
        return Decision("weight", "returned by a branch") if returns else Decision("constant", "not used")
    settings = [f"{op.type} input {i}" for op, i in slots if i in _settings_of(op)]
    if len(settings) == len(slots):
        return Decision("constant", f"configures {settings[0]}")
    if sets_shapes_only(v, reads):
        return Decision("constant", "only shapes and comparisons read it")
    table = None if returned else table_reason(v, slots, reads)
    if table is not None:
        return Decision("table", table)
    weights = [f"{op.type} input {i}" for op, i in slots if i in _WEIGHT_SLOTS.get(op.type, ())]
    if weights:
        return Decision("weight", f"weight of {weights[0]}")
    if v.value.size <= 1:
        return Decision("constant", f"single number used by {slots[0][0].type}")
    array = v.value.numpy()
    if not array.any() and all(op.type in ("ScatterElements", "ScatterND") and i == 0 for op, i in slots):
        return Decision("constant", "the zeros that a scatter starts from")
    if v.value.size and (not np.isfinite(array).all() or float(array.min()) <= _MASK):
        return Decision("constant", "a mask (holds infinite or huge negative entries)")
    return Decision("weight", f"float tensor used by {slots[0][0].type}")


def _settings_of(op: Operator) -> tuple[int, ...]:
    if op.type == "Mul" and any(v is not None and v.op is not None and v.op.type == "DynamicQuantizeLinear" for v in op.inputs):
        return (0, 1)  # the scale of the weight that is multiplied in integers
    return (_SETTINGS_CONTRIB if op.domain == CONTRIB_DOMAIN else _SETTINGS).get(op.type, ())


def _slots(v: Variable, uses: defaultdict[Variable, Slots], depth: int) -> Slots:
    """Return the slots that read a constant, looking through operators that only reshape it."""
    slots: Slots = []
    for op, index in uses.get(v, ()):
        if index == 0 and op.type in _PASSES_ON and depth < 4 and op.outputs[0] is not None:
            slots.extend(_slots(op.outputs[0], uses, depth + 1) or [(op, index)])
        else:
            slots.append((op, index))
    return slots

"""Layers that take a LoRA branch, chosen by the names of their weights or operators, or by what they are for.

Tests: tests/training/test_language_models.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.dtypes import DType
from onnxgrad.errors import UnknownName

__all__ = ["DORA", "EXPERTS", "GROUPS", "KEY", "PACKED", "LoraTarget", "chosen_targets", "matrix_of"]

KEY = "onnxgrad.lora"
"""Marks the operators of a branch."""
DORA = "onnxgrad.dora"
"""Marks those that give the columns of an adapted layer their sizes, with the name of the sizes."""
EXPERTS = "onnxgrad.lora.experts"
"""Marks the operators of a branch in the weights of experts."""
GROUPS = ("attention", "mlp", "all", "experts")
_ATTENTION = ("attn", "attention", "q_proj", "k_proj", "v_proj", "o_proj", "qkv")
_MLP = ("mlp", "ffn", "feed_forward", "gate_proj", "up_proj", "down_proj", "intermediate", "output.dense", "fc1", "fc2")
PACKED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
_BEHIND_HEAD = VIEWS | {"Add", "Cast", "Div", "LogSoftmax", "Mul", "Sigmoid", "Softmax", "Tanh"}
"""What files compute of the scores of a head: scales, caps and probabilities; behind any other operator lies a further layer."""


class LoraTarget(NamedTuple):
    """A layer to adapt: its operator, the shape of its weight as the operator reads it, its element type, its name, and which input
    it is."""

    op: Operator
    shape: tuple[int, ...]
    dtype: DType
    name: str
    at: int = 1

    @property
    def is_of_experts(self) -> bool:
        """Whether it is the weight of all experts in one operator, [experts, outputs, inputs]"""
        return self.op.type in ("MoE", "QMoE")

    def fits(self, pattern: str) -> bool:
        """Whether a pattern names the weight or the operator; experts, which cost most, are named by more than ``*``"""
        if self.is_of_experts and not pattern.strip("*"):
            return False
        return any(fnmatchcase(name, pattern) for name in (self.name, self.op.name or ""))

    def holds(self, pattern: str) -> bool:
        """Whether a pattern names one of the layers that this one holds in one weight"""
        return any(
            fnmatchcase(name.replace(packed, part), pattern)
            for packed, parts in PACKED.items()
            for name in (self.name, self.op.name or "")
            for part in parts
            if packed in name
        )

    def is_for(self, kind: str) -> bool:
        names = f"{self.name} {self.op.name or ''}".lower()
        attention = any(part in names for part in _ATTENTION)
        return attention if kind == "attention" else not attention and any(part in names for part in _MLP)


def chosen_targets(program: Program, layers: str | Sequence[str]) -> list[LoraTarget]:
    """The layers that patterns or kinds name, each once.

    Raises:
        UnknownName: if one of them fits no layer.
    """
    targets = _targets(program)
    chosen: dict[tuple[Operator, int], LoraTarget] = {}
    for pattern in [layers] if isinstance(layers, str) else layers:
        fitting = _of_group(targets, pattern) if pattern in GROUPS else [t for t in targets if t.fits(pattern)]
        packed = [] if fitting or pattern in GROUPS else [t for t in targets if t.holds(pattern)]
        if packed:
            more = f" and {len(packed) - 1} more" if len(packed) > 1 else ""
            message = f"lora: {pattern!r} names a part of {packed[0].name}{more}, which the file holds in one weight"
            warnings.warn(f"{message}; the adapter is for all of it.", UserWarning, stacklevel=4)
        if not fitting and not packed:
            known = ", ".join(t.name for t in targets[:6]) or "none"
            message = f"lora: {pattern!r} fits no MatMul, Gemm, Conv or MatMulNBits weight. There are: {known}"
            raise UnknownName(f"{message}. Name one, or a kind: {', '.join(GROUPS)}.")
        chosen.update(((t.op, t.at), t) for t in [*fitting, *packed])
    return list(chosen.values())


def _of_group(targets: Sequence[LoraTarget], kind: str) -> list[LoraTarget]:
    if kind == "experts":
        return [t for t in targets if t.is_of_experts]
    return [t for t in targets if not t.is_of_experts and (not _is_head(t.op) if kind == "all" else t.is_for(kind))]


def _is_head(op: Operator) -> bool:
    """Return whether only operators of ``_BEHIND_HEAD`` lie between a layer and an output"""
    at: Operator | None = op
    while at is not None:
        y = at.outputs[0]
        if y is None or any(y is v for v in op.block.outputs):
            return y is not None
        readers = [other for other in op.block.ops if any(v is y for v in other.inputs)]
        at = readers[0] if len(readers) == 1 and readers[0].type in _BEHIND_HEAD else None
    return False


def _targets(program: Program) -> list[LoraTarget]:
    targets = []
    for op in all_operators_of(program.global_block()):
        if op.domain == CONTRIB_DOMAIN and op.type in ("MoE", "QMoE"):
            targets += _experts(op)
        elif not (op.metadata and (KEY in op.metadata or DORA in op.metadata)):
            target = _target(op)
            if target is not None:
                targets.append(target)
    return targets


def _target(op: Operator) -> LoraTarget | None:
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    name = None if weight is None else _stored_name(weight)
    if weight is None or name is None:
        return None
    if op.type == "MatMulNBits" and op.domain == "com.microsoft":
        shape, x = matrix_of(op), op.inputs[0]
        return None if shape is None or x is None or not x.is_float else LoraTarget(op, shape, x.dtype, name)
    if op.type not in ("MatMul", "Gemm", "Conv") or op.domain:
        return None
    dims = weight.static_shape
    if dims is None or not weight.is_float or 0 in dims or (op.type == "Gemm" and not op.attr("alpha")):
        return None
    return LoraTarget(op, dims, weight.dtype, name) if _is_matrix(op, dims) else None


def _experts(op: Operator) -> list[LoraTarget]:
    """The weights of the experts in one operator, as float ones would be: [experts, outputs, inputs]"""
    targets, x = [], op.inputs[0]
    for index in range(2, min(len(op.inputs), 11), 3 if op.type == "QMoE" else 2):
        weight = op.inputs[index]
        dims = None if weight is None or weight.value is None else weight.static_shape
        if (
            weight is None
            or dims is None
            or len(dims) != 3
            or x is None
            or not x.is_float
            or weight.is_float == (op.type == "QMoE")
        ):
            continue
        bits = op.attrs.get(f"fc{(index + 1) // 3}_expert_weight_bits", op.attrs.get("expert_weight_bits", 4))
        each = 8 // bits if op.type == "QMoE" and bits in (2, 4, 8) else 1
        targets.append(LoraTarget(op, (dims[0], dims[1], dims[2] * each), x.dtype, weight.name, index))
    return targets


def matrix_of(op: Operator) -> tuple[int, ...] | None:
    """[rows, columns] of the weight that a layer multiplies by, also where it is packed"""
    if op.type != "MatMulNBits":
        weight = op.inputs[1]
        return None if weight is None else weight.static_shape
    rows, columns = op.attrs.get("K"), op.attrs.get("N")
    return (rows, columns) if isinstance(rows, int) and isinstance(columns, int) and rows > 0 < columns else None


def _is_matrix(op: Operator, shape: tuple[int, ...]) -> bool:
    """Whether the weight is a matrix, or one for each group: one channel, as of a depthwise Conv, has no rank that could be low"""
    if op.type != "Conv":
        return len(shape) == 2
    groups = op.attr("group")
    return len(shape) > 2 and groups > 0 and shape[0] % groups == 0 and (groups == 1 or shape[1] > 1)


def _stored_name(weight: Variable) -> str | None:
    """Name of the stored weight behind Identity, Transpose, Cast and DequantizeLinear"""
    while not weight.is_leaf or (weight.op is not None and weight.value is None):
        op = weight.op
        if op is None or op.type not in ("Identity", "Transpose", "Cast", "DequantizeLinear") or op.inputs[0] is None:
            return None
        weight = op.inputs[0]
    return weight.name if weight.value is not None or isinstance(weight, Parameter) else None

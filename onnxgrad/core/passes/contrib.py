"""com.microsoft operators of optimised files, written out in standard operators.

Each function of the table writes one operator; ``expand_contrib`` applies them to a loaded program. Definitions: the operator
schemas of onnxruntime (ContribOperators.md); the tests compare with its kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.forms import blaming
from onnxgrad.core.ir.infer import infer_leniently
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ModelError

__all__ = ["CONTRIB", "DOMAIN", "ContribNode", "contrib", "expand_contrib", "is_contrib"]

DOMAIN = "com.microsoft"
CONTRIB: dict[str, Callable[[Any, ContribNode], Any]] = {}


def contrib(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function ``(op, node)`` that writes operators of com.microsoft and returns their outputs."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        CONTRIB.update(dict.fromkeys(names, function))
        return function

    return enter


class ContribNode:
    """An operator being written out: operands by position, attributes with the default that its schema gives."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.type = operator.type

    def input(self, index: int) -> Any:
        return self.operator.inputs[index] if index < len(self.operator.inputs) else None

    def attr(self, name: str, default: Any = None) -> Any:
        return self.operator.attrs.get(name, default)

    def has_output(self, index: int) -> bool:
        return index < len(self.operator.outputs) and self.operator.outputs[index] is not None

    def rank(self, index: int) -> int:
        """Rank of an operand, which this operator's expansion depends on."""
        rank: int | None = self.input(index).rank
        if rank is None:
            raise self.refusal(f"the rank of its input {index} is unknown; declare its shape in value_info")
        return rank

    def refusal(self, reason: str) -> ModelError:
        return ModelError(f"{self.operator}: cannot be expanded: {reason}.")


def is_contrib(operator: Operator) -> bool:
    """Whether the table holds this operator. onnxruntime also writes some of them in the standard domain, where ONNX has none."""
    return operator.type in CONTRIB and (operator.domain == DOMAIN or (operator.domain == "" and operator.schema is None))


def expand_contrib(program: Program) -> None:
    """Write out every com.microsoft operator of the table, in place; others stay. The program is lifted to opset 21.

    Raises:
        ModelError: naming an operator in a form that has no expansion.
    """
    version = program.opset_version() or 1
    read: list[Variable] = []
    for block in list(program.blocks):
        ops, block.ops = block.ops, []
        for operator in ops:
            if is_contrib(operator):
                read.extend(v for v in operator.inputs if v is not None)
                program.set_opset_version(max(version, OLDEST_WITH_RULES))
                with blaming(operator, "expand it"):
                    _write_out(block, operator)
                program.set_opset_version(version)
            else:
                infer_leniently(operator)
                block.ops.append(operator)
    _drop_unread(program, read)
    if version < OLDEST_WITH_RULES:
        lift(program)
    program.version += 1


def _drop_unread(program: Program, candidates: list[Variable]) -> None:
    """Remove initializers that nothing reads any more, such as packed weights"""
    used = {v for block in program.blocks for op in block.ops for v in op.inputs}
    used |= {v for block in program.blocks for v in block.outputs}
    for v in candidates:
        if v.value is not None and v.op is None and not v.is_data and v not in used and v.name in v.block.vars:
            v.block.initializers = [other for other in v.block.initializers if other is not v]
            del v.block.vars[v.name]


def _write_out(block: Block, operator: Operator) -> None:
    """Append the expansion; its results become the operator's output variables"""
    start = len(block.ops)
    first = next(v for v in operator.outputs if v is not None)
    build = Builder(block, key=first.name)
    build.simplify = True
    results = CONTRIB[operator.type](build, ContribNode(operator))
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    for index, old in enumerate(operator.outputs):
        if old is None:
            continue
        new = results[index] if index < len(results) else None
        if new is None:
            raise ContribNode(operator).refusal(f"its output {old.name!r} is not written")
        if not any(new is v for op in block.ops[start:] for v in op.outputs) or any(new is v for v in operator.outputs):
            new = build.Identity(new)
        _replace(block, start, new, old)


def _replace(block: Block, start: int, new: Variable, old: Variable) -> None:
    for op in block.ops[start:]:
        op.inputs = [old if v is new else v for v in op.inputs]
        op.outputs = [old if v is new else v for v in op.outputs]
        if any(v is old for v in op.outputs):
            old.op = op
    old.type, old.entries = new.type, new.entries
    del block.vars[new.name]


# Activations -----------------------------------------------------------------------------------------------------------


@contrib("Gelu")
def gelu(op: Builder, node: ContribNode) -> Variable:
    return op.Gelu(node.input(0))


@contrib("BiasGelu")
def bias_gelu(op: Builder, node: ContribNode) -> Variable:
    return op.Gelu(op.Add(node.input(0), node.input(1)))


@contrib("FastGelu")
def fast_gelu(op: Builder, node: ContribNode) -> Variable:
    x, bias = node.input(0), node.input(1)
    return op.Gelu(x if bias is None else op.Add(x, bias), approximate="tanh")


@contrib("QuickGelu")
def quick_gelu(op: Builder, node: ContribNode) -> Variable:
    x = node.input(0)
    return op.Mul(x, op.Sigmoid(op.Mul(x, node.attr("alpha", 1.702))))


def _activated(op: Builder, node: ContribNode, y: Any, parameters: list[float | None]) -> Any:
    """The activation that a fused operator applies last"""
    name = node.attr("activation")
    given = [value for value in parameters if value is not None]
    if name is None:
        return y
    if name in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign"):
        return op.emit(name, (y,), {})
    if name == "Clip" and len(given) == 2:
        return op.Clip(y, given[0], given[1])
    if name in ("LeakyRelu", "Elu", "ThresholdedRelu", "HardSigmoid"):
        return op.emit(name, (y,), dict(zip(("alpha", "beta"), given, strict=False)))
    raise node.refusal(f"the activation {name!r} is not known")


# Products --------------------------------------------------------------------------------------------------------------


@contrib("FusedMatMul", "TransposeMatMul")
def fused_mat_mul(op: Builder, node: ContribNode) -> Variable:
    x, y = (_turned(op, node, i, letter) for i, letter in enumerate("AB"))
    z, alpha = op.MatMul(x, y), node.attr("alpha", 1.0)
    return z if alpha == 1.0 else op.Mul(z, alpha)


def _turned(op: Builder, node: ContribNode, index: int, letter: str) -> Any:
    """An operand with its batch axis moved inside, and its matrix transposed, where the attributes say so"""
    x, batch, matrix = node.input(index), node.attr(f"transBatch{letter}", 0), node.attr(f"trans{letter}", 0)
    if not batch and not matrix:
        return x
    axes = list(range(node.rank(index)))
    if len(axes) < 2:
        return x
    if batch:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if matrix:
        axes[-2:] = axes[:-3:-1]
    return op.Transpose(x, perm=axes)


@contrib("FusedGemm")
def fused_gemm(op: Builder, node: ContribNode) -> Any:
    attrs = {name: node.attr(name) for name in ("alpha", "beta", "transA", "transB") if node.attr(name) is not None}
    y = op.Gemm(node.input(0), node.input(1), node.input(2), **attrs)
    return _activated(op, node, y, [node.attr(f"activation_{name}") for name in ("alpha", "beta", "gamma")])


@contrib("FusedConv")
def fused_conv(op: Builder, node: ContribNode) -> Any:
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    attrs = {name: node.attr(name) for name in names if node.attr(name) is not None}
    y = op.Conv(node.input(0), node.input(1), node.input(2), **attrs)
    if node.input(3) is not None:
        y = op.Add(y, node.input(3))
    return _activated(op, node, y, list(node.attr("activation_params") or []))


@contrib("MatMulNBits")
def mat_mul_n_bits(op: Builder, node: ContribNode) -> Variable:
    """The packed weight becomes a constant of small integers that DequantizeLinear reads, so it stays as small as it was"""
    x, packed, scales, zeros = (node.input(i) for i in range(4))
    bits, block, n, k = node.attr("bits", 4), node.attr("block_size"), node.attr("N"), node.attr("K")
    count = -(-k // block)
    if bits not in (4, 8) or node.input(4) is not None or node.attr("weight_prepacked", 0):
        raise node.refusal("only plain weights of 4 or 8 bits are expanded, without g_idx")
    if packed.value is None or (zeros is not None and zeros.value is None):
        raise node.refusal("its weight is computed, not stored")
    level = _unpacked(packed.value.numpy().reshape(n, -1), bits)[:, :k]
    if zeros is None:
        zero = op.constant(np.full((n, count), 1 << (bits - 1), dtype_of(f"uint{bits}").numpy))
    elif zeros.is_float:
        raise node.refusal("its zero points are not integers")
    else:
        zero = op.constant(_unpacked(zeros.value.numpy().reshape(n, -1), bits)[:, :count])
    wide = op.Reshape(scales, [n, count])
    weight = op.DequantizeLinear(op.constant(level), wide, zero, axis=1, block_size=block)
    y = op.MatMul(x, op.Transpose(weight, perm=[1, 0]))
    return y if node.input(5) is None else op.Add(y, node.input(5))


def _unpacked(array: Any, bits: int) -> Any:
    """Rows of bytes as rows of small integers, the low half of a byte first"""
    if bits == 8:
        return array
    halves = np.stack([array & 15, array >> 4], axis=-1)
    return halves.reshape(len(array), -1).astype(dtype_of("uint4").numpy)


# Normalisation ---------------------------------------------------------------------------------------------------------


@contrib("LayerNormalization")
def layer_normalization(op: Builder, node: ContribNode) -> Any:
    attrs = {name: node.attr(name) for name in ("axis", "epsilon", "stash_type") if node.attr(name) is not None}
    return _layer_normalized(op, node, node.input(0), node.input(1), node.input(2), attrs, 2)


def _layer_normalized(op: Builder, node: ContribNode, x: Any, scale: Any, bias: Any, attrs: dict[str, Any], last: int) -> list[Any]:
    """The normalised tensor, then mean and inverse deviation if the operator declares them"""
    outputs = last + 1 if any(node.has_output(i) for i in range(1, last + 1)) else 1
    found = op.LayerNormalization(x, scale, bias, outputs=outputs, **attrs)
    return list(found) if isinstance(found, tuple) else [found, *[None] * last]


@contrib("SkipLayerNormalization")
def skip_layer_normalization(op: Builder, node: ContribNode) -> Any:
    total = _with_skip(op, node, node.input(4))
    attrs = {"epsilon": node.attr("epsilon", 1e-12)}
    return [*_layer_normalized(op, node, total, node.input(2), node.input(3), attrs, 2), total]


@contrib("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(op: Builder, node: ContribNode) -> Any:
    total = _with_skip(op, node, node.input(3))
    y, inverse = _root_mean_square_normalized(op, total, node.input(2), node.attr("epsilon", 1e-12))
    return y, None, inverse, total


def _with_skip(op: Builder, node: ContribNode, bias: Any) -> Variable:
    total = op.Add(node.input(0), node.input(1))
    return total if bias is None else op.Add(total, bias)


@contrib("SimplifiedLayerNormalization")
def simplified_layer_normalization(op: Builder, node: ContribNode) -> Any:
    if node.attr("axis", -1) != -1 and node.attr("axis") != node.rank(0) - 1:
        raise node.refusal("only the last axis is normalised")
    return _root_mean_square_normalized(op, node.input(0), node.input(1), node.attr("epsilon", 1e-5))


def _root_mean_square_normalized(op: Builder, x: Any, scale: Any, epsilon: float) -> tuple[Any, Any]:
    """x / sqrt(mean(x^2) + epsilon) * scale in float32 at least, and the reciprocal of that root"""
    narrow = x.type is not None and x.dtype.name in ("float16", "bfloat16")
    wide = op.Cast(x, to=1) if narrow else x
    inverse = op.Reciprocal(op.Sqrt(op.Add(op.ReduceMean(op.Mul(wide, wide), [-1], keepdims=1), epsilon)))
    unit = op.Mul(wide, inverse)
    return op.Mul(op.Cast(unit, to=x.dtype.number) if narrow else unit, scale), inverse


@contrib("EmbedLayerNormalization")
def embed_layer_normalization(op: Builder, node: ContribNode) -> Any:
    ids, segments, words, positions, kinds, scale, bias, mask, position_ids = (node.input(i) for i in range(9))
    length = op.Squeeze(op.Shape(ids, start=1, end=2), [0])
    total = op.Add(op.Gather(words, ids), op.Gather(positions, op.Range(0, length, 1) if position_ids is None else position_ids))
    if segments is not None:
        total = op.Add(total, op.Gather(kinds, segments))
    y = op.LayerNormalization(total, scale, bias, epsilon=node.attr("epsilon", 1e-12))
    index = None
    if node.has_output(1):
        batch = op.Shape(ids, start=0, end=1)
        index = op.Expand(op.constant(0, dtype_of("int32")), batch) if mask is None else op.ReduceSum(mask, [1], keepdims=0)
    return y, index, total

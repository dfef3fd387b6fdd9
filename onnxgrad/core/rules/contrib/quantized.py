"""Operators of com.microsoft that compute in integers, as what they do to the real numbers that these stand for.

Tests: tests/core/rules/test_contrib_quantized.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like
from onnxgrad.core.rules.contrib.attention import attention
from onnxgrad.core.rules.contrib.node import ContribNode, contrib
from onnxgrad.core.rules.integer_products import dequantized, quantized, real_conv

__all__: list[str] = []


def _real(op: Builder, node: ContribNode, index: int, axis: int = -1) -> Any:
    """The operand at ``index``, whose scale and zero point follow it, in real numbers"""
    return dequantized(op, node, node.input(index), node.input(index + 1), node.input(index + 2), axis)


def _closed(op: Builder, node: ContribNode, y: Any, index: int) -> Any:
    """``y`` in integers again; its scale and zero point are the operands from ``index`` on"""
    return quantized(op, y, node.input(index), node.input(index + 1), node.input(0))


@contrib("QuantizeLinear", quantizes=True)
def quantize_linear(op: Builder, node: ContribNode) -> Any:
    """y = quantize(x)"""
    x, scale, zero = (node.input(i) for i in range(3))
    attrs = {"axis": node.attr("axis")} if scale.rank and node.attr("axis") is not None else {}
    return op.QuantizeLinear(x, scale, zero, **attrs)


@contrib("DequantizeLinear", moves=True)
def dequantize_linear(op: Builder, node: ContribNode) -> Any:
    """y = dequantize(x)"""
    x, scale, zero = (node.input(i) for i in range(3))
    return dequantized(op, node, x, scale, zero, node.attr("axis", 1))


@contrib("DynamicQuantizeMatMul", moves=True)
def dynamic_quantize_mat_mul(op: Builder, node: ContribNode) -> Any:
    """y = dequantize(quantize(a)) dequantize(b) + c"""
    b, b_scale, b_zero, bias = (node.input(i) for i in range(1, 5))
    a = op.DequantizeLinear(*op.DynamicQuantizeLinear(node.input(0), outputs=3))
    y = op.MatMul(a, dequantized(op, node, b, b_scale, b_zero))
    return y if bias is None else op.Add(y, bias)


@contrib("MatMulIntegerToFloat", moves=True)
def mat_mul_integer_to_float(op: Builder, node: ContribNode) -> Any:
    """y = dequantize(a) dequantize(b) + c"""
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (node.input(i) for i in range(7))
    y = op.MatMul(dequantized(op, node, a, a_scale, a_zero, -2), dequantized(op, node, b, b_scale, b_zero))
    return y if bias is None else op.Add(y, bias)


@contrib("QGemm", quantizes=True, moves=True)
def q_gemm(op: Builder, node: ContribNode) -> Any:
    """y = alpha (dequantize(a) dequantize(b) + c * a_scale * b_scale), quantised if it has a scale"""
    alpha = node.attr("alpha", 1.0)
    transposes = {name: node.attr(name) for name in ("transA", "transB") if node.attr(name)}
    a, b = _real(op, node, 0, -2), _real(op, node, 3, 0 if node.attr("transB") else -1)
    bias = node.input(6)
    if bias is not None:
        bias = op.Mul(cast_like(op, bias, node.input(1)), op.Mul(node.input(1), node.input(4)))
    y = op.Gemm(a, b, bias, alpha=alpha, beta=alpha, **transposes)
    return y if node.input(7) is None else _closed(op, node, y, 7)


@contrib("QLinearAdd", quantizes=True)
def q_linear_add(op: Builder, node: ContribNode) -> Any:
    """y = quantize(dequantize(a) + dequantize(b))"""
    return _closed(op, node, op.Add(_real(op, node, 0), _real(op, node, 3)), 6)


@contrib("QLinearMul", quantizes=True)
def q_linear_mul(op: Builder, node: ContribNode) -> Any:
    """y = quantize(dequantize(a) * dequantize(b))"""
    return _closed(op, node, op.Mul(_real(op, node, 0), _real(op, node, 3)), 6)


@contrib("QLinearLeakyRelu", quantizes=True)
def q_linear_leaky_relu(op: Builder, node: ContribNode) -> Any:
    """y = quantize(LeakyRelu(dequantize(x)))"""
    return _closed(op, node, op.LeakyRelu(_real(op, node, 0), alpha=node.attr("alpha", 0.01)), 3)


@contrib("QLinearSigmoid", quantizes=True)
def q_linear_sigmoid(op: Builder, node: ContribNode) -> Any:
    """y = quantize(sigmoid(dequantize(x)))"""
    return _closed(op, node, op.Sigmoid(_real(op, node, 0)), 3)


@contrib("QLinearSoftmax", quantizes=True)
def q_linear_softmax(op: Builder, node: ContribNode) -> Any:
    """y = quantize(softmax(dequantize(x))); before opset 13, over all axes from the given one on"""
    x, axis = _real(op, node, 0), node.attr("axis", -1)
    if node.attr("opset") >= 13 or axis in (-1, node.rank(0) - 1):
        return _closed(op, node, op.Softmax(x, axis=axis), 3)
    flat = op.Softmax(op.Flatten(x, axis=axis), axis=-1)
    return _closed(op, node, op.Reshape(flat, op.Shape(x), allowzero=1), 3)


def _channels_first(op: Builder, node: ContribNode, x: Any) -> Any:
    rank = node.rank(0)
    return op.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)]) if node.attr("channels_last", 0) else x


def _as_stored(op: Builder, node: ContribNode, y: Any) -> Any:
    rank = node.rank(0)
    return op.Transpose(y, perm=[0, *range(2, rank), 1]) if node.attr("channels_last", 0) else y


@contrib("QLinearAveragePool", quantizes=True)
def q_linear_average_pool(op: Builder, node: ContribNode) -> Any:
    """y = quantize(AveragePool(dequantize(x)))"""
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    attrs = {name: node.attr(name) for name in names if node.attr(name) is not None}
    y = op.AveragePool(_channels_first(op, node, _real(op, node, 0)), **attrs)
    return _closed(op, node, _as_stored(op, node, y), 3)


@contrib("NhwcMaxPool", moves=True)
def nhwc_max_pool(op: Builder, node: ContribNode) -> Any:
    """y = MaxPool(x) of integers with the channels last"""
    rank = node.rank(0)
    names = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    attrs = {name: node.attr(name) for name in names if node.attr(name) is not None}
    y = op.MaxPool(op.Transpose(node.input(0), perm=[0, rank - 1, *range(1, rank - 1)]), **attrs)
    return op.Transpose(y, perm=[0, *range(2, rank), 1])


@contrib("QLinearGlobalAveragePool", quantizes=True)
def q_linear_global_average_pool(op: Builder, node: ContribNode) -> Any:
    """y = quantize(GlobalAveragePool(dequantize(x)))"""
    y = op.GlobalAveragePool(_channels_first(op, node, _real(op, node, 0)))
    return _closed(op, node, _as_stored(op, node, y), 3)


@contrib("QLinearReduceMean", quantizes=True)
def q_linear_reduce_mean(op: Builder, node: ContribNode) -> Any:
    """y = quantize(ReduceMean(dequantize(x)))"""
    return _closed(op, node, op.ReduceMean(_real(op, node, 0), list(node.attr("axes")), keepdims=node.attr("keepdims", 1)), 3)


@contrib("QLinearConcat", quantizes=True)
def q_linear_concat(op: Builder, node: ContribNode) -> Any:
    """y = quantize(Concat(dequantize(x), ...))"""
    if len(node.inputs) % 3 != 2 or any(node.input(i) is None for i in range(len(node.inputs))):
        raise node.refusal("its operands are not triples of tensor, scale and zero point", "Correct the file")
    parts = [_real(op, node, i) for i in range(2, len(node.inputs), 3)]
    return op.QuantizeLinear(op.Concat(*parts, axis=node.attr("axis")), node.input(0), node.input(1))


@contrib("QLinearWhere", quantizes=True)
def q_linear_where(op: Builder, node: ContribNode) -> Any:
    """z = quantize(Where(c, dequantize(x), dequantize(y)))"""
    z = op.Where(node.input(0), _real(op, node, 1), _real(op, node, 4))
    return op.QuantizeLinear(z, node.input(7), node.input(8))


@contrib("QLinearConv", quantizes=True)
def q_linear_conv(op: Builder, node: ContribNode) -> Any:
    """y = quantize(conv(dequantize(x), dequantize(w)) + b * x_scale * w_scale), also with the channels last"""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    attrs = {name: node.attr(name) for name in names if node.attr(name) is not None}
    inputs = [node.input(i) for i in range(9)]
    return _as_stored(op, node, real_conv(op, node, _channels_first(op, node, inputs[0]), inputs, attrs))


@contrib("QAttention", moves=True)
def q_attention(op: Builder, node: ContribNode) -> Any:
    """Attention with dequantised input and weight"""
    x, weight, bias, x_scale, weight_scale, mask, x_zero, weight_zero, past = (node.input(i) for i in range(9))
    x = dequantized(op, node, x, x_scale, x_zero)
    return attention(op, node.reading(x, dequantized(op, node, weight, weight_scale, weight_zero), bias, mask, past))


@contrib("QEmbedLayerNormalization")
def q_embed_layer_normalization(op: Builder, node: ContribNode) -> Any:
    """EmbedLayerNormalization with dequantised tables"""
    ids, segments = node.input(0), node.input(1)
    steps = op.Range(0, op.Squeeze(op.Shape(ids, start=1, end=2), [0]), 1)
    scale, bias = (_entry(op, node, index) for index in (5, 6))
    total: Variable = op.Add(_entry(op, node, 2, ids), _entry(op, node, 3, steps))
    if segments is not None:
        total = op.Add(total, _entry(op, node, 4, segments))
    y = op.LayerNormalization(total, scale, bias, epsilon=node.attr("epsilon", 1e-12))
    mask = node.input(7)
    if mask is None:
        return y, op.Expand(op.constant(0, ids.dtype), op.Shape(ids, start=0, end=1))
    return y, op.ReduceSum(mask, [1], keepdims=0)


def _entry(op: Builder, node: ContribNode, index: int, rows: Any = None) -> Any:
    """A quantised table, or rows of it; scales are six inputs behind the tables, zero points eleven"""
    table = node.input(index) if rows is None else op.Gather(node.input(index), rows)
    return dequantized(op, node, table, node.input(index + 6), node.input(index + 11))

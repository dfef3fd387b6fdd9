"""DoRA: a layer whose columns have a size and a direction, y = x (W + s A B) m / |W + s A B|, where m trains too.

Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024. The norms count as constants in the gradient, as in the paper. They
follow from |W|^2 + 2 s W^T A B + s^2 |A B|^2 of each column, where W^T A is the layer's own product with the columns of A: so a
weight of small integers is never written out, and no matrix of the weight's size is made.

Tests: tests/training/surgery/test_dora.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError
from onnxgrad.training.quantized.packed_weights import float_weight, is_packed
from onnxgrad.training.surgery.heads import insert_after
from onnxgrad.training.surgery.lora_targets import DORA, KEY, LoraTarget

__all__ = [
    "Magnitude",
    "check_single",
    "columns_last",
    "gain_of",
    "insert_magnitude",
    "magnitude_after",
    "multiply_columns",
    "remove_magnitude",
]

Array = np.ndarray[Any, Any]

_TINY = 1e-30
"""Square of the norm of a column without numbers: 0 / 0 would be none."""


class Magnitude(NamedTuple):
    """The sizes of a layer's columns: the parameter, the operator that multiplies by them over the norms, and the last one, which
    adds the layer's own bias again where it has one."""

    sizes: Parameter
    multiply: Operator
    last: Operator


def check_single(target: LoraTarget, with_sizes: bool) -> None:
    """Check that a layer has no other branch where one of them has sizes: the norms are those of one.

    Raises:
        ArgumentError: saying which layer has one, or that it is a Conv.
    """
    if target.is_of_experts:
        if with_sizes:
            raise ArgumentError(f"{target.op}: DoRA is not written for experts. Leave them out (layers=).")
        return
    if with_sizes and target.op.type == "Conv":
        raise ArgumentError(f"{target.op}: DoRA has magnitudes of matrix columns. Leave convolutions out (layers=).")
    branches = [op for op in _readers(target.op) if KEY in (op.metadata or {})]
    if branches and (with_sizes or any(DORA in (op.metadata or {}) for branch in branches for op in _readers(branch))):
        raise ArgumentError(f"{target.op} has an adapter, and DoRA's norms cover one adapter. Merge the other first.")


def _readers(op: Operator) -> list[Operator]:
    """The operators that read the result of another"""
    y = op.outputs[0]
    return [other for other in op.block.ops if any(v is y for v in other.inputs)]


def insert_magnitude(target: LoraTarget, add: Operator, a: Parameter, b: Parameter, scale: float) -> Parameter:
    """Multiply what a branch gives by sizes over norms; the sizes are the norms at first, so nothing changes."""
    op, program = target.op, target.op.block.program
    squares = _squares(op)
    sizes = program.global_block().create_parameter(
        program.fresh_name(f"{target.name}.lora_magnitude"),
        squares.shape,
        dtype_of(squares.dtype),
        value=TensorValue.of(np.sqrt(squares)),
    )

    def gain(build: Builder) -> Variable:
        norms = build.Sqrt(build.Max(_squared_norms(build, op, a, b, scale, squares), build.constant(_TINY, sizes.dtype)))
        norms.stop_gradient = True
        ratio: Variable = build.Div(sizes, norms)
        return ratio if ratio.dtype is target.dtype else build.Cast(ratio, to=target.dtype.number)

    before = set(op.block.ops)
    multiply_columns(op, add, f"{target.name}.dora", gain)
    for other in op.block.ops:
        if other not in before:
            other.metadata = {DORA: sizes.name}
    return sizes


def multiply_columns(base: Operator, add: Operator, key: str, gain: Callable[[Builder], Variable]) -> None:
    """Multiply what an operator gives, less the bias of the layer, by numbers for its columns; the result keeps its name"""
    block, y = add.block, add.outputs[0]
    assert y is not None
    total = Variable(block, block.program.fresh_name(f"{y.name}/total"), y.type, add)
    block.register(total)
    add.outputs = [total]

    def write(build: Builder) -> Variable:
        factor, bias = gain(build), _bias(build, base)
        if bias is None:
            return build.Mul(total, factor)
        return build.Add(build.Mul(build.Sub(total, bias), factor), bias)

    result = insert_after(add, write, key)
    assert result.op is not None
    block.vars.pop(result.name)
    result.op.outputs, y.op = [y], result.op


def remove_magnitude(add: Operator, magnitude: Magnitude) -> None:
    """Take the operators of the sizes out; what the branch adds up has the name of the result again"""
    block, y, total = add.block, magnitude.last.outputs[0], add.outputs[0]
    assert y is not None and total is not None
    gone = {op for op in block.ops if (op.metadata or {}).get(DORA) == magnitude.sizes.name}
    block.ops = [op for op in block.ops if op not in gone]
    for v in [total, *(v for op in gone for v in op.outputs if v is not None and v is not y)]:
        block.vars.pop(v.name, None)
    add.outputs, y.op = [y], add


def _squares(op: Operator) -> Array:
    """Squared norms of the columns of what a layer multiplies by, [columns]"""
    whole = columns_last(op, float_weight(op))
    factor = float(op.attr("alpha")) if op.type == "Gemm" else 1.0
    squares: Array = (whole * whole).sum(axis=0) * factor**2
    return squares.astype(np.float64 if op.inputs[0] is not None and op.inputs[0].dtype.name == "float64" else np.float32)


def columns_last(op: Operator, weight: Array) -> Array:
    """The weight as [rows, columns], however the operator reads it"""
    return weight.T if op.type == "Gemm" and op.attr("transB") else weight


def _squared_norms(build: Builder, op: Operator, a: Parameter, b: Parameter, scale: float, squares: Array) -> Variable:
    wide = dtype_of("float64" if squares.dtype == np.float64 else "float32")

    def widened(v: Variable) -> Variable:
        return v if v.dtype is wide else build.Cast(v, to=wide.number)

    products = widened(_product(build, op, build.Transpose(a, perm=[1, 0])))
    low, up = widened(a), widened(b)
    between = build.MatMul(build.MatMul(build.Transpose(low, perm=[1, 0]), low), up)
    mixed = build.Add(build.Mul(products, build.constant(2 * scale, wide)), build.Mul(between, build.constant(scale**2, wide)))
    crossed = build.ReduceSum(build.Mul(mixed, up), axes=[0], keepdims=0)
    own: Variable = build.Add(crossed, build.constant(squares, wide))
    return own


def _product(build: Builder, op: Operator, rows: Variable) -> Variable:
    """Rows times the weight of a layer, by its own operator"""
    if is_packed(op):
        y = op.outputs[0]
        assert y is not None
        attrs = {**op.attrs, "accuracy_level": 0}  # at level 4 the rows would be rounded to 8 bits
        copy = Operator(build.block, op.type, [rows, *op.inputs[1:5]], [], attrs, op.domain)
        result = Variable(
            build.block, build.block.program.fresh_name(f"{y.name}/product"), TensorType(y.dtype, (None, op.attrs["N"])), copy
        )
        build.block.register(result)
        copy.outputs = [result]
        build.block.ops.append(copy)
        return result
    weight = op.inputs[1]
    assert weight is not None
    if op.type == "MatMul":
        product: Variable = build.MatMul(rows, weight)
    else:
        product = build.Gemm(rows, weight, alpha=op.attr("alpha"), transB=op.attr("transB"))
    return product


def _bias(build: Builder, op: Operator) -> Variable | None:
    """What a layer adds to its product, which no size multiplies"""
    at = 5 if is_packed(op) else 2
    bias = op.inputs[at] if op.type != "MatMul" and len(op.inputs) > at else None
    if bias is None or op.type != "Gemm" or op.attr("beta") == 1:
        return bias
    scaled: Variable = build.Mul(bias, build.constant(float(op.attr("beta")), bias.dtype))
    return scaled


def magnitude_after(add: Operator) -> Magnitude | Literal[False] | None:
    """The sizes behind a branch, None if it has none, False where something marked so is not as ``insert_magnitude`` made it."""
    readers = _readers(add)
    if not any(DORA in (op.metadata or {}) for op in readers):
        return None
    if len(readers) != 1 or any(v is add.outputs[0] for v in add.block.outputs):
        return False
    multiply = last = first = readers[0]
    if first.type == "Sub":
        multiply = _only_reader(first) or first
        last = _only_reader(multiply) or first
        if last.type != "Add" or last.inputs[1] is not first.inputs[1]:
            return False
    gain = multiply.inputs[1].op if multiply.type == "Mul" and multiply.inputs[1] is not None else None
    if gain is not None and gain.type == "Cast":
        gain = gain.inputs[0].op if gain.inputs[0] is not None else None
    if gain is None or gain.type != "Div" or any(DORA not in (op.metadata or {}) for op in (multiply, last, gain)):
        return False
    sizes, norms = gain.inputs
    fits = isinstance(sizes, Parameter) and norms is not None and norms.op is not None and norms.op.type == "Sqrt"
    return Magnitude(sizes, multiply, last) if fits and isinstance(sizes, Parameter) else False


def _only_reader(op: Operator) -> Operator | None:
    readers = _readers(op)
    return readers[0] if len(readers) == 1 else None


def gain_of(base: Operator, sizes: Array, changed: Array) -> Array:
    """Sizes over the norms of a changed weight, [columns], in float64."""
    factor = abs(float(base.attr("alpha"))) if base.type == "Gemm" else 1.0
    norms = np.sqrt((columns_last(base, np.asarray(changed, np.float64)) ** 2).sum(axis=0)) * factor
    gain: Array = np.asarray(sizes, np.float64) / np.maximum(norms, _TINY**0.5)
    return gain

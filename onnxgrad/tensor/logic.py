"""Comparisons, booleans and bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.tensor.common import as_dtype, layer_for, promoted
from onnxgrad.tensor.layer import LayerHelper, is_variable

__all__ = [
    "allclose",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "equal_all",
    "greater_equal",
    "greater_than",
    "is_complex",
    "is_empty",
    "is_floating_point",
    "is_integer",
    "is_tensor",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "less",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]


def _compared(kind: str, op_type: str, x: Any, y: Any, name: str | None) -> Variable:
    layer = layer_for(kind, x, y, name=name)
    a, b = promoted(layer.op, x, y)
    if a.dtype == "bool" and op_type != "Equal":
        a, b = (layer.op.Cast(item, to=6) for item in (a, b))
    return layer.result(op_type, a, b)


def equal(x: Variable, y: Variable | float, name: str | None = None) -> Variable:
    """Whether elements are equal.

    Args:
        x, y: variables that broadcast to one shape, or one of them a number.

    Returns:
        A bool variable of the broadcast shape.

    Example:
        >>> paddle.equal(static.data("x", [None, 3]), 0.0).dtype
        onnxgrad.bool
    """
    return _compared("equal", "Equal", x, y, name)


def not_equal(x: Variable, y: Variable | float, name: str | None = None) -> Variable:
    """Whether elements differ."""
    layer = layer_for("not_equal", x, y, name=name)
    return layer.result("Not", layer.op.Equal(*promoted(layer.op, x, y)))


def less_than(x: Variable, y: Variable | float, name: str | None = None) -> Variable:
    """Whether ``x < y``, element by element."""
    return _compared("less_than", "Less", x, y, name)


less = less_than


def less_equal(x: Variable, y: Variable | float, name: str | None = None) -> Variable:
    """Whether ``x <= y``, element by element."""
    return _compared("less_equal", "LessOrEqual", x, y, name)


def greater_than(x: Variable, y: Variable | float, name: str | None = None) -> Variable:
    """Whether ``x > y``, element by element."""
    return _compared("greater_than", "Greater", x, y, name)


def greater_equal(x: Variable, y: Variable | float, name: str | None = None) -> Variable:
    """Whether ``x >= y``, element by element."""
    return _compared("greater_equal", "GreaterOrEqual", x, y, name)


def equal_all(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Whether all elements are equal; false for different shapes.

    Example:
        >>> paddle.equal_all(static.data("x", [2]), static.data("y", [2])).shape
        ()
    """
    layer = LayerHelper("equal_all", x, y, name=name)
    if x.static_shape is not None and y.static_shape is not None and x.static_shape != y.static_shape:
        return layer.result("Identity", layer.op.constant(np.array(False)))
    return layer.result("Cast", layer.op.ReduceMin(layer.op.Cast(equal(x, y), to=6), keepdims=0), to=9)


def isclose(
    x: Variable, y: Variable, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, name: str | None = None
) -> Variable:
    """Whether ``|x - y| <= atol + rtol * |y|``, element by element."""
    layer = LayerHelper("isclose", x, y, name=name)
    op = layer.op
    a, b = promoted(op, x, y)
    near = op.LessOrEqual(op.Abs(op.Sub(a, b)), op.Add(op.Mul(op.Abs(b), rtol), atol)) if a.dtype.is_float else op.Equal(a, b)
    near = op.Or(near, op.Equal(a, b))
    if equal_nan and a.dtype.is_float:
        near = op.Or(near, op.And(op.IsNaN(a), op.IsNaN(b)))
    return layer.result("Identity", near)


def allclose(
    x: Variable, y: Variable, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False, name: str | None = None
) -> Variable:
    """Whether all elements are close, in the sense of ``isclose``."""
    layer = LayerHelper("allclose", x, y, name=name)
    near = layer.op.Cast(isclose(x, y, rtol, atol, equal_nan), to=6)
    return layer.result("Cast", layer.op.ReduceMin(near, keepdims=0), to=9)


def isin(x: Variable, test_x: Variable, assume_unique: bool = False, invert: bool = False, name: str | None = None) -> Variable:
    """Whether each element of ``x`` occurs in ``test_x``; with ``invert``, whether it does not."""
    layer = LayerHelper("isin", x, test_x, name=name)
    op = layer.op
    a, b = promoted(op, x, test_x)
    same = op.Cast(op.Equal(op.Unsqueeze(a, [-1]), op.Reshape(b, np.array([-1]))), to=6)
    found = op.Cast(op.ReduceMax(same, [-1], keepdims=0), to=9)
    return layer.result("Not" if invert else "Identity", found)


def isnan(x: Variable, name: str | None = None) -> Variable:
    """Whether elements are NaN; false for integers."""
    return _float_test("isnan_v2", x, name, lambda op: op.IsNaN(x))


def isinf(x: Variable, name: str | None = None) -> Variable:
    """Whether elements are infinite; false for integers."""
    return _float_test("isinf_v2", x, name, lambda op: op.IsInf(x))


def isposinf(x: Variable, name: str | None = None) -> Variable:
    """Whether elements are positive infinity."""
    return _float_test("isposinf", x, name, lambda op: op.IsInf(x, detect_negative=0))


def isneginf(x: Variable, name: str | None = None) -> Variable:
    """Whether elements are negative infinity."""
    return _float_test("isneginf", x, name, lambda op: op.IsInf(x, detect_positive=0))


def isfinite(x: Variable, name: str | None = None) -> Variable:
    """Whether elements are neither NaN nor infinite."""
    layer = LayerHelper("isfinite_v2", x, name=name)
    op = layer.op
    if not x.dtype.is_float:
        return layer.result("Equal", x, x)
    return layer.result("Not", op.Or(op.IsNaN(x), op.IsInf(x)))


def _float_test(kind: str, x: Variable, name: str | None, test: Any) -> Variable:
    layer = LayerHelper(kind, x, name=name)
    if not x.dtype.is_float:
        return layer.result("Not", layer.op.Equal(x, x))
    return layer.result("Identity", test(layer.op))


def isreal(x: Variable, name: str | None = None) -> Variable:
    """True everywhere: there are no complex tensors here."""
    layer = LayerHelper("isreal", x, name=name)
    return layer.result("Expand", np.array(True), layer.op.Shape(x))


def logical_and(x: Variable, y: Variable, out: None = None, name: str | None = None) -> Variable:
    """Whether both elements are true (not 0)."""
    return _logical("logical_and", "And", x, y, name)


def logical_or(x: Variable, y: Variable, out: None = None, name: str | None = None) -> Variable:
    """Whether an element is true (not 0)."""
    return _logical("logical_or", "Or", x, y, name)


def logical_xor(x: Variable, y: Variable, out: None = None, name: str | None = None) -> Variable:
    """Whether exactly one element is true (not 0)."""
    return _logical("logical_xor", "Xor", x, y, name)


def logical_not(x: Variable, out: None = None, name: str | None = None) -> Variable:
    """Whether elements are false (0)."""
    layer = LayerHelper("logical_not", x, name=name)
    return layer.result("Not", as_dtype(layer.op, x, "bool"))


def _logical(kind: str, op_type: str, x: Variable, y: Variable, name: str | None) -> Variable:
    layer = LayerHelper(kind, x, y, name=name)
    return layer.result(op_type, as_dtype(layer.op, x, "bool"), as_dtype(layer.op, y, "bool"))


def bitwise_and(x: Variable, y: Variable, out: None = None, name: str | None = None) -> Variable:
    """The common bits of integers or booleans."""
    return _bitwise("bitwise_and", "BitwiseAnd", "And", x, y, name)


def bitwise_or(x: Variable, y: Variable, out: None = None, name: str | None = None) -> Variable:
    """The bits of either integer or boolean."""
    return _bitwise("bitwise_or", "BitwiseOr", "Or", x, y, name)


def bitwise_xor(x: Variable, y: Variable, out: None = None, name: str | None = None) -> Variable:
    """The bits of exactly one integer or boolean."""
    return _bitwise("bitwise_xor", "BitwiseXor", "Xor", x, y, name)


def bitwise_not(x: Variable, out: None = None, name: str | None = None) -> Variable:
    """The other bits of integers, or the opposite booleans."""
    layer = LayerHelper("bitwise_not", x, name=name)
    return layer.result("Not" if x.dtype == "bool" else "BitwiseNot", x)


bitwise_invert = bitwise_not


def _bitwise(kind: str, op_type: str, logical: str, x: Any, y: Any, name: str | None) -> Variable:
    layer = layer_for(kind, x, y, name=name)
    a, b = promoted(layer.op, x, y)
    if a.dtype.is_float:
        raise ArgumentError(f"{kind} takes integers or booleans, not {a.dtype.name}.")
    return layer.result(logical if a.dtype == "bool" else op_type, a, b)


def bitwise_left_shift(x: Variable, y: Variable, is_arithmetic: bool = True, out: None = None, name: str | None = None) -> Variable:
    """``x`` with its bits shifted left by ``y``; 0 from the width of its element type on."""
    return _shifted("bitwise_left_shift", "LEFT", x, y, name)


def bitwise_right_shift(
    x: Variable, y: Variable, is_arithmetic: bool = True, out: None = None, name: str | None = None
) -> Variable:
    """``x`` with its bits shifted right by ``y``: the sign comes in from the left, zeros unless ``is_arithmetic``."""
    return _shifted("bitwise_right_shift", "RIGHT", x, y, name, is_arithmetic)


def _shifted(kind: str, direction: str, x: Any, y: Any, name: str | None, signed: bool = False) -> Variable:
    """Bits as uint64, where a shift by 63 is the widest that is defined; those of a negative number inverted before and after"""
    layer = layer_for(kind, x, y, name=name)
    op = layer.op
    a, b = promoted(op, x, y)
    width = 8 * a.dtype.numpy.itemsize
    wide = op.Cast(a, to=7)
    negative = op.Less(wide, np.array(0))
    if signed and not a.dtype.name.startswith("u"):
        wide = op.Where(negative, op.BitwiseNot(wide), wide)
    elif width < 64 and direction == "RIGHT":
        wide = op.BitwiseAnd(wide, np.array(2**width - 1))
    bits, steps = op.Cast(wide, to=13), op.Cast(b, to=7)
    far = op.Or(op.Less(steps, np.array(0)), op.GreaterOrEqual(steps, np.array(width)))
    moved = op.BitShift(bits, op.Cast(op.Where(far, np.array(0), steps), to=13), direction=direction)
    if direction == "LEFT" and width < 64:
        moved = op.BitwiseAnd(moved, np.array(2**width - 1, np.uint64))
    result = op.Where(far, np.array(0), op.Cast(moved, to=7))
    if direction == "LEFT" and width < 64 and not a.dtype.name.startswith("u"):
        result = op.Where(op.GreaterOrEqual(result, np.array(2 ** (width - 1))), op.Sub(result, np.array(2**width)), result)
    if signed and not a.dtype.name.startswith("u"):
        result = op.Where(negative, op.BitwiseNot(result), result)
    return layer.result("Cast", result, to=a.dtype.number)


def is_empty(x: Variable, name: str | None = None) -> Variable:
    """Whether ``x`` has no elements."""
    layer = LayerHelper("is_empty", x, name=name)
    return layer.result("Equal", layer.op.Size(x), np.array(0))


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a variable.

    Example:
        >>> paddle.is_tensor(3.0)
        False
    """
    return is_variable(x)


def is_floating_point(x: Variable) -> bool:
    """Whether the elements are floating-point numbers."""
    return x.dtype.is_float


def is_integer(x: Variable) -> bool:
    """Whether the elements are integers."""
    return x.dtype.is_integer


def is_complex(x: Variable) -> bool:
    """False: there are no complex tensors here."""
    return False

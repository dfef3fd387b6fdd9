"""Comparisons, booleans and bits."""

# Tests: tests/tensor/test_math.py.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.common import as_dtype, binary, open_promoted, promote_operands, scalar
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, require_variables, variables_in
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers
from onnxgrad.tensor.tables import INTO_OUT, named_function, of_one, of_two

__all__ = [
    "allclose", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "equal", "equal_all", "greater_equal", "greater_than", "is_complex", "is_empty", "is_floating_point",
    "is_integer", "is_tensor", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "less",
    "less_equal", "less_than", "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal",
]  # fmt: skip


def _compared(op_type: str) -> Any:
    def formula(layer: LayerHelper, a: Variable, b: Variable) -> Variable:
        if a.dtype == "bool":  # ONNX has no order of booleans
            a, b = (layer.op.Cast(item, to=6) for item in (a, b))
        return layer.result(op_type, a, b)

    return formula


@remembers
@checked
@takes_options
def equal(x: Variable, y: Variable | float, name: str | None = None, out: Variable | None = None) -> Variable:
    """Whether elements are equal.

    Args:
        x, y: variables that broadcast to one shape, or one of them a number.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Returns:
        A bool variable of the broadcast shape.

    Example:
        >>> paddle.equal(static.data("x", [None, 3]), 0.0).dtype
        onnxgrad.bool
    """
    return binary("equal", "Equal", x, y, name)


not_equal = of_two("not_equal", lambda layer, a, b: layer.result("Not", layer.op.Equal(a, b)), "Whether elements differ.")
less_than = less = of_two("less_than", _compared("Less"), "Whether ``x < y``, element by element.")
less_equal = of_two("less_equal", _compared("LessOrEqual"), "Whether ``x <= y``, element by element.")
greater_than = of_two("greater_than", _compared("Greater"), "Whether ``x > y``, element by element.")
greater_equal = of_two("greater_equal", _compared("GreaterOrEqual"), "Whether ``x >= y``, element by element.")


def equal_all(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Whether all elements are equal; false for different shapes.

    Args:
        x: variable of any shape.
        y: of any shape.

    Example:
        >>> paddle.equal_all(static.data("x", [2]), static.data("y", [2])).shape
        ()
    """
    layer = LayerHelper("equal_all", x, y, name=name)
    if x.static_shape is not None and y.static_shape is not None and x.static_shape != y.static_shape:
        return layer.result("Identity", layer.op.constant(np.array(False)))
    return layer.result("Cast", layer.op.ReduceMin(layer.op.Cast(equal(x, y), to=6), keepdims=0), to=9)


@checked
def isclose(
    x: Variable,
    y: Variable,
    rtol: float | Variable = 1e-05,
    atol: float | Variable = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Whether ``|x - y| <= atol + rtol * |y|``, element by element.

    Args:
        x: variable of any shape.
        y: of a shape that broadcasts with ``x``.
        rtol: relative tolerance, a number or a variable of one element.
        atol: absolute tolerance, likewise.
        equal_nan: whether NaN equals NaN.
    """
    layer, op = open_layer("isclose", x, y, *variables_in(rtol, atol), name=name)
    if isinstance(rtol, bool) or isinstance(atol, bool):
        raise ArgumentTypeError(f"isclose: rtol and atol are numbers, not {rtol} and {atol}.")
    a, b = promote_operands(op, x, y)
    if a.dtype.is_float:
        slope, least = (scalar(op, value, a.dtype) for value in (rtol, atol))
        near = op.LessOrEqual(op.Abs(op.Sub(a, b)), op.Add(op.Mul(op.Abs(b), slope), least))
    else:
        near = op.Equal(a, b)
    near = op.Or(near, op.Equal(a, b))
    if equal_nan and a.dtype.is_float:
        near = op.Or(near, op.And(op.IsNaN(a), op.IsNaN(b)))
    return layer.result("Identity", near)


@checked
def allclose(
    x: Variable,
    y: Variable,
    rtol: float | Variable = 1e-05,
    atol: float | Variable = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Whether all elements are close, in the sense of ``isclose``.

    Args:
        x: variable of any shape.
        y: of a shape that broadcasts with ``x``.
        rtol: relative tolerance, a number or a variable of one element.
        atol: absolute tolerance, likewise.
        equal_nan: whether NaN equals NaN.
    """
    layer = LayerHelper("allclose", x, y, *variables_in(rtol, atol), name=name)
    near = layer.op.Cast(isclose(x, y, rtol, atol, equal_nan), to=6)
    return layer.result("Cast", layer.op.ReduceMin(near, keepdims=0), to=9)


@checked
def isin(x: Variable, test_x: Variable, assume_unique: bool = False, invert: bool = False, name: str | None = None) -> Variable:
    """Whether each element of ``x`` occurs in ``test_x``; with ``invert``, whether it does not.

    Args:
        x: variable of any shape.
        test_x: of any shape.
        assume_unique: accepted for compatibility.
        invert: whether to tell what does not occur.
    """
    layer, op = open_layer("isin", x, test_x, name=name)
    a, b = promote_operands(op, x, test_x)
    same = op.Cast(op.Equal(op.Unsqueeze(a, [-1]), op.Reshape(b, np.array([-1]))), to=6)
    contained = op.Cast(op.ReduceMax(same, [-1], keepdims=0), to=9)
    return layer.result("Not" if invert else "Identity", contained)


def _tested(test: Callable[[Builder, Variable], Variable]) -> Any:
    """Apply a test to floating-point numbers; false for integers"""

    def formula(layer: LayerHelper, x: Variable) -> Variable:
        if not x.is_float:
            return layer.result("Not", layer.op.Equal(x, x))
        return layer.result("Identity", test(layer.op, x))

    return formula


def _isfinite(layer: LayerHelper, x: Variable) -> Variable:
    if not x.is_float:
        return layer.result("Equal", x, x)
    return layer.result("Not", layer.op.Or(layer.op.IsNaN(x), layer.op.IsInf(x)))


isnan = of_one("isnan", _tested(lambda op, x: op.IsNaN(x)), "Whether elements are NaN; false for integers.", False, "isnan_v2")
isinf = of_one("isinf", _tested(lambda op, x: op.IsInf(x)), "Whether elements are infinite; false for integers.", False, "isinf_v2")
isposinf = of_one("isposinf", _tested(lambda op, x: op.IsInf(x, detect_negative=0)), "Whether elements are infinity.", False)
isneginf = of_one("isneginf", _tested(lambda op, x: op.IsInf(x, detect_positive=0)), "Whether elements are minus infinity.", False)
isfinite = of_one("isfinite", _isfinite, "Whether elements are neither NaN nor infinite.", False, "isfinite_v2")


def isreal(x: Variable, name: str | None = None) -> Variable:
    """True everywhere: there are no complex tensors here.

    Args:
        x: variable of any shape.
    """
    layer = LayerHelper("isreal", x, name=name)
    return layer.result("Expand", np.array(True), layer.op.Shape(x))


class _OfBits(Protocol):
    __name__: str

    def __call__(self, x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable: ...


class _OfOneBit(Protocol):
    __name__: str

    def __call__(self, x: Variable, out: Variable | None = None, name: str | None = None) -> Variable: ...


def _of_truths(op_type: str) -> Any:
    """Booleans; other elements are true where they are not 0"""
    return lambda layer, a, b: layer.result(op_type, as_dtype(layer.op, a, "bool"), as_dtype(layer.op, b, "bool"))


def _of_bits(layer_name: str, op_type: str, logical: str, doc: str) -> _OfBits:
    """A function of booleans, or of integers bit by bit."""

    @remembers
    @takes_options
    def function(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
        layer, _, (a, b) = open_promoted(layer_name, x, y, name=name)
        if a.dtype.is_float:
            raise ArgumentTypeError(f"{layer_name} takes integers or booleans, not {a.dtype.name}.")
        return layer.result(logical if a.dtype == "bool" else op_type, a, b)

    return named_function(
        function, layer_name, doc, "x, y: integers or booleans; they broadcast to one shape, and one may be a number.", INTO_OUT
    )


def _complement(layer_name: str, doc: str) -> _OfOneBit:
    @remembers
    @takes_options
    def function(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
        layer = LayerHelper(layer_name, x, name=name)
        return layer.result("Not" if x.dtype == "bool" else "BitwiseNot", x)

    return named_function(function, layer_name, doc, "x: integers or booleans.", INTO_OUT)


def _negated(layer: LayerHelper, x: Variable) -> Variable:
    return layer.result("Not", as_dtype(layer.op, x, "bool"))


logical_and = of_two("logical_and", _of_truths("And"), "Whether both elements are true (not 0).")
logical_or = of_two("logical_or", _of_truths("Or"), "Whether an element is true (not 0).")
logical_xor = of_two("logical_xor", _of_truths("Xor"), "Whether exactly one element is true (not 0).")
logical_not = of_one("logical_not", _negated, "Whether elements are false (0).", floats=False)
bitwise_and = _of_bits("bitwise_and", "BitwiseAnd", "And", "The common bits of integers or booleans.")
bitwise_or = _of_bits("bitwise_or", "BitwiseOr", "Or", "The bits of either integer or boolean.")
bitwise_xor = _of_bits("bitwise_xor", "BitwiseXor", "Xor", "The bits of exactly one integer or boolean.")
bitwise_not = bitwise_invert = _complement("bitwise_not", "The other bits of integers, or the opposite booleans.")


@checked
def bitwise_left_shift(x: Variable, y: Variable, is_arithmetic: bool = True, out: None = None, name: str | None = None) -> Variable:
    """``x`` with its bits shifted left by ``y``; 0 from the width of its element type on.

    Args:
        x: integers.
        y: integers of a shape that broadcasts: how many bits.
        is_arithmetic: changes nothing here: zeros come in from the right.
        out: must be None.
    """
    return _shifted("bitwise_left_shift", "LEFT", x, y, name)


@checked
def bitwise_right_shift(
    x: Variable, y: Variable, is_arithmetic: bool = True, out: None = None, name: str | None = None
) -> Variable:
    """``x`` with its bits shifted right by ``y``: the sign comes in from the left, zeros unless ``is_arithmetic``.

    Args:
        x: integers.
        y: integers of a shape that broadcasts: how many bits.
        is_arithmetic: whether the sign comes in from the left, and not zeros.
        out: must be None.
    """
    return _shifted("bitwise_right_shift", "RIGHT", x, y, name, is_arithmetic)


def _shifted(layer_name: str, direction: str, x: Any, y: Any, name: str | None, signed: bool = False) -> Variable:
    """Bits as uint64, where a shift by 63 is the widest that is defined; those of a negative number inverted before and after"""
    layer, op, (a, b) = open_promoted(layer_name, x, y, name=name)
    width, negatives = 8 * a.dtype.numpy.itemsize, not a.dtype.name.startswith("u")
    signed = signed and negatives
    wide = op.Cast(a, to=7)
    negative = op.Less(wide, np.array(0))
    if signed:
        wide = op.Where(negative, op.BitwiseNot(wide), wide)
    elif width < 64 and direction == "RIGHT":
        wide = op.BitwiseAnd(wide, np.array(2**width - 1))
    bits, steps = op.Cast(wide, to=13), op.Cast(b, to=7)
    far = op.Or(op.Less(steps, np.array(0)), op.GreaterOrEqual(steps, np.array(width)))
    moved = op.BitShift(bits, op.Cast(op.Where(far, np.array(0), steps), to=13), direction=direction)
    if direction == "LEFT" and width < 64:
        moved = op.BitwiseAnd(moved, np.array(2**width - 1, np.uint64))
    result = op.Where(far, np.array(0), op.Cast(moved, to=7))
    if direction == "LEFT" and width < 64 and negatives:
        result = op.Where(op.GreaterOrEqual(result, np.array(2 ** (width - 1))), op.Sub(result, np.array(2**width)), result)
    if signed:
        result = op.Where(negative, op.BitwiseNot(result), result)
    return layer.result("Cast", result, to=a.dtype.number)


def is_empty(x: Variable, name: str | None = None) -> Variable:
    """Whether ``x`` has no elements.

    Args:
        x: variable of any shape.
    """
    layer = LayerHelper("is_empty", x, name=name)
    return layer.result("Equal", layer.op.Size(x), np.array(0))


def is_tensor(x: object) -> bool:
    """Whether ``x`` is a variable.

    Args:
        x: anything.

    Example:
        >>> paddle.is_tensor(3.0)
        False
    """
    return is_variable(x)


def is_floating_point(x: Variable) -> bool:
    """Whether the elements are floating-point numbers.

    Args:
        x: variable of any shape.
    """
    return x.dtype.is_float


def is_integer(x: Variable) -> bool:
    """Whether the elements are integers.

    Args:
        x: variable of any shape.
    """
    require_variables("is_integer", x)
    return x.dtype.is_integer


def is_complex(x: Variable) -> bool:
    """False: there are no complex tensors here.

    Args:
        x: variable of any shape.
    """
    require_variables("is_complex", x)
    return False

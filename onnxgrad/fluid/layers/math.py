"""Element-wise mathematics, reductions, comparison, search."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.fluid.renamed import renamed
from onnxgrad.tensor import elementwise, linalg, logic, math
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.logic import logical_not
from onnxgrad.tensor.math import abs, ceil, cos, exp, floor, log, reciprocal, rsqrt, scale, sign, sin, sqrt, square, tanh
from onnxgrad.tensor.reduction import reduce

__all__ = [
    "abs",
    "argmax",
    "argmin",
    "ceil",
    "clip",
    "cos",
    "elementwise_add",
    "elementwise_div",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "equal",
    "exp",
    "floor",
    "greater_equal",
    "greater_than",
    "increment",
    "less_equal",
    "less_than",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "mean",
    "mul",
    "not_equal",
    "pow",
    "reciprocal",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "round",
    "rsqrt",
    "scale",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sum",
    "sums",
    "tanh",
    "topk",
]

round = renamed("round(x, name=None)", math.round)
clip = renamed("clip(x, min, max, name=None)", math.clip)
increment = renamed("increment(x, value=1.0, in_place=True)", math.increment)
sums = renamed("sums(input, out=None)", elementwise.add_n, inputs="input")
sum = renamed("sum(x)", elementwise.add_n, inputs="x")

equal = renamed("equal(x, y, cond=None, name=None)", logic.equal)
not_equal = renamed("not_equal(x, y, cond=None, name=None)", logic.not_equal)
less_than = renamed("less_than(x, y, cond=None, name=None)", logic.less_than)
less_equal = renamed("less_equal(x, y, cond=None, name=None)", logic.less_equal)
greater_than = renamed("greater_than(x, y, cond=None, name=None)", logic.greater_than)
greater_equal = renamed("greater_equal(x, y, cond=None, name=None)", logic.greater_equal)
logical_and = renamed("logical_and(x, y, cond=None, name=None)", logic.logical_and)
logical_or = renamed("logical_or(x, y, cond=None, name=None)", logic.logical_or)
logical_xor = renamed("logical_xor(x, y, cond=None, name=None)", logic.logical_xor)


# Reductions ----------------------------------------------------------------------------------------------------------


def _reduction(kind: str, op_type: str, what: str) -> Callable[..., Variable]:
    signature, about = f"{kind}(input, dim=None, keep_dim=False, name=None)", f"{what} over the axes ``dim``, or of all elements."
    return renamed(signature, partial(reduce, kind, op_type), about, x="input", axis="dim", keepdim="keep_dim")


reduce_sum = _reduction("reduce_sum", "ReduceSum", "The sum")
reduce_mean = _reduction("reduce_mean", "ReduceMean", "The mean")
reduce_max = _reduction("reduce_max", "ReduceMax", "The largest element")
reduce_min = _reduction("reduce_min", "ReduceMin", "The smallest element")
reduce_prod = _reduction("reduce_prod", "ReduceProd", "The product")


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, without axes."""
    return reduce("mean", "ReduceMean", x, None, False, name)


# Two operands, one of which is aligned with some axes of the other -----------------------------------------------------


def _elementwise(kind: str, function: Callable[..., Variable], sign: str) -> Callable[..., Variable]:
    def aligned(x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None) -> Variable:
        layer = LayerHelper(kind, x, y, name=name)
        # y gets axes of size 1 behind its own, so that it meets x from ``axis`` on.
        missing = 0 if axis == -1 else x.ndim - axis - y.ndim
        if missing < 0:
            raise ArgumentError(f"{layer.name}: {y!r} has too many axes to meet {x!r} from axis {axis} on.")
        y = layer.op.Unsqueeze(y, list(range(y.ndim, y.ndim + missing))) if missing else y
        return layer.activate(function(x, y, name=layer.name), act)

    aligned.__name__ = aligned.__qualname__ = kind
    aligned.__doc__ = f"{sign}; y's axes are x's from ``axis`` on (the last ones for -1). ``act`` is applied last."
    return aligned


def _plain(op_type: str) -> Callable[..., Variable]:
    """An operator on operands as they are, where Paddle 2 promotes them first"""
    return lambda x, y, name: LayerHelper("", x, y, name=name).result(op_type, x, y)


elementwise_add = _elementwise("elementwise_add", elementwise.add, "x + y")
elementwise_sub = _elementwise("elementwise_sub", elementwise.subtract, "x - y")
elementwise_mul = _elementwise("elementwise_mul", elementwise.multiply, "x * y")
elementwise_div = _elementwise("elementwise_div", _plain("Div"), "x / y, without the fraction for integers")
elementwise_floordiv = _elementwise("elementwise_floordiv", _plain("Div"), "x / y for integers, without the fraction")
elementwise_max = _elementwise("elementwise_max", elementwise.maximum, "The larger of x and y")
elementwise_min = _elementwise("elementwise_min", elementwise.minimum, "The smaller of x and y")
elementwise_mod = _elementwise("elementwise_mod", elementwise.remainder, "The remainder of x / y, with the sign of y")
elementwise_pow = _elementwise("elementwise_pow", _plain("Pow"), "x to the power y")


# Products and powers -------------------------------------------------------------------------------------------------


def mul(x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None) -> Variable:
    """The product of x and y seen as matrices: the axes before ``x_num_col_dims`` are rows, the others columns."""
    layer = LayerHelper("mul", x, y, name=name)
    op = layer.op
    if x.ndim == 2 and y.ndim == 2:
        return layer.result("MatMul", x, y)
    product = op.MatMul(op.Flatten(x, axis=x_num_col_dims), op.Flatten(y, axis=y_num_col_dims))
    kept = op.Concat(op.Shape(x, end=x_num_col_dims), op.Shape(y, start=y_num_col_dims), axis=0)
    return layer.result("Reshape", product, kept)


def matmul(
    x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0, name: str | None = None
) -> Variable:
    """``alpha`` times the matrix product over the last two axes."""
    layer = LayerHelper("matmul", x, y, name=name)
    product = linalg.matmul(x, y, transpose_x, transpose_y, layer.name)
    return product if alpha == 1.0 else layer.result("Mul", product, alpha)


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """x to the power ``factor``, in the element type of x."""
    return LayerHelper("pow", x, name=name).result("Pow", x, factor)


# Search --------------------------------------------------------------------------------------------------------------


def argmax(x: Variable, axis: int = 0) -> Variable:
    """Position of the largest element along ``axis``."""
    return LayerHelper("arg_max", x).result("ArgMax", x, axis=axis, keepdims=0)


def argmin(x: Variable, axis: int = 0) -> Variable:
    """Position of the smallest element along ``axis``."""
    return LayerHelper("arg_min", x).result("ArgMin", x, axis=axis, keepdims=0)


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """The ``k`` largest elements of the last axis, and their positions."""
    values, positions = LayerHelper("top_k", input, name=name).results(2, "TopK", input, np.array([k]))
    return values, positions

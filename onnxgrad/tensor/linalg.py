"""Linear algebra: products, norms, distances and covariances."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from string import ascii_letters
from typing import Any, Literal, TypeAlias

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.errors import ArgumentError, ArgumentTypeError, AxisError, Mismatch, NotOffered
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.axes import dim
from onnxgrad.tensor.common import (
    Axes,
    as_dtype,
    axes_of,
    floating,
    integers,
    known_dim,
    known_value,
    normal_axis,
    promote_operands,
)
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, present_operands
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers

__all__ = [
    "addmm", "baddbmm", "bmm", "cdist", "corrcoef", "cov", "cross", "dist", "dot", "einsum", "inner", "kron", "matmul",
    "matrix_norm", "matrix_transpose", "mm", "multi_dot", "mv", "norm", "outer", "pdist", "renorm", "tensordot", "vecdot",
    "vector_norm",
]  # fmt: skip

DistanceMode: TypeAlias = Literal["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"]

# Products ------------------------------------------------------------------------------------------------------------


@remembers
@checked
@takes_options
def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
    out: Variable | None = None,
) -> Variable:
    """Matrix product over the last two axes; leading axes broadcast.

    Args:
        x, y: vectors, matrices or batches of them.
        transpose_x, transpose_y: exchange the last two axes first; a vector stays as it is.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> x, w = static.data("x", [None, 3]), static.data("w", [4, 3])
        >>> paddle.matmul(x, w, transpose_y=True).shape
        (-1, 4)
    """
    layer = LayerHelper("matmul_v2", x, y, name=name)
    x, y = promote_operands(layer.op, x, y)
    x = transposed(layer, x) if transpose_x and x.ndim > 1 else x
    y = transposed(layer, y) if transpose_y and y.ndim > 1 else y
    return layer.result("MatMul", x, y)


def transposed(layer: LayerHelper, x: Variable) -> Variable:
    """The last two axes exchanged."""
    if x.ndim < 2:
        raise ArgumentError(f"{layer.name}: the vector {x!r} cannot be transposed.")
    return layer.op.Transpose(x, perm=[*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


@remembers
def mm(input: Variable, mat2: Variable, name: str | None = None) -> Variable:
    """Matrix product.

    Args:
        input: of shape [n, k].
        mat2: of shape [k, m].
    """
    return LayerHelper("matmul_v2", input, mat2, name=name).result("MatMul", input, mat2)


@remembers
@takes_options
def bmm(x: Variable, y: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """Products of two batches of matrices.

    Args:
        x: of shape [batch, n, k].
        y: of shape [batch, k, m].
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Raises:
        ArgumentError: if one does not have three axes.
    """
    layer = LayerHelper("bmm", x, y, name=name)
    if x.ndim != 3 or y.ndim != 3:
        raise ArgumentError(f"bmm takes three axes each, not {x.ndim} and {y.ndim}. Use matmul for others.")
    return layer.result("MatMul", x, y)


@remembers
def mv(x: Variable, vec: Variable, name: str | None = None) -> Variable:
    """Product of a matrix and a vector.

    Args:
        x: of shape [n, k].
        vec: of shape [k].
    """
    return LayerHelper("mv", x, vec, name=name).result("MatMul", x, vec)


@remembers
@takes_options
def dot(x: Variable, y: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """Sum of products along the last axis, of vectors or of the rows of two matrices.

    Args:
        x: of shape [n] or [rows, n].
        y: of that shape.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Raises:
        ArgumentError: for more than two axes.

    Example:
        >>> paddle.dot(static.data("x", [None, 3]), static.data("y", [None, 3])).shape
        (-1,)
    """
    layer = LayerHelper("dot", x, y, name=name)
    if max(x.ndim, y.ndim) > 2:
        raise ArgumentError(f"dot takes vectors or matrices, not {x.ndim} and {y.ndim} axes. Use vecdot for others.")
    return layer.result("ReduceSum", layer.op.Mul(*promote_operands(layer.op, x, y)), [-1], keepdims=0)


def _integers(axes: Any) -> list[int]:
    if np.ndim(axes) > 1:
        raise ArgumentTypeError(f"tensordot: {axes!r} is not a list of ints.")
    return integers(axes, "tensordot")


def _listed(axes: Any) -> Any:
    return np.asarray(axes).tolist() if is_variable(axes) and axes.is_eager else axes


@checked
def vecdot(x: Variable, y: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """Sum of products along ``axis``; the other axes broadcast.

    Args:
        x: variable of any shape.
        y: of a shape that broadcasts with ``x``.
        axis: the axis that is summed over.
    """
    layer = LayerHelper("vecdot", x, y, name=name)
    return layer.result("ReduceSum", layer.op.Mul(*promote_operands(layer.op, x, y)), [axis], keepdims=0)


@takes_options
def outer(x: Variable, y: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
    """All products of an element of ``x`` and one of ``y``, both flattened, as a matrix.

    Args:
        x: variable of any shape.
        y: of any shape.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.outer(static.data("x", [3]), static.data("y", [4])).shape
        (3, 4)
    """
    layer, op = open_layer("outer", x, y, name=name)
    a, b = promote_operands(op, x, y)
    return layer.result("Mul", op.Reshape(a, np.array([-1, 1])), op.Reshape(b, np.array([1, -1])))


def inner(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Sums of products over the last axis of both.

    Args:
        x: of shape [..., n].
        y: of shape [..., n].

    Example:
        >>> paddle.inner(static.data("x", [2, 3]), static.data("y", [5, 3])).shape
        (2, 5)
    """
    layer = LayerHelper("inner", x, y, name=name)
    if x.ndim == 0 or y.ndim == 0:
        return layer.result("Mul", x, y)
    return tensordot(x, y, ([-1], [-1]), name)


@checked
def tensordot(
    x: Variable, y: Variable, axes: int | Sequence[int] | Sequence[Sequence[int]] | Variable = 2, name: str | None = None
) -> Variable:
    """Sums of products over pairs of axes; the other axes of ``x``, then of ``y``, remain.

    Args:
        axes: how many last axes of ``x`` meet the first of ``y``; or a list of axes of each.

    Raises:
        ArgumentError: if a list names an axis twice or one that there is not, or sizes differ.

    Example:
        >>> paddle.tensordot(static.data("x", [2, 3, 4]), static.data("y", [4, 3, 5]), ([1, 2], [1, 0])).shape
        (2, 5)
    """
    layer = LayerHelper("tensordot", x, y, name=name)
    axes = _listed(axes)
    axes = [_listed(item) for item in axes] if isinstance(axes, (list, tuple)) else axes
    if isinstance(axes, (int, np.integer)):
        if axes < 0:
            raise Mismatch(f"tensordot: axes={axes} is negative. Give how many axes meet.")
        if axes > min(x.ndim, y.ndim):
            raise AxisError(f"tensordot: axes={axes} of variables with {x.ndim} and {y.ndim} axes. Give fewer.")
        first, second = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        if not isinstance(axes, (Sequence, np.ndarray)):
            raise ArgumentTypeError(f"tensordot: axes is an int or lists of ints, not {type(axes).__name__}.")
        nested = any(isinstance(item, (Sequence, np.ndarray)) for item in axes)
        pairs = [_integers(item) for item in axes] if nested else [_integers(axes)]
        if len(pairs) > 2:
            raise Mismatch(f"tensordot: axes={axes!r} are more than two lists.")
        first, second = pairs if len(pairs) == 2 else (pairs[0], pairs[0])
        # As in Paddle, the shorter list goes on as the longer one.
        first, second = [*first, *second[len(first) :]], [*second, *first[len(second) :]]
        if len(first) > min(x.ndim, y.ndim):
            raise Mismatch(f"tensordot: axes={axes!r} are more than the {min(x.ndim, y.ndim)} that there are.")
        first = [normal_axis(a, x.ndim, "tensordot") for a in first]
        second = [normal_axis(a, y.ndim, "tensordot") for a in second]
        if len({*first}) < len(first) or len({*second}) < len(second):
            raise Mismatch(f"tensordot: axes={axes!r} names an axis twice.")
    for a, b in zip(first, second, strict=True):
        if x.shape[a] != y.shape[b] and min(x.shape[a], y.shape[b]) > 1:
            raise Mismatch(f"tensordot: axis {a} of {x!r} and axis {b} of {y!r} meet, but have different sizes.")
    left, others = ascii_letters[: x.ndim], ascii_letters[x.ndim :]
    right = "".join(left[first[second.index(i)]] if i in second else others[i] for i in range(y.ndim))
    kept = "".join(letter for letter in left + right if (left + right).count(letter) == 1)
    equation = f"{left},{right}->{kept}"
    return layer.result("Einsum", *promote_operands(layer.op, x, y), equation=equation)


@checked
def einsum(equation: str, *operands: Variable) -> Variable:
    """Sums of products in Einstein's notation.

    Args:
        equation: letters for the axes of each operand; those after ``->`` remain; one there twice makes a diagonal.
        operands: variables.

    Raises:
        Mismatch: if there are not as many operands as terms.

    Example:
        >>> paddle.einsum("bij,bjk->bik", static.data("x", [None, 2, 3]), static.data("y", [None, 3, 4])).shape
        (-1, 2, 4)
        >>> paddle.einsum("i->ii", static.data("v", [3])).shape
        (3, 3)
    """
    equation = equation.replace(" ", "")
    if len(operands) != equation.partition("->")[0].count(",") + 1 or not operands:
        raise Mismatch(f"einsum: {equation!r} does not fit {len(operands)} operands. Give one for each term.")
    for term, operand in zip(equation.partition("->")[0].split(","), operands, strict=True):
        letters = term.replace("...", "")
        rank = len(letters) if operand.rank is None else operand.rank
        if "." in letters or len(letters) > rank or (len(letters) < rank and letters == term):
            raise Mismatch(f"einsum: {term!r} does not fit {operand!r}. Give a letter for each axis, or '...'.")
    layer = LayerHelper("einsum", *operands)
    terms, arrow, wanted = _spelled_out(equation, operands).partition("->")
    once = "".join(dict.fromkeys(wanted.replace("...", "")))
    if len(once) == len(wanted.replace("...", "")):
        return layer.result("Einsum", *promote_operands(layer.op, *operands), equation=terms + arrow + wanted)
    product = layer.op.Einsum(*promote_operands(layer.op, *operands), equation=f"{terms}->{'...' * ('...' in wanted)}{once}")
    return _on_diagonals(layer, product, once, wanted)


def _on_diagonals(layer: LayerHelper, x: Variable, letters: str, wanted: str) -> Variable:
    """``x`` spread over as many axes as its letters are wanted: a product with an identity matrix for each further one"""
    op, spare = layer.op, iter(letter for letter in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if letter not in wanted)
    terms, operands, result = ["..." * ("..." in wanted) + letters], [x], ""
    for letter in wanted:
        if letter in result and letter != ".":
            size = dim(op, x, letters.index(letter) - len(letters))
            square = np.tile(size, 2) if isinstance(size, np.ndarray) else op.Concat(size, size, axis=0)
            operands.append(op.EyeLike(op.Expand(op.constant(0, x.dtype), square)))
            terms.append(letter + (other := next(spare)))
            letter = other
        result += letter
    return layer.result("Einsum", *operands, equation=f"{','.join(terms)}->{result}")


def _spelled_out(equation: str, operands: Sequence[Variable]) -> str:
    """Ellipses as letters where they stand for different numbers of axes, the last ones shared"""
    terms, arrow, result = equation.partition("->")
    counts = [v.ndim - len(term.replace("...", "")) for term, v in zip(terms.split(","), operands, strict=False)]
    present = {n for term, n in zip(terms.split(","), counts, strict=False) if "..." in term}
    if len(present) < 2:
        return equation
    spare = [letter for letter in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if letter not in equation]
    most = "".join(spare[: builtins.max(present)])
    written = [term.replace("...", most[len(most) - n :]) for term, n in zip(terms.split(","), counts, strict=False)]
    if not arrow:
        letters = terms.replace("...", "").replace(",", "")
        result = "..." + "".join(sorted(letter for letter in {*letters} if letters.count(letter) == 1))
    return ",".join(written) + "->" + result.replace("...", most)


@checked
def multi_dot(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Product of several matrices, in the cheapest order when their sizes are known.

    Args:
        x: matrices; the first and the last may be vectors.
    """
    layer = LayerHelper("multi_dot", *x, name=name)
    items = list(x)
    while len(items) > 2:
        at = _cheapest(items)
        items[at : at + 2] = [layer.op.MatMul(items[at], items[at + 1])]
    return layer.result("MatMul", *items)


def _cheapest(items: Sequence[Variable]) -> int:
    """The neighbours whose product takes away the longest common axis"""
    shared = [item.shape[-1] for item in items[:-1]]
    return shared.index(max(shared))


def kron(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Kronecker product: every element of ``x`` times the whole ``y``.

    Args:
        x: variable of any shape.
        y: of any shape.

    Example:
        >>> paddle.kron(static.data("x", [2, 3]), static.data("y", [4, 2])).shape
        (8, 6)
    """
    layer, op = open_layer("kron", x, y, name=name)
    rank = max(x.ndim, y.ndim)
    x, y = (op.Unsqueeze(v, list(range(rank - v.ndim))) if v.ndim < rank else v for v in promote_operands(op, x, y))
    if x.static_shape is not None and y.static_shape is not None:
        target: Any = np.array(x.static_shape) * np.array(y.static_shape)
    else:
        target = op.Mul(op.Shape(x), op.Shape(y))
    wide = op.Mul(op.Unsqueeze(x, [2 * i + 1 for i in range(rank)]), op.Unsqueeze(y, [2 * i for i in range(rank)]))
    return layer.result("Reshape", wide, target)


@checked
def cross(x: Variable, y: Variable, axis: int = 9, name: str | None = None) -> Variable:
    """Vector product along an axis of size 3 (the first such one unless given, of unknown sizes too).

    Args:
        x: variable of any shape.
        y: of a shape that broadcasts with ``x``.
        axis: the axis of size 3.

    Raises:
        ArgumentError: if there is no such axis.
    """
    layer, op = open_layer("cross", x, y, name=name)
    a, b = promote_operands(op, x, y)
    if axis != 9:
        return layer.result("Sub", *_cross_terms(op, a, b, normal_axis(axis, x.ndim, "cross")))
    if 3 not in x.shape and -1 not in x.shape:
        raise ArgumentError(f"cross: no axis of {x!r} has size 3.")
    last = x.shape.index(3) if 3 in x.shape else max(i for i, size in enumerate(x.shape) if size < 0)
    product = layer.result("Sub", *_cross_terms(op, a, b, last))
    for axis in reversed(range(last)):
        if x.shape[axis] < 0:
            here = op.Squeeze(op.Equal(op.Shape(x, start=axis, end=axis + 1), np.array([3])), [0])
            product = layer.result("Where", here, op.Sub(*_cross_terms(op, a, b, axis)), product)
    return product


def _cross_terms(op: Builder, a: Variable, b: Variable, axis: int) -> tuple[Variable, Variable]:
    """Both products whose difference it is; something of the same shape along an axis that turns out not to have size 3"""

    def rolled(v: Variable, by: int) -> Variable:
        if v.shape[axis] >= 0:
            return op.Gather(v, (np.arange(3) + by) % 3, axis=axis)
        size = op.Squeeze(op.Shape(v, start=axis, end=axis + 1), [0])
        return op.Gather(v, op.Mod(op.Range(np.array(by), op.Add(size, np.array(by)), np.array(1)), size), axis=axis)

    return op.Mul(rolled(a, 1), rolled(b, 2)), op.Mul(rolled(a, 2), rolled(b, 1))


@remembers
@checked
def addmm(input: Variable, x: Variable, y: Variable, beta: float = 1.0, alpha: float = 1.0, name: str | None = None) -> Variable:
    """``beta * input + alpha * x @ y`` for matrices.

    Args:
        input: of a shape that broadcasts to the product.
        x: of shape [n, k].
        y: of shape [k, m].
        beta: the factor of ``input``.
        alpha: the factor of the product.

    Raises:
        ArgumentError: if ``input`` does not fit the product.
    """
    layer = LayerHelper("addmm", input, x, y, name=name)
    sizes = [x.shape[0], y.shape[-1]][2 - input.ndim :] if input.ndim <= 2 else []
    if len(sizes) != input.ndim or any(a not in (1, b) and min(a, b) >= 0 for a, b in zip(input.shape, sizes)):
        raise ArgumentError(f"addmm: {input!r} cannot be added to a product of {x!r} and {y!r}. Use baddbmm for batches.")
    return layer.result("Gemm", x, y, input, alpha=float(alpha), beta=float(beta))


@checked
def baddbmm(input: Variable, x: Variable, y: Variable, beta: float = 1.0, alpha: float = 1.0, name: str | None = None) -> Variable:
    """``beta * input + alpha * x @ y`` for batches of matrices.

    Args:
        input: of a shape that broadcasts to the products.
        x: of shape [batch, n, k].
        y: of shape [batch, k, m].
        beta: the factor of ``input``.
        alpha: the factor of the products.
    """
    layer, op = open_layer("baddbmm", input, x, y, name=name)
    return layer.result("Add", op.Mul(input, beta), op.Mul(op.MatMul(x, y), alpha))


def matrix_transpose(x: Variable, name: str | None = None) -> Variable:
    """The last two axes exchanged.

    Args:
        x: of two axes or more.
    """
    layer = LayerHelper("matrix_transpose", x, name=name)
    return layer.result("Identity", transposed(layer, x))


# Norms and distances -------------------------------------------------------------------------------------------------


@remembers
@checked
@takes_options
def norm(
    x: Variable,
    p: float | Literal["fro", "inf", "-inf"] | None = None,
    axis: Axes = None,
    keepdim: bool = False,
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Variable:
    """Norm of vectors, or Frobenius norm of matrices.

    Args:
        x: variable of any shape.
        p: a number, inf, -inf, 0 or 'fro' (the default, which is 2 for vectors).
        axis: one axis, several, or None for all elements.
        keepdim: keep the axes with size 1.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        dtype: element type to compute in; that of ``x`` unless given.

    Raises:
        NotOffered: for 'nuc', which needs singular values.

    Example:
        >>> paddle.norm(static.data("x", [None, 4]), p=1, axis=1).shape
        (-1,)
    """
    order: Any = 2.0 if p is None or p == "fro" else p
    if order == "nuc":
        raise NotOffered("norm: the nuclear norm needs singular values, which ONNX cannot compute.")
    if isinstance(order, (bool, list, tuple)) or (isinstance(order, str) and order not in ("inf", "-inf")):
        raise ArgumentError(f"norm: p is a number, 'fro' or 'nuc', not {p!r}.")
    return vector_norm(x, float(order), axis, keepdim, name, dtype)


@remembers
@checked
@takes_options
def vector_norm(
    x: Variable,
    p: float = 2.0,
    axis: Axes = None,
    keepdim: bool = False,
    name: str | None = None,
    dtype: DTypeLike | None = None,
    out: Variable | None = None,
) -> Variable:
    """(sum of |x|^p)^(1/p) over ``axis``; inf gives the largest, -inf the smallest, 0 the number of elements that are not 0.

    Args:
        x: variable of any shape.
        p: order of the norm; inf, -inf and 0 too.
        axis: an axis, several, or None for all.
        keepdim: keep the axes with size 1.
        dtype: element type to compute in; that of ``x`` unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
    """
    layer, op = open_layer("p_norm", x, name=name)
    x, axes, keep = floating(op, as_dtype(op, x, dtype)), axes_of(axis), int(keepdim)
    if not x.ndim:
        axes = None
    if math.isinf(p):
        return layer.result("ReduceMax" if p > 0 else "ReduceMin", op.Abs(x), axes, keepdims=keep)
    if p == 0:
        return layer.result("ReduceSum", op.Abs(op.Sign(x)), axes, keepdims=keep)
    if p in (1, 2):
        return layer.result(f"ReduceL{int(p)}", x, axes, keepdims=keep)
    total = op.ReduceSum(op.Pow(op.Abs(x), op.constant(p, x.dtype)), axes, keepdims=keep)
    return layer.result("Pow", total, op.constant(1.0 / p, x.dtype))


@checked
def matrix_norm(
    x: Variable,
    p: float | Literal["fro"] = "fro",
    axis: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """Norm of matrices: 'fro', or the largest or smallest sum of absolute values of rows (inf, -inf) or columns (1, -1).

    Args:
        x: of two axes or more.
        p: 'fro', 1, -1, inf or -inf.
        axis: the axes of rows and of columns.
        keepdim: keep the axes with size 1.

    Raises:
        NotOffered: for 'nuc', 2 and -2, which need singular values.
    """
    layer, op = open_layer("matrix_norm", x, name=name)
    rows, columns = (normal_axis(a, x.ndim, "matrix_norm") for a in axis)
    if p == "fro":
        return layer.result("ReduceL2", x, [rows, columns], keepdims=int(keepdim))
    if p in ("nuc", 2, -2):
        raise NotOffered(f"matrix_norm: {p!r} needs singular values, which ONNX cannot compute.")
    summed, other = (rows, columns) if abs(p) == 1 else (columns, rows)
    sums = op.ReduceL1(x, [summed], keepdims=1)
    extreme = layer.result("ReduceMax" if p > 0 else "ReduceMin", sums, [other], keepdims=1)
    return extreme if keepdim else layer.result("Squeeze", extreme, [rows, columns])


@checked
def dist(x: Variable, y: Variable, p: float = 2, name: str | None = None) -> Variable:
    """Norm of ``x - y`` over all elements.

    Args:
        x: variable of any shape.
        y: of a shape that broadcasts with ``x``.
        p: order of the norm, as for ``vector_norm``.
    """
    return vector_norm(LayerHelper("dist", x, y, name=name).op.Sub(x, y), float(p))


@checked
def pdist(
    x: Variable, p: float = 2.0, name: str | None = None, compute_mode: DistanceMode = "use_mm_for_euclid_dist_if_necessary"
) -> Variable:
    """Distances between all pairs of rows of [n, m], the first with the second first: n (n - 1) / 2 numbers.

    Args:
        x: a matrix.
        p: order of the norm.
        compute_mode: a word of Paddle's, which changes nothing: differences are taken, not products.

    Raises:
        ArgumentError: for another word.
        Mismatch: if ``x`` is not a matrix or its number of rows is not known.

    Example:
        >>> paddle.pdist(static.data("x", [4, 3])).shape
        (6,)
    """
    if x.ndim != 2 or x.shape[0] < 0:
        raise Mismatch(f"pdist takes a matrix with a known number of rows, not {x!r}.")
    op = LayerHelper("pdist", x, name=name).op
    first, second = np.triu_indices(x.shape[0], 1)
    return vector_norm(op.Sub(op.Gather(x, first), op.Gather(x, second)), float(p), -1)


@checked
def cdist(
    x: Variable,
    y: Variable,
    p: float = 2.0,
    compute_mode: DistanceMode = "use_mm_for_euclid_dist_if_necessary",
    name: str | None = None,
) -> Variable:
    """Distance of every row of ``x`` to every row of ``y``; gradient 0 where they coincide.

    Args:
        x, y: of shape [..., rows, n] and [..., other rows, n].
        p: order of the norm.
        compute_mode: a word of Paddle's, which changes nothing: differences are taken, not products.

    Raises:
        ArgumentError: for another word.

    Example:
        >>> paddle.cdist(static.data("x", [3, 4]), static.data("y", [2, 4])).shape
        (3, 2)
    """
    op = LayerHelper("cdist", x, y, name=name).op
    return vector_norm(op.Sub(op.Unsqueeze(x, [-2]), op.Unsqueeze(y, [-3])), float(p), -1)


@checked
def renorm(x: Variable, p: float, axis: int, max_norm: float) -> Variable:
    """``x`` with each slice along ``axis`` scaled down to norm ``max_norm`` if it is longer.

    Args:
        x: of two axes or more.
        p: order of the norm, above 0.
        axis: the axis whose slices are measured.
        max_norm: the length that none exceeds.
    """
    layer, op = open_layer("renorm", x)
    axis = normal_axis(axis, x.ndim, "renorm")
    return layer.result("Mul", x, shortening(op, x, p, [i for i in range(x.ndim) if i != axis], max_norm))


def shortening(op: Builder, x: Variable, p: float, axes: Axes, max_norm: float) -> Variable:
    """Compute the factor for ``x`` so that no norm over ``axes`` is above ``max_norm``: 1 where it is not."""
    length, limit = vector_norm(x, p, axes, keepdim=True), op.constant(float(max_norm), x.dtype)
    longer = op.Greater(length, limit)
    return op.Where(longer, op.Div(limit, op.Where(longer, length, limit)), op.constant(1.0, x.dtype))


@checked
def cov(
    x: Variable,
    rowvar: bool = True,
    ddof: bool = True,
    fweights: Variable | None = None,
    aweights: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Covariances of the rows of a matrix (its columns without ``rowvar``).

    Args:
        ddof: divide by the number of observations less one.
        fweights: how often each observation counts.
        aweights: a weight for each observation.

    Raises:
        ArgumentError: for more than two axes, or weights that are negative, or not one for each observation.
    """
    layer, op = open_layer("cov", x, *present_operands(fweights, aweights), name=name)
    if x.ndim > 2:
        raise ArgumentError(f"cov takes a vector or a matrix, not {x!r}.")
    if x.ndim == 1:
        x = op.Unsqueeze(x, [0])
    elif not rowvar:
        x = op.Transpose(x, perm=[1, 0])
    weights = op.Expand(op.constant(1.0, x.dtype), op.Shape(x, start=1, end=2))
    for weight in present_operands(fweights, aweights):
        numbers = known_value(weight)
        if weight.ndim != 1 or (weight.shape[0] != x.shape[1] and min(weight.shape[0], x.shape[1]) >= 0):
            raise ArgumentError(f"cov: a vector of one weight for each observation is needed, not {weight!r}.")
        if not is_variable(numbers) and np.min(numbers, initial=0) < 0:
            raise ArgumentError(f"cov: a weight is negative: {np.min(numbers)}.")
        if not is_variable(numbers) and not np.any(numbers):
            raise ArgumentError("cov: all weights are 0.")
        weights = op.Mul(weights, as_dtype(op, weight, x.dtype))
    total = op.ReduceSum(weights, keepdims=0)
    centred = op.Sub(x, op.Div(op.ReduceSum(op.Mul(x, weights), [1], keepdims=1), total))
    less: Any = op.constant(1.0, x.dtype)
    if aweights is not None:
        less = op.Div(op.ReduceSum(op.Mul(weights, as_dtype(op, aweights, x.dtype)), keepdims=0), total)
    norm_factor = op.Sub(total, less) if ddof else total
    covariance = layer.result("Div", op.MatMul(op.Mul(centred, weights), op.Transpose(centred, perm=[1, 0])), norm_factor)
    return layer.result("Squeeze", covariance) if covariance.static_shape == (1, 1) else covariance


@checked
def corrcoef(x: Variable, rowvar: bool = True, name: str | None = None) -> Variable:
    """Correlations of the rows of a matrix (its columns without ``rowvar``).

    Args:
        x: a matrix, or a vector of observations of one variable.
        rowvar: whether each row is a variable, and columns are observations.
    """
    layer, op = open_layer("corrcoef", x, name=name)
    covariance = cov(x, rowvar)
    if not covariance.ndim:
        return layer.result("Div", covariance, covariance)
    size = known_dim(covariance, 0, "corrcoef")
    spread = op.Sqrt(op.Gather(op.Reshape(covariance, np.array([-1])), np.arange(size) * (size + 1)))
    scaled = op.Div(op.Div(covariance, op.Unsqueeze(spread, [1])), op.Unsqueeze(spread, [0]))
    return layer.result("Clip", scaled, op.constant(-1.0, x.dtype), op.constant(1.0, x.dtype))

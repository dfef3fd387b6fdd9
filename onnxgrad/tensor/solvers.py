"""Inverses, solutions and factors of matrices, written out as elimination steps.

ONNX has MatMul, Einsum and Det, but no solver. What stands here is therefore unrolled, one step per row, which needs matrices of
known size and suits small ones.
"""

# Tests: tests/tensor/test_linalg.py.

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, Mismatch
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.common import known_dim
from onnxgrad.tensor.layer import LayerHelper, open_layer
from onnxgrad.tensor.linalg import transposed
from onnxgrad.tensor.options import takes_options

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "householder_product", "inv", "inverse", "matrix_power", "qr",
    "slogdet", "solve", "triangular_solve",
]  # fmt: skip


def det(x: Variable, name: str | None = None) -> Variable:
    """Determinants of square matrices in the last two axes.

    Args:
        x: square matrices of known size, [..., n, n].
    """
    return LayerHelper("determinant", x, name=name).result("Det", x)


def slogdet(x: Variable, name: str | None = None) -> Variable:
    """Sign and logarithm of the absolute value of determinants, stacked along a new first axis.

    Args:
        x: square matrices of known size, [..., n, n].
    """
    layer, op = open_layer("slogdet", x, name=name)
    determinant = op.Det(x)
    parts = [op.Unsqueeze(op.Sign(determinant), [0]), op.Unsqueeze(op.Log(op.Abs(determinant)), [0])]
    return layer.result("Concat", *parts, axis=0)


def inv(x: Variable, name: str | None = None) -> Variable:
    """Inverses of square matrices of known size in the last two axes.

    Args:
        x: square matrices of known size, [..., n, n].

    Raises:
        ArgumentError: if the size is unknown, or the matrices are not square.

    Example:
        >>> paddle.linalg.inv(static.data("x", [None, 3, 3])).shape
        (-1, 3, 3)
    """
    layer = LayerHelper("inverse", x, name=name)
    size = _square_size(x, "inverse")
    identity = layer.op.constant(np.eye(size), x.dtype)
    if x.ndim > 2:
        identity = layer.op.Expand(identity, layer.op.Shape(x))
    return layer.result("Identity", _eliminated(layer.op, x, identity))


inverse = inv


@checked
@takes_options
def solve(x: Variable, y: Variable, left: bool = True, name: str | None = None, out: Variable | None = None) -> Variable:
    """The solution z of ``x @ z = y`` (``z @ x = y`` without ``left``) for square matrices of known size.

    Args:
        x: square matrices of known size, [..., n, n].
        y: of shape [..., n, m], or a vector.
        left: whether ``x`` stands on the left.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.linalg.solve(static.data("a", [3, 3]), static.data("b", [3, 2])).shape
        (3, 2)
    """
    layer, op = open_layer("solve", x, y, name=name)
    _square_size(x, "solve")
    if not left:
        return layer.result("Identity", transposed(layer, solve(transposed(layer, x), transposed(layer, y))))
    vector = y.ndim == 1 or (y.ndim == x.ndim - 1 and x.ndim > 2)
    right = op.Unsqueeze(y, [-1]) if vector else y
    if x.ndim != right.ndim or x.shape[:-2] != right.shape[:-2] or -1 in x.shape[:-2]:
        x, right = _common_batch(op, x, right)
    solution = _eliminated(op, x, right)
    return layer.result("Squeeze", solution, [-1]) if vector else layer.result("Identity", solution)


def _common_batch(op: Builder, x: Variable, y: Variable) -> tuple[Variable, Variable]:
    """Two batches of matrices, repeated to one batch shape"""
    blank = op.Add(op.ReduceSum(x, [-2, -1], keepdims=0), op.ReduceSum(y, [-2, -1], keepdims=0))
    batch = op.Shape(blank)
    x, y = (op.Expand(v, op.Concat(batch, op.Shape(v, start=v.ndim - 2), axis=0)) for v in (x, y))
    return x, y


def _square_size(x: Variable, function: str) -> int:
    size = known_dim(x, -1, function) if x.ndim >= 2 else -1
    if size < 0 or x.shape[-2] not in (size, -1):
        raise Mismatch(f"{function} takes square matrices, not {x!r}.")
    return size


def _eliminated(op: Builder, x: Variable, right: Variable) -> Variable:
    """x^-1 right by Gauss-Jordan elimination with row exchanges, one step per row"""
    size, rank = x.shape[-1], x.ndim
    both = op.Concat(x, right, axis=rank - 1)
    for k in range(size):
        pivot = op.Slice(both, [k], [k + 1], [rank - 1])
        largest = op.Add(op.ArgMax(op.Abs(op.Slice(pivot, [k], [size], [rank - 2])), axis=rank - 2, keepdims=1), np.array(k))
        if k + 1 < size:
            both = _rows_exchanged(op, both, k, largest, rank)
        row = op.Slice(both, [k], [k + 1], [rank - 2])
        row = op.Div(row, op.Slice(row, [k], [k + 1], [rank - 1]))
        unit = op.constant(np.eye(size)[:, k : k + 1], x.dtype)
        column = op.Slice(both, [k], [k + 1], [rank - 1])
        both = op.Sub(both, op.Mul(op.Sub(column, unit), row))
    return op.Slice(both, [size], [np.iinfo(np.int64).max], [rank - 1])


def _rows_exchanged(op: Builder, both: Variable, k: int, other: Variable, rank: int) -> Variable:
    """Row ``k`` and row ``other`` (one per matrix) exchanged"""
    size = both.shape[-2]
    numbers = op.constant(np.arange(size).reshape(-1, 1))
    here = op.Equal(numbers, op.constant(np.array(k)))
    there = op.Equal(numbers, other)
    source = op.Where(here, other, op.Where(there, op.constant(np.array(k)), numbers))
    return op.GatherElements(both, op.Expand(source, op.Shape(both)), axis=rank - 2)


@checked
def cholesky(x: Variable, upper: bool = False, name: str | None = None) -> Variable:
    """The triangular factor L of symmetric matrices L L^T of known size (L^T with ``upper``).

    The gradient is that of a symmetric matrix.

    Args:
        x: symmetric positive definite matrices of known size, [..., n, n].
        upper: whether it is the upper triangular factor.

    Example:
        >>> paddle.linalg.cholesky(static.data("x", [None, 3, 3])).shape
        (-1, 3, 3)
    """
    layer, op = open_layer("cholesky", x, name=name)
    size, rank = _square_size(x, "cholesky"), x.ndim
    rest = op.Mul(op.Add(x, transposed(layer, x)), 0.5)
    columns = []
    for k in range(size):
        # Only the part from the k-th row and column on is left.
        column = op.Slice(rest, [0], [1], [rank - 1])
        column = op.Div(column, op.Sqrt(op.Slice(column, [0], [1], [rank - 2])))
        pads = [0] * (rank - 2) + [k, 0] + [0] * rank
        columns.append(op.Pad(column, pads) if k else column)
        if k + 1 < size:
            below = op.Slice(column, [1], [size], [rank - 2])
            rest = op.Slice(rest, [1, 1], [size, size], [rank - 2, rank - 1])
            rest = op.Sub(rest, op.MatMul(below, transposed(layer, below)))
    if not upper:
        return layer.result("Concat", *columns, axis=rank - 1)
    return layer.result("Identity", transposed(layer, op.Concat(*columns, axis=rank - 1)))


@checked
def triangular_solve(
    x: Variable,
    y: Variable,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    name: str | None = None,
) -> Variable:
    """The solution z of ``x @ z = y``, reading one triangle of ``x`` only (and its diagonal as ones if ``unitriangular``).

    Args:
        x: triangular matrices of known size, [..., n, n].
        y: of shape [..., n, m].
        upper: whether the upper triangle is read.
        transpose: whether ``x`` is transposed.
        unitriangular: whether its diagonal counts as ones.
    """
    layer, op = open_layer("triangular_solve", x, y, name=name)
    if y.ndim < 2:
        raise ArgumentError(f"triangular_solve: y holds columns of matrices, not {y!r}. Use unsqueeze(-1) for one.")
    size = _square_size(x, "triangular_solve")
    if unitriangular:
        strict = op.Trilu(x, np.array(1 if upper else -1), upper=int(upper))
        x = op.Add(strict, op.constant(np.eye(size), x.dtype))
    else:
        x = op.Trilu(x, upper=int(upper))
    return layer.result("Identity", solve(transposed(layer, x) if transpose else x, y))


@checked
def cholesky_solve(x: Variable, y: Variable, upper: bool = False, name: str | None = None) -> Variable:
    """The solution z of ``A @ z = x``, where ``y`` is the Cholesky factor of A.

    Args:
        x: of shape [..., n, m].
        y: the factor, [..., n, n].
        upper: whether it is the upper triangular factor.
    """
    layer = LayerHelper("cholesky_solve", x, y, name=name)
    first = triangular_solve(y, x, upper=upper, transpose=upper)
    return layer.result("Identity", triangular_solve(y, first, upper=upper, transpose=not upper))


@checked
def cholesky_inverse(x: Variable, upper: bool = False, name: str | None = None) -> Variable:
    """The inverse of A, of which ``x`` is the Cholesky factor.

    Args:
        x: the factor, [n, n].
        upper: whether it is the upper triangular factor.
    """
    layer = LayerHelper("cholesky_inverse", x, name=name)
    return cholesky_solve(layer.op.constant(np.eye(_square_size(x, "cholesky_inverse")), x.dtype), x, upper, name)


@overload
def qr(x: Variable, mode: Literal["reduced", "complete"] = "reduced", name: str | None = None) -> tuple[Variable, Variable]: ...
@overload
def qr(x: Variable, mode: Literal["r"], name: str | None = None) -> Variable: ...
@checked
def qr(
    x: Variable, mode: Literal["reduced", "complete", "r"] = "reduced", name: str | None = None
) -> Variable | tuple[Variable, Variable]:
    """An orthogonal and an upper triangular factor of matrices of known size, by Householder's reflections.

    Args:
        mode: 'reduced' for factors of the smaller size, 'complete' for a square first one, 'r' for the second alone.

    Example:
        >>> q, r = paddle.linalg.qr(static.data("x", [4, 3]))
        >>> q.shape, r.shape
        ((4, 3), (3, 3))
    """
    layer, op = open_layer("qr", x, name=name)
    rank, rows, columns = x.ndim, known_dim(x, -2, "qr"), known_dim(x, -1, "qr")
    least = min(rows, columns)
    q: Any = op.constant(np.eye(rows), x.dtype)
    r = x
    for k in range(min(rows - 1, columns)):
        v, factor = _reflector(op, r, k, rank)
        r = op.Sub(r, op.Mul(factor, op.MatMul(v, op.MatMul(transposed(layer, v), r))))
        q = op.Sub(q, op.Mul(factor, op.MatMul(op.MatMul(q, v), transposed(layer, v))))
    r = op.Trilu(r, upper=1)
    if mode != "complete":
        r = op.Slice(r, [0], [least], [rank - 2])
        q = op.Slice(q, [0], [least], [q.ndim - 1])
    if mode == "r":
        return layer.result("Identity", r)
    return layer.result("Identity", q), layer.result("Identity", r)


def _reflector(op: Builder, r: Variable, k: int, rank: int) -> tuple[Any, Any]:
    """The vector v and factor 2 / v.v that reflect column k onto its axis, away from its own sign"""
    rows = r.shape[-2]
    below = op.Mul(op.Slice(r, [k], [k + 1], [rank - 1]), op.constant((np.arange(rows) >= k).reshape(-1, 1), r.dtype))
    head = op.Slice(below, [k], [k + 1], [rank - 2])
    away = op.Where(op.Less(head, op.constant(0.0, r.dtype)), op.constant(-1.0, r.dtype), op.constant(1.0, r.dtype))
    length = op.ReduceL2(below, [rank - 2], keepdims=1)
    v = op.Add(below, op.Mul(op.constant(np.eye(rows)[:, k : k + 1], r.dtype), op.Mul(away, length)))
    square = op.ReduceSumSquare(v, [rank - 2], keepdims=1)
    empty = op.Equal(square, op.constant(0.0, r.dtype))
    return v, op.Div(op.constant(2.0, r.dtype), op.Where(empty, op.constant(1.0, r.dtype), square))


def householder_product(x: Variable, tau: Variable, name: str | None = None) -> Variable:
    """The product of the reflections whose vectors stand below the diagonal of ``x``, and their factors in ``tau``.

    Args:
        x: of shape [..., rows, columns].
        tau: of shape [..., k]: the factors.

    Raises:
        Mismatch: if a matrix is wider than high, or there are more factors than columns, or other batches of them.
    """
    layer, op = open_layer("householder_product", x, tau, name=name)
    if x.ndim < 2 or tau.ndim != x.ndim - 1 or any(a != b and min(a, b) >= 0 for a, b in zip(x.shape[:-2], tau.shape[:-1])):
        raise Mismatch(f"householder_product: {tau!r} does not hold a vector of factors for each matrix of {x!r}.")
    rank, rows, columns = x.ndim, known_dim(x, -2, "householder_product"), known_dim(x, -1, "householder_product")
    factors = known_dim(tau, -1, "householder_product")
    if not rows >= columns >= factors:
        raise Mismatch(f"householder_product: {rows} rows, {columns} columns and {factors} factors must not become more.")
    q: Any = op.constant(np.eye(rows), x.dtype)
    for k in range(factors):
        below = op.constant((np.arange(rows) > k).reshape(-1, 1), x.dtype)
        unit = op.constant(np.eye(rows)[:, k : k + 1], x.dtype)
        v = op.Add(op.Mul(op.Slice(x, [k], [k + 1], [rank - 1]), below), unit)
        factor = op.Unsqueeze(op.Slice(tau, [k], [k + 1], [-1]), [-1])
        q = op.Sub(q, op.Mul(factor, op.MatMul(op.MatMul(q, v), transposed(layer, v))))
    return layer.result("Slice", q, [0], [columns], [rank - 1])


@checked
def matrix_power(x: Variable, n: int, name: str | None = None) -> Variable:
    """A square matrix to an integer power, by repeated squaring; a negative power is one of the inverse.

    Args:
        x: square matrices of known size, [..., n, n].
        n: the power.
    """
    layer, op = open_layer("matrix_power", x, name=name)
    if x.ndim < 2 or 0 in x.shape[-2:] or (x.shape[-1] != x.shape[-2] and min(x.shape[-2:]) >= 0):
        raise ArgumentError(f"matrix_power takes square matrices, not {x!r}.")
    if n == 0:
        size = known_dim(x, -1, "matrix_power")
        return layer.result("Add", op.Mul(x, 0.0), op.constant(np.eye(size), x.dtype))
    base = x if n > 0 else inv(x)
    result: Any = None
    for i, bit in enumerate(reversed(f"{abs(n):b}")):
        base = op.MatMul(base, base) if i else base
        if bit == "1":
            result = base if result is None else op.MatMul(result, base)
    return layer.result("Identity", result)

"""Matrix products."""

from __future__ import annotations

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.accumulate import unbroadcast
from onnxgrad.core.rules.common import swap_last_two
from onnxgrad.core.rules.registry import gradient


@gradient("MatMul", broadcasts=True)
def matmul(op, node, gz):
    """gx = gz y^T;  gy = x^T gz, summed over broadcast batches"""
    x, y = node.inputs
    if x.rank is None or y.rank is None:
        return _product_of_unknown_rank(op, x, y, gz)
    if x.rank == 1 or y.rank == 1:
        return _vector_product(op, x, y, gz)
    gx = gy = None
    if node.wants(0):
        gx = op.Gemm(gz, y, transB=1) if x.rank == y.rank == 2 else op.MatMul(gz, swap_last_two(op, y))
    if node.wants(1) and y.rank == 2:
        rows, grows = (x, gz) if x.rank == 2 else (_as_matrix(op, x), _as_matrix(op, gz))
        gy = op.Gemm(rows, grows, transA=1)
    elif node.wants(1):
        gy = op.MatMul(swap_last_two(op, x), gz)
    return gx, gy


def _as_matrix(op: Builder, x: Variable) -> Variable:
    """All leading axes merged into rows"""
    return op.Flatten(x, axis=-1)


def _vector_product(op: Builder, x: Variable, y: Variable, gz: Variable) -> tuple[Variable, Variable]:
    """The same where one operand is a vector: make it a matrix, differentiate, take the added axis away"""
    if x.rank == 1 and y.rank == 1:
        return op.Mul(gz, y), op.Mul(gz, x)
    if x.rank == 1:
        column = op.Unsqueeze(gz, [-1])
        gx = op.Squeeze(op.MatMul(y, column), [-1])
        return gx, op.Mul(op.Unsqueeze(x, [-1]), op.Unsqueeze(gz, [-2]))
    gy = op.MatMul(swap_last_two(op, x), op.Unsqueeze(gz, [-1]))
    return op.Mul(op.Unsqueeze(gz, [-1]), y), op.Squeeze(gy, [-1])


def _product_of_unknown_rank(op: Builder, x: Variable, y: Variable, gz: Variable) -> tuple[Variable, Variable]:
    """Reshape vectors to matrices at run time: x a row, y a column, gz what their product would be"""
    row, column = op.Concat([1], op.Shape(x), axis=0), op.Concat(op.Shape(y), [1], axis=0)
    short_x, short_y = (_is_vector(op, v) for v in (x, y))
    wide_x = op.Reshape(x, op.Slice(row, op.Sub([1], short_x), [_ALL]), allowzero=1)
    wide_y = op.Reshape(y, op.Slice(column, [0], op.Add(op.Shape(op.Shape(y)), short_y)), allowzero=1)
    batch = op.Slice(op.Shape(gz), [0], op.Sub(op.Shape(op.Shape(gz)), op.Sub([2], op.Add(short_x, short_y))))
    rows, columns = op.Shape(wide_x, start=-2, end=-1), op.Shape(wide_y, start=-1)
    wide_gz = op.Reshape(gz, op.Concat(batch, rows, columns, axis=0), allowzero=1)
    gx = unbroadcast(op, op.MatMul(wide_gz, op.Einsum(wide_y, equation="...jk->...kj")), wide_x)
    gy = unbroadcast(op, op.MatMul(op.Einsum(wide_x, equation="...jk->...kj"), wide_gz), wide_y)
    return op.Reshape(gx, op.Shape(x), allowzero=1), op.Reshape(gy, op.Shape(y), allowzero=1)


_ALL = np.iinfo(np.int64).max


def _is_vector(op: Builder, v: Variable) -> Variable:
    """[1] if v has rank 1, else [0]"""
    return op.Cast(op.Equal(op.Shape(op.Shape(v)), [1]), to=7)


@gradient("Gemm", broadcasts=(2,))
def gemm(op, node, gz):
    """ga = alpha gz b^T;  gb = alpha a^T gz;  gc = beta gz   (with a, b transposed as the attributes say)"""
    a, b = node.inputs[:2]
    ta, tb, alpha = node.attr("transA"), node.attr("transB"), node.attr("alpha")
    if ta:
        ga = op.Gemm(b, gz, alpha=alpha, transA=tb, transB=1)
    else:
        ga = op.Gemm(gz, b, alpha=alpha, transB=1 - tb)
    if tb:
        gb = op.Gemm(gz, a, alpha=alpha, transA=1, transB=ta)
    else:
        gb = op.Gemm(a, gz, alpha=alpha, transA=1 - ta)
    return (ga, gb, op.Mul(gz, node.attr("beta")))[: len(node.inputs)]

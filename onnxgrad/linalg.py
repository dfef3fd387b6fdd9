"""paddle.linalg: linear algebra under the names it has there."""

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.tensor.creation import diagonal
from onnxgrad.tensor.linalg import (
    cdist,
    corrcoef,
    cov,
    cross,
    dot,
    matmul,
    matrix_norm,
    matrix_transpose,
    multi_dot,
    norm,
    vecdot,
    vector_norm,
)
from onnxgrad.tensor.solvers import (
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    det,
    householder_product,
    inv,
    matrix_power,
    qr,
    slogdet,
    solve,
    triangular_solve,
)

__all__ = [
    "cdist", "cholesky", "cholesky_inverse", "cholesky_solve", "corrcoef", "cov", "cross", "det", "diagonal", "dot",
    "householder_product", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot", "norm", "qr",
    "slogdet", "solve", "triangular_solve", "vecdot", "vector_norm",
]  # fmt: skip


globals().update(absence_hooks(__name__))

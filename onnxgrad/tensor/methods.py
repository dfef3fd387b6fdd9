"""Method forms of tensor functions on variables: ``x.mean(axis=1)`` is ``paddle.mean(x, axis=1)``."""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.variable import Variable
from onnxgrad.late import provides
from onnxgrad.tensor import (
    creation,
    elementwise,
    indexing,
    inplace,
    joining,
    linalg,
    logic,
    manipulation,
    math,
    random,
    reduction,
    search,
    solvers,
    special,
    stat,
)

__all__ = ["METHODS"]

_NOT_METHODS = {
    "arange", "assign", "block_diag", "broadcast_shape", "broadcast_tensors", "cartesian_prod", "column_stack", "dstack",
    "einsum", "empty", "eye", "full", "gaussian", "hstack", "linspace", "log_normal", "logspace", "meshgrid", "multi_dot",
    "normal", "ones", "pdist", "rand", "randint", "randn", "randperm", "row_stack", "shape", "standard_normal",
    "tril_indices", "triu_indices", "uniform", "vstack", "zeros",
}  # fmt: skip
_MODULES = (
    creation, elementwise, indexing, inplace, joining, linalg, logic, manipulation, math, random, reduction, search, solvers,
    special, stat,
)  # fmt: skip

METHODS: dict[str, Any] = {
    name: getattr(module, name) for module in _MODULES for name in module.__all__ if name not in _NOT_METHODS
}
METHODS["size"] = manipulation.numel
# Defined with the operators already, or attributes.
for _name in ("abs", "clone", "rank"):
    METHODS.pop(_name, None)
METHODS["abs"] = math.abs


def _attach() -> None:
    for name, function in METHODS.items():
        if name not in vars(Variable):
            setattr(Variable, name, function)


_attach()

# What Python's operators on variables call.
for _operator in (
    elementwise.floor_divide, elementwise.remainder, logic.bitwise_and, logic.bitwise_or, logic.bitwise_xor,
    logic.bitwise_left_shift, logic.bitwise_right_shift, logic.bitwise_not, linalg.matrix_transpose, indexing.getitem,
):  # fmt: skip
    provides(_operator.__name__)(_operator)

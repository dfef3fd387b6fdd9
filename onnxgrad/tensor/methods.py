"""Method forms of tensor functions on variables: ``x.mean(axis=1)`` is ``paddle.mean(x, axis=1)``.

Tests: tests/core/ir/test_variables.py, tests/test_compat.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from onnxgrad.core.ir.variable import Variable
from onnxgrad.internal.late import provides
from onnxgrad.internal.refusals import reason
from onnxgrad.tensor import indexing

__all__ = ["METHODS", "MODULES"]

# Those that take no variable first, and two that variables have already.
_NOT_METHODS = {
    "arange", "assign", "block_diag", "broadcast_shape", "broadcast_tensors", "cartesian_prod", "clone", "column_stack", "dstack",
    "einsum", "empty", "eye", "full", "gaussian", "hstack", "linspace", "log_normal", "logspace", "meshgrid", "multi_dot",
    "normal", "ones", "pdist", "rand", "randint", "randn", "randperm", "rank", "row_stack", "shape", "standard_normal",
    "tril_indices", "triu_indices", "uniform", "vstack", "zeros",
}  # fmt: skip
_FAMILIES = (
    "creation", "elementwise", "indexing", "inplace", "joining", "linalg", "logic", "manipulation", "math", "random", "reduction",
    "search", "solvers", "special", "stat",
)  # fmt: skip
MODULES = [import_module(f"onnxgrad.tensor.{family}") for family in _FAMILIES]

METHODS: dict[str, Any] = {name: getattr(module, name) for module in MODULES for name in module.__all__ if name not in _NOT_METHODS}
METHODS["size"] = METHODS["numel"]
for _name, _function in METHODS.items():
    if _name not in vars(Variable):
        setattr(Variable, _name, _function)

# What Python's operators on variables call.
for _name in (
    "floor_divide", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
    "bitwise_not", "matrix_transpose",
):  # fmt: skip
    provides(_name)(METHODS[_name])
provides("getitem")(indexing.getitem)


@provides("Variable.why_absent")
def why_absent(name: str) -> str | None:
    """Why a variable has no method of this name, if Paddle's tensors have one."""
    return reason(f"paddle.Tensor.{name}") or reason(f"paddle.{name}")

"""Method forms of tensor functions on variables: ``x.mean(axis=1)`` is ``paddle.mean(x, axis=1)``.

Tests: tests/core/ir/test_variables.py, tests/test_compat.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeName
from onnxgrad.internal.late import provides
from onnxgrad.internal.refusals import maps_to, why_absent
from onnxgrad.tensor import indexing, manipulation
from onnxgrad.tensor.tables import OF_ANY, named_function

__all__ = ["METHODS", "MODULES"]

# Those that take no variable first, and two that variables have already.
_NOT_METHODS = {
    "arange", "assign", "block_diag", "broadcast_shape", "broadcast_tensors", "cartesian_prod", "clone", "column_stack", "dstack",
    "einsum", "empty", "eye", "full", "gaussian", "hstack", "linspace", "log_normal", "logspace", "meshgrid", "multi_dot",
    "broadcast_shapes", "cat", "concatenate", "normal", "ones", "pdist", "rand", "rand_like", "randint", "randn", "randn_like",
    "randperm", "range", "rank", "row_stack", "shape", "standard_normal",
    "tril_indices", "triu_indices", "uniform", "vstack", "zeros",
}  # fmt: skip
_FAMILIES = (
    "creation", "elementwise", "indexing", "inplace", "joining", "linalg", "logic", "manipulation", "math", "random", "reduction",
    "search", "solvers", "special", "spellings", "stat",
)  # fmt: skip
MODULES = [import_module(f"onnxgrad.tensor.{family}") for family in _FAMILIES]

METHODS: dict[str, Any] = {name: getattr(module, name) for module in MODULES for name in module.__all__ if name not in _NOT_METHODS}
METHODS["size"] = METHODS["numel"]


class _Cast(Protocol):
    def __call__(self, x: Variable) -> Variable: ...


def _cast_to(method: str, dtype: DTypeName) -> _Cast:
    def function(x: Variable) -> Variable:
        return manipulation.cast(x, dtype)

    return named_function(function, method, f"The elements as {dtype}.", OF_ANY)


_CASTS: dict[str, DTypeName] = {
    "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8", "char": "int8", "double": "float64", "float": "float32",
    "float16": "float16", "float32": "float32", "float64": "float64", "half": "float16", "int": "int32", "int16": "int16",
    "int32": "int32", "int64": "int64", "int8": "int8", "long": "int64", "short": "int16", "uint8": "uint8",
}  # fmt: skip
METHODS.update({method: _cast_to(method, dtype) for method, dtype in _CASTS.items()})
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
def why_no_method(name: str) -> str | None:
    """Why a variable has no method of this name, or what to use instead, if Paddle's tensors have one."""
    replacement = maps_to(f"paddle.Tensor.{name}") or maps_to(f"paddle.static.Variable.{name}")
    return why_absent(f"paddle.Tensor.{name}") if replacement is None else f"use {replacement}"

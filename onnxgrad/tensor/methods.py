"""Method forms of tensor functions on variables: ``x.mean(axis=1)`` is ``paddle.mean(x, axis=1)``.

Each is looked up when it is first asked for, and its family imported then.

Tests: tests/core/ir/test_variables.py, tests/test_compat.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import MethodType
from typing import Any

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeName
from onnxgrad.internal.late import provides
from onnxgrad.internal.refusals import maps_to, why_absent
from onnxgrad.tensor.homes import HOMES

__all__ = ["METHODS", "function_of", "method"]

# Those that take no variable first, and two that variables have already.
_NOT_METHODS = {
    "arange", "assign", "block_diag", "broadcast_shape", "broadcast_tensors", "cartesian_prod", "clone", "column_stack", "dstack",
    "einsum", "empty", "eye", "full", "gaussian", "hstack", "linspace", "log_normal", "logspace", "meshgrid", "multi_dot",
    "broadcast_shapes", "cat", "concatenate", "normal", "ones", "pdist", "rand", "rand_like", "randint", "randn", "randn_like",
    "randperm", "range", "rank", "row_stack", "shape", "standard_normal",
    "tril_indices", "triu_indices", "uniform", "vstack", "zeros",
}  # fmt: skip
_FAMILY_OF = {name: family for family, names in HOMES.items() for name in names}
_CASTS: dict[str, DTypeName] = {
    "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8", "char": "int8", "double": "float64", "float": "float32",
    "float16": "float16", "float32": "float32", "float64": "float64", "half": "float16", "int": "int32", "int16": "int16",
    "int32": "int32", "int64": "int64", "int8": "int8", "long": "int64", "short": "int16", "uint8": "uint8",
}  # fmt: skip
METHODS = [
    *(name for family, names in HOMES.items() if family != "types" for name in names if name not in _NOT_METHODS),
    "size",
    *_CASTS,
]


def function_of(name: str) -> Any:
    """The tensor function of this name, whose family is imported; None if there is none."""
    family = _FAMILY_OF.get(name)
    return None if family is None else getattr(import_module(f"onnxgrad.tensor.{family}"), name)


def method(name: str) -> Callable[..., Any]:
    """The function that is the method of this name."""
    function: Callable[..., Any] = (
        _cast_to(name, _CASTS[name]) if name in _CASTS else function_of("numel" if name == "size" else name)
    )
    return function


def _cast_to(name: str, dtype: DTypeName) -> Callable[[Variable], Variable]:
    from onnxgrad.tensor.manipulation import cast
    from onnxgrad.tensor.tables import OF_ANY, named_function

    def function(x: Variable) -> Variable:
        return cast(x, dtype)

    return named_function(function, name, f"The elements as {dtype}.", OF_ANY)


class _Method:
    """Stands for a method of variables until it is asked for, and then puts the function into its place."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, variable: Variable | None, owner: type) -> Any:
        function = method(self._name)
        setattr(Variable, self._name, function)
        return function if variable is None else MethodType(function, variable)


for _name in METHODS:
    if _name not in vars(Variable):
        setattr(Variable, _name, _Method(_name))


def _provide(name: str, function: Callable[[], Callable[..., Any]]) -> None:
    """Enter what Python's operators on variables call, by a function that looks it up at the first call."""

    def first(*operands: Any) -> Any:
        return provides(name)(function())(*operands)

    provides(name)(first)


for _name in (
    "floor_divide", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
    "bitwise_not", "matrix_transpose",
):  # fmt: skip
    _provide(_name, partial(method, _name))
_provide("getitem", lambda: import_module("onnxgrad.tensor.indexing").getitem)


@provides("Variable.why_absent")
def why_no_method(name: str) -> str | None:
    """Why a variable has no method of this name, or what to use instead, if Paddle's tensors have one."""
    replacement = maps_to(f"paddle.Tensor.{name}") or maps_to(f"paddle.static.Variable.{name}")
    return why_absent(f"paddle.Tensor.{name}") if replacement is None else f"use {replacement}"

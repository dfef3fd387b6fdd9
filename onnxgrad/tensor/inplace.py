"""Names that end in ``_``: in place on eager tensors; on a program's variables the same as without ``_``, with a warning.

Made from the functions of the other modules, whose arguments they take.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from onnxgrad.errors import ArgumentTypeError
from onnxgrad.tensor import creation, elementwise, indexing, linalg, logic, manipulation, math, random, reduction, search, special
from onnxgrad.tensor.layer import overwritten

_FORMS = {
    math: "abs acos acosh asin asinh atan atanh ceil clip cos cosh erf exp expm1 floor frac increment log log10 log1p log2 logit "
    "nan_to_num neg reciprocal round rsqrt scale sigmoid sin sinc sinh sqrt square stanh tan tanh trunc",
    elementwise: "add atan2 copysign divide floor_divide floor_mod gcd hypot lcm ldexp lerp mod multiply pow remainder subtract",
    special: "digamma erfinv gammaln lgamma multigammaln polygamma",
    reduction: "cumprod cumsum",
    creation: "tril triu",
    linalg: "addmm baddbmm renorm",
    logic: "bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor equal "
    "greater_equal greater_than less less_equal less_than logical_and logical_not logical_or logical_xor not_equal",
    manipulation: "cast flatten reshape squeeze t transpose unsqueeze",
    indexing: "index_add index_fill index_put masked_fill masked_scatter put_along_axis scatter",
    random: "bernoulli",
}


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The form of a function that writes its result into its first argument."""
    name = f"{function.__name__}_"
    reshapes = function.__module__ == manipulation.__name__

    @functools.wraps(function)
    def form(x: Any, *args: Any, **kwargs: Any) -> Any:
        return overwritten(name, x, function(x, *args, **kwargs), reshapes)

    form.__name__ = form.__qualname__ = name
    form.__doc__ = f"In-place form of ``{function.__name__}``."
    return form


def where_(condition: Any, x: Any, y: Any, name: str | None = None) -> Any:
    """In-place form of ``where``, on ``x``."""
    return overwritten("where_", x, search.where(condition, x, y, name))


def zero_(x: Any, name: str | None = None) -> Any:
    """Zeros in place of all elements."""
    return overwritten("zero_", x, creation.zeros_like(x))


def fill_(x: Any, value: Any, name: str | None = None) -> Any:
    """One value in place of all elements."""
    if isinstance(value, (list, tuple)):
        raise ArgumentTypeError(f"fill_ takes a number or a variable of one element, not {value!r}.")
    return overwritten("fill_", x, creation.full_like(x, value))


def fill_diagonal_tensor(x: Any, y: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, name: str | None = None) -> Any:
    """``x`` with a diagonal replaced by ``y``; the same as ``diagonal_scatter``."""
    return creation.diagonal_scatter(x, y, offset, dim1, dim2, name)


fill_diagonal_tensor_ = in_place(fill_diagonal_tensor)
_MADE = {f"{name}_": in_place(getattr(module, name)) for module, names in _FORMS.items() for name in names.split()}
globals().update(_MADE)
__all__ = ["fill_", "fill_diagonal_tensor", "fill_diagonal_tensor_", "where_", "zero_", *_MADE]

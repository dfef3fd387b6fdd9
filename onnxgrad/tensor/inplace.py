"""Names that end in ``_``: in place on eager tensors; on a program's variables the same as without ``_``, with a warning.

Made from the functions of the other modules, whose arguments they take.
"""

# Tests: tests/eager/test_leaves.py, tests/eager/test_tensors.py.

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor import creation, elementwise, indexing, linalg, logic, manipulation, math, random, reduction, search, special
from onnxgrad.tensor.layer import in_place_result, require_variables

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
    reshapes = function.__module__ == manipulation.__name__ or name in ("cumprod_", "cumsum_")

    first = next(iter(inspect.signature(function).parameters))

    @functools.wraps(function)
    def form(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return in_place_result(name, args[0] if args else kwargs[first], result, reshapes)

    form.__name__ = form.__qualname__ = name
    form.__doc__ = f"In-place form of ``{function.__name__}``."
    return form


def where_(condition: Any, x: Any, y: Any, name: str | None = None) -> Any:
    """In-place form of ``where``, on ``x``."""
    require_variables("where_", condition, x, y)
    return in_place_result("where_", x, search.where(condition, x, y, name))


@checked
def zero_(x: Any, name: str | None = None) -> Any:
    """Zeros in place of all elements."""
    return in_place_result("zero_", x, creation.zeros_like(x))


@checked
def fill_(x: Any, value: Any, name: str | None = None) -> Any:
    """One value in place of all elements."""
    if isinstance(value, (list, tuple)):
        raise ArgumentTypeError(f"fill_ takes a number or a variable of one element, not {value!r}.")
    return in_place_result("fill_", x, creation.full_like(x, value))


@checked
def fill_diagonal_tensor(x: Any, y: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, name: str | None = None) -> Any:
    """``x`` with a diagonal replaced by ``y``; the same as ``diagonal_scatter``."""
    return creation.diagonal_scatter(x, y, offset, dim1, dim2, name)


fill_diagonal_tensor_ = in_place(fill_diagonal_tensor)


@checked
def fill_diagonal_(x: Any, value: float, offset: int = 0, wrap: bool = False, name: str | None = None) -> Any:
    """One value in place of the elements whose indices are equal; with ``wrap``, a high matrix begins anew below each square.

    Raises:
        ArgumentError: for one axis, or for more than two of different sizes.
    """
    require_variables("fill_diagonal_", x)
    high, wide = (x.shape[0], x.shape[-1]) if x.ndim else (0, 0)
    if x.ndim < 2 or (x.ndim > 2 and {*x.shape} != {high}):
        raise ArgumentError(f"fill_diagonal_ takes a matrix, or axes of one size, not {x!r}.")
    rows = np.arange(high)
    columns = (rows % (wide + 1) if wrap and x.ndim == 2 else rows) + offset
    inside = (columns >= 0) & (columns < wide)
    index = (*[rows[inside]] * (x.ndim - 1), columns[inside])
    return in_place_result("fill_diagonal_", x, indexing.setitem(x, index, value))


def _sampled(function: str, x: Any, of_uniform: Callable[[Any], Any], seed: int = 0) -> Any:
    """Replace all elements by a formula of random numbers in (0, 1)"""
    numbers = random.uniform(manipulation.shape(x), "float32", 1e-7, 1.0, seed)
    return in_place_result(function, x, manipulation.cast(of_uniform(numbers), x.dtype))


@checked
def uniform_(x: Any, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None) -> Any:
    """Numbers equally likely anywhere in [min, max) in place of all elements."""
    return _sampled("uniform_", x, lambda u: u * (max - min) + min, seed)


@checked
def exponential_(x: Any, lam: float = 1.0, name: str | None = None) -> Any:
    """Exponentially distributed numbers of mean 1 / lam in place of all elements."""
    return _sampled("exponential_", x, lambda u: math.log(u) / -lam)


@checked
def cauchy_(x: Any, loc: float = 0.0, scale: float = 1.0, name: str | None = None) -> Any:
    """Cauchy distributed numbers in place of all elements."""
    return _sampled("cauchy_", x, lambda u: math.tan((u - 0.5) * np.pi) * scale + loc)


@checked
def geometric_(x: Any, probs: float, name: str | None = None) -> Any:
    """How many trials until the first success of probability ``probs``, in place of all elements: 1, 2, ..."""
    return _sampled("geometric_", x, lambda u: math.floor(math.log(u) / float(np.log1p(-probs))) + 1.0)


@checked
def normal_(x: Any, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> Any:
    """Normally distributed numbers in place of all elements."""
    return in_place_result("normal_", x, manipulation.cast(random.gaussian(manipulation.shape(x), mean, std), x.dtype))


@checked
def log_normal_(x: Any, mean: float = 1.0, std: float = 2.0, name: str | None = None) -> Any:
    """Exponentials of normally distributed numbers in place of all elements."""
    return in_place_result(
        "log_normal_", x, manipulation.cast(math.exp(random.gaussian(manipulation.shape(x), mean, std)), x.dtype)
    )


_MADE = {f"{name}_": in_place(getattr(module, name)) for module, names in _FORMS.items() for name in names.split()}
globals().update(_MADE)
__all__ = [
    "cauchy_", "exponential_", "fill_", "fill_diagonal_", "fill_diagonal_tensor", "fill_diagonal_tensor_", "geometric_",
    "log_normal_", "normal_", "uniform_", "where_", "zero_", *_MADE,
]  # fmt: skip

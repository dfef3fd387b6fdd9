"""Names that end in ``_``: in place on eager tensors; on a program's variables the same as without ``_``, with a warning.

Made from the functions of the other modules, whose arguments they take.
"""

# Tests: tests/eager/test_leaves.py, tests/eager/test_tensors.py.

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor import (
    creation,
    elementwise,
    indexing,
    linalg,
    logic,
    manipulation,
    math,
    random,
    reduction,
    search,
    special,
    spellings,
)
from onnxgrad.tensor.common import Number
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
    spellings: "clamp div mul scatter_add sub",
}


Given = ParamSpec("Given")
"""The parameters of a function."""


def in_place(function: Callable[Given, Variable]) -> Callable[Given, Variable]:
    """The form of a function that writes its result into its first argument."""
    name = f"{function.__name__}_"
    reshapes = function.__module__ == manipulation.__name__ or name in ("cumprod_", "cumsum_")

    signature = inspect.signature(function)
    first = next(iter(signature.parameters))
    # Where ``out`` stands before other arguments.
    position = next((at for at, parameter in enumerate(signature.parameters) if parameter == "out"), None)

    @functools.wraps(function)
    def form(*args: Given.args, **kwargs: Given.kwargs) -> Variable:
        if position is not None and len(args) > position:
            args = (*args[:position], None, *args[position:])  # type: ignore[assignment]
        result = function(*args, **kwargs)
        return in_place_result(name, args[0] if args else kwargs[first], result, reshapes)

    form.__name__ = form.__qualname__ = name
    # What is written to is the first argument, and nothing else.
    kept = [parameter for parameter in signature.parameters.values() if parameter.name != "out"]
    form.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    form.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if name != "out"}
    del form.__wrapped__
    form.__doc__ = f"In-place form of ``{function.__name__}``.\n\n{_arguments(function)}".rstrip()
    return form


def _arguments(function: Callable[..., object]) -> str:
    """The part of a docstring that lists the arguments"""
    text = inspect.getdoc(function) or ""
    lines = text[text.index("Args:") :].split("\n\n")[0].splitlines() if "Args:" in text else []
    return "\n".join(line for line in lines if not line.strip().startswith("out:"))


@checked
def where_(condition: Variable, x: Variable | None = None, y: Variable | float | None = None, name: str | None = None) -> Variable:
    """In-place form of ``where``, on ``x``.

    Args:
        condition: booleans of a shape that broadcasts with ``x``.
        x: variable of any shape.
        y: of a shape that broadcasts with ``x``, or a number.

    Raises:
        ArgumentError: if only the condition is given.
    """
    if x is None or y is None:
        raise ArgumentError("where_ takes both x and y: x is written in place.")
    require_variables("where_", condition, x, y)
    return in_place_result("where_", x, search.where(condition, x, y, name))


@checked
def zero_(x: Variable, name: str | None = None) -> Variable:
    """Zeros in place of all elements.

    Args:
        x: variable of any shape.
    """
    return in_place_result("zero_", x, creation.zeros_like(x))


@checked
def fill_(x: Variable, value: Number, name: str | None = None) -> Variable:
    """One value in place of all elements.

    Args:
        x: variable of any shape.
        value: a number, or a variable of one element.
    """
    return in_place_result("fill_", x, creation.full_like(x, value))


@checked
def fill_diagonal_tensor(
    x: Variable, y: Variable, offset: int = 0, dim1: int = 0, dim2: int = 1, name: str | None = None
) -> Variable:
    """``x`` with a diagonal replaced by ``y``; the same as ``diagonal_scatter``.

    Args:
        x: of two axes or more.
        y: of the shape of that diagonal.
        offset: the number of the diagonal: above the main one if positive.
        dim1: the first of the two axes.
        dim2: the second.
    """
    return creation.diagonal_scatter(x, y, offset, dim1, dim2, name)


fill_diagonal_tensor_ = in_place(fill_diagonal_tensor)


@checked
def fill_diagonal_(x: Variable, value: float, offset: int = 0, wrap: bool = False, name: str | None = None) -> Variable:
    """One value in place of the elements whose indices are equal; with ``wrap``, a high matrix starts again below each square.

    Args:
        x: a matrix, or axes of one size.
        value: a number.
        offset: the number of the diagonal: above the main one if positive.
        wrap: whether a high matrix starts again below each square.

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


def _sampled(function: str, x: Variable, of_uniform: Callable[[Variable], Variable], seed: int = 0) -> Variable:
    """Replace all elements by a formula of random numbers in (0, 1)"""
    numbers = random.uniform(manipulation.shape(x), "float32", 1e-7, 1.0, seed)
    return in_place_result(function, x, manipulation.cast(of_uniform(numbers), x.dtype))


@checked
def uniform_(x: Variable, min: float = 0, max: float = 1.0, seed: int = 0, name: str | None = None) -> Variable:
    """Numbers equally likely anywhere in [min, max) in place of all elements.

    Args:
        x: floats of any shape.
        min: the lower bound.
        max: the upper bound, not included.
        seed: 0 for other numbers each time.
    """
    return _sampled("uniform_", x, lambda u: u * (max - min) + min, seed)


@checked
def exponential_(x: Variable, lam: float = 1.0, name: str | None = None) -> Variable:
    """Exponentially distributed numbers of mean 1 / lam in place of all elements.

    Args:
        x: floats of any shape.
        lam: the rate.
    """
    return _sampled("exponential_", x, lambda u: math.log(u) / -lam)


@checked
def bernoulli_(x: Variable, p: float | Variable = 0.5, name: str | None = None) -> Variable:
    """1 with probability ``p``, else 0, in place of all elements.

    Args:
        x: floats of any shape.
        p: the probability, or one for each element, of a shape that broadcasts with ``x``.
    """
    return _sampled("bernoulli_", x, lambda u: manipulation.cast(logic.less_than(u, p), "float32"))


@checked
def cauchy_(x: Variable, loc: float = 0, scale: float = 1, name: str | None = None) -> Variable:
    """Cauchy distributed numbers in place of all elements.

    Args:
        x: floats of any shape.
        loc: the median.
        scale: half of the distance between the quartiles.
    """
    return _sampled("cauchy_", x, lambda u: math.tan((u - 0.5) * np.pi) * scale + loc)


@checked
def geometric_(x: Variable, probs: float, name: str | None = None) -> Variable:
    """How many trials until the first success of probability ``probs``, in place of all elements: 1, 2, ...

    Args:
        x: floats of any shape.
        probs: the probability of success, between 0 and 1.
    """
    return _sampled("geometric_", x, lambda u: math.floor(math.log(u) / float(np.log1p(-probs))) + 1.0)


@checked
def normal_(x: Variable, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> Variable:
    """Normally distributed numbers in place of all elements.

    Args:
        x: floats of any shape.
        mean: the mean.
        std: the deviation.
    """
    return in_place_result("normal_", x, manipulation.cast(random.gaussian(manipulation.shape(x), mean, std), x.dtype))


@checked
def log_normal_(x: Variable, mean: float = 1.0, std: float = 2.0, name: str | None = None) -> Variable:
    """Exponentials of normally distributed numbers in place of all elements.

    Args:
        x: floats of any shape.
        mean: of the logarithms.
        std: their deviation.
    """
    numbers = math.exp(random.gaussian(manipulation.shape(x), mean, std))
    return in_place_result("log_normal_", x, manipulation.cast(numbers, x.dtype))


_MADE = {f"{name}_": in_place(getattr(module, name)) for module, names in _FORMS.items() for name in names.split()}
globals().update(_MADE)
__all__ = [
    "bernoulli_", "cauchy_", "exponential_", "fill_", "fill_diagonal_", "fill_diagonal_tensor", "fill_diagonal_tensor_",
    "geometric_", "log_normal_", "normal_", "uniform_", "where_", "zero_", *_MADE,
]  # fmt: skip

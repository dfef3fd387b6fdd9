"""Check the arguments of constructors: one of a wrong kind is refused where it is passed, with the class's and its own name.

Tests: tests/internal/test_arguments.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from onnxgrad.errors import ArgumentError, ArgumentTypeError

__all__ = ["as_flag", "as_function", "as_int", "as_number", "as_numbers", "as_text", "as_word", "wrong_kind"]

Function = TypeVar("Function", bound=Callable[..., Any])


def wrong_kind(owner: object, argument: str, kind: str, value: object) -> ArgumentTypeError:
    """Write the error for an argument of a wrong kind.

    Args:
        owner: the object that is made; its class is named.
        argument: the name of the argument.
        kind: what it takes, such as ``"a number"``.
        value: what it was passed.

    Example:
        >>> wrong_kind(paddle.nn.ReLU(), "name", "a str", 3)
        ArgumentTypeError('ReLU: name is a str, not int.')
    """
    return ArgumentTypeError(f"{type(owner).__name__}: {argument} is {kind}, not {type(value).__name__}.")


def as_number(owner: object, argument: str, value: object) -> float:
    """Convert a real number, of Python or numpy, to a float.

    Raises:
        ArgumentTypeError: if it is not one, such as a str of digits.
    """
    if not isinstance(value, Real):
        raise wrong_kind(owner, argument, "a number", value)
    return float(value)


def as_int(owner: object, argument: str, value: object) -> int:
    """Convert an integer, of Python or numpy, to an int.

    Raises:
        ArgumentTypeError: if it is not one, such as 2.0.
    """
    if not isinstance(value, Integral):
        raise wrong_kind(owner, argument, "an int", value)
    return int(value)


def as_flag(owner: object, argument: str, value: object) -> bool:
    """Convert True, False, or a number in their place, to a bool.

    Raises:
        ArgumentTypeError: if it is something else: every str but an empty one would count as True.
    """
    if not isinstance(value, (Real, np.bool_)):
        raise wrong_kind(owner, argument, "True or False", value)
    return bool(value)


def as_text(owner: object, argument: str, value: object) -> str | None:
    """Return a str, or None, as it is.

    Raises:
        ArgumentTypeError: if it is something else.
    """
    if value is None or isinstance(value, str):
        return value
    raise wrong_kind(owner, argument, "a str", value)


def as_word(owner: object, argument: str, value: object, words: Sequence[str]) -> str:
    """Return a word that is one of ``words``.

    Raises:
        ArgumentTypeError: if it is not a str.
        ArgumentError: if it is another word.
    """
    *others, last = map(repr, words)
    listed = f"{', '.join(others)} or {last}" if others else last
    if not isinstance(value, str):
        raise wrong_kind(owner, argument, listed, value)
    if value not in words:
        raise ArgumentError(f"{type(owner).__name__}: {argument} is {listed}, not {value!r}.")
    return value


def as_numbers(owner: object, argument: str, value: object) -> list[float]:
    """Convert a list, tuple or array of real numbers.

    Raises:
        ArgumentTypeError: if it is none, or holds something else.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise wrong_kind(owner, argument, "a list of numbers", value)
    return [as_number(owner, f"an element of {argument}", element) for element in value]


def as_function(owner: object, argument: str, value: Function) -> Function:
    """Return a function, or anything else that can be called, as it is.

    Raises:
        ArgumentTypeError: if it cannot be called.
    """
    if not callable(value):
        raise wrong_kind(owner, argument, "a function", value)
    return value

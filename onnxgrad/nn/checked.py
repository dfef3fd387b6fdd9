"""Check the arguments of layers against the types of their constructors, so that one of a wrong kind is refused where it is passed.

Tests: tests/nn/test_checked.py.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentTypeError, Mismatch

__all__ = ["checked"]

P = ParamSpec("P")
Made = TypeVar("Made")
_UNIONS = (Union, types.UnionType)


def checked(constructor: Callable[Concatenate[Made, P], None]) -> Callable[Concatenate[Made, P], None]:
    """Check the arguments of a constructor against its annotations each time it is called.

    Words are checked against their Literal; an int is none of Python's or numpy's other numbers, and no bool. Parameters that
    are annotated with ``Any`` take everything.

    Raises:
        ArgumentTypeError: by the constructor, if an argument has the wrong type; it names the class, the argument and the types.
        Mismatch: by the constructor, for another word.

    Example:
        >>> paddle.nn.Linear("4", 2)
        Traceback (most recent call last):
            ...
        onnxgrad.errors.ArgumentTypeError: Linear: in_features is an int, not '4'.
    """
    signature = inspect.signature(constructor)

    @functools.cache
    def types_of_arguments() -> dict[str, Any]:
        return get_type_hints(constructor)

    @functools.wraps(constructor)
    def __init__(layer: Made, /, *args: P.args, **kwargs: P.kwargs) -> None:  # noqa: N807
        name = type(layer).__name__
        try:
            arguments = signature.bind(layer, *args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentTypeError(f"{name}(): {error}.") from None
        expected = types_of_arguments()
        for argument, value in arguments.items():
            if argument in expected and not _fits(value, expected[argument]):
                raise _refusal(name, argument, value, expected[argument])
        constructor(layer, *args, **kwargs)

    return __init__


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, as an annotation says it."""
    if kind is Any or isinstance(kind, TypeVar):
        return True
    origin = get_origin(kind)
    if origin in _UNIONS:
        return any(_fits(value, each) for each in get_args(kind))
    if origin is Literal:
        return any(type(value) is type(word) and value == word for word in get_args(kind))
    if kind is None or kind is type(None):
        return value is None
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if origin is Sequence:
        return isinstance(value, (list, tuple, np.ndarray)) and all(_fits(entry, get_args(kind)[0]) for entry in value)
    if origin is Iterable:
        return isinstance(value, Iterable) and not isinstance(value, (str, Variable))
    if origin is Callable:
        return callable(value)
    if origin is type:
        return isinstance(value, type) and issubclass(value, get_args(kind)[0])
    return isinstance(value, origin or kind)


def _refusal(layer: str, argument: str, value: Any, kind: Any) -> Exception:
    """The error for a value that does not fit: of type, or of a word among words."""
    words = [word for each in _alternatives(kind) if get_origin(each) is Literal for word in get_args(each)]
    message = f"{layer}: {argument} is {_listed([*dict.fromkeys(_described(kind))])}, not {value!r:.60}."
    # Paddle asserts some of its words and raises ValueError for others: Mismatch is both.
    return Mismatch(message) if isinstance(value, str) and words else ArgumentTypeError(message)


def _alternatives(kind: Any) -> list[Any]:
    return [each for part in get_args(kind) for each in _alternatives(part)] if get_origin(kind) in _UNIONS else [kind]


def _described(kind: Any, plural: bool = False) -> list[str]:
    """What a type is called in a sentence, for each alternative."""
    words: list[str] = []
    for each in _alternatives(kind):
        origin = get_origin(each)
        if origin is Literal:
            words += [repr(word) for word in get_args(each)]
        elif origin is Sequence:
            words.append(f"{'lists' if plural else 'a list'} of {_listed(_described(get_args(each)[0], plural=True))}")
        elif origin in (Callable, Iterable):
            words.append("a function" if origin is Callable else "an iterable")
        elif each in _KINDS:
            words.append(_KINDS[each][plural])
        else:
            name = getattr(each, "__name__", str(each))
            words.append(f"{name}s" if plural else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")
    return words


_KINDS: dict[Any, tuple[str, str]] = {
    bool: ("True or False", "bools"),
    int: ("an int", "ints"),
    float: ("a number", "numbers"),
    str: ("a str", "strs"),
    type(None): ("None", "None"),
}


def _listed(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last

"""Check what kind arguments are of: one of a wrong kind is refused where it is passed, with its name and what it takes.

``checked`` reads the kinds from the annotations of a function or a constructor. The ``as_`` functions check and convert one value,
for those that store numbers and flags as Python's own.

Tests: tests/internal/test_arguments.py, tests/nn/test_checked.py, tests/typing/test_kinds.py.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from onnxgrad.errors import ArgumentError, ArgumentTypeError, Mismatch, WrongKind

__all__ = [
    "as_flag",
    "as_function",
    "as_function_or_none",
    "as_int",
    "as_kind",
    "as_number",
    "as_numbers",
    "as_text",
    "as_word",
    "checked",
    "checked_with_words",
    "parameter_names",
    "wrong_kind",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Value = TypeVar("Value")
_UNIONS = (Union, types.UnionType)
_MOST_CALLS = 256
"""Types of arguments that a function remembers to have checked."""


def parameter_names(function: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """List the parameters of a function that an argument without a name may go to, and those that take one by name alone.

    It says what ``inspect.signature`` does in a hundredth of its time: modules ask for hundreds of functions as they are imported.

    Args:
        function: a function, or one that ``functools.wraps`` made of one.
    """
    while "__wrapped__" in vars(function):
        function = vars(function)["__wrapped__"]
    code = function.__code__
    end = code.co_argcount + code.co_kwonlyargcount
    return list(code.co_varnames[: code.co_argcount]), list(code.co_varnames[code.co_argcount : end])


def checked(function: Function) -> Function:
    """Check arguments of a function, a method or a constructor against its annotations each time it is called.

    Those of plain kinds are: numbers, flags, strs, lists of them, and these beside classes. An int is none of Python's or numpy's
    other numbers, and no bool; a float may be any of them, and True for 1, as Paddle's functions take them; an array without axes
    is the number that it holds, where no list is taken. An argument that takes words alone takes no others. Other arguments,
    objects of other classes in place of plain values (Variables above all), and words beside numbers or lists are left to what
    reads them, which knows better what is wrong.

    Raises:
        WrongKind: by the function, if an argument has the wrong type; it names function, argument and types.
        Mismatch: by the function, for another word.

    Example:
        >>> paddle.split(paddle.ones([4]), 2.5)
        Traceback (most recent call last):
            ...
        onnxgrad.errors.WrongKind: split: num_or_sections is an int or a list of ints, not float 2.5.
    """
    positions, _ = parameter_names(function)
    of_object = positions[:1] == ["self"]
    kinds: dict[str, tuple[set[type], set[type] | None, Any]] = {}
    first = 0  # How many arguments stand before those that are checked: a call of these alone is not looked at.
    passed_types: set[tuple[Any, ...]] = set()  # Of arguments that fitted by their types alone.

    def read_kinds() -> int:
        for name, kind in _kinds_of(function):
            if _says_something(kind):
                kinds[name] = _usual_types(kind), _usual_entries(kind), kind if _is_words(kind) else _without_words(kind)
        return next((at for at, name in enumerate(positions) if name in kinds), len(positions))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal first
        if kwargs or len(args) > first:
            key = (*map(type, args), *kwargs, *map(type, kwargs.values()))
            if key in passed_types:
                return function(*args, **kwargs)
            if not kinds:
                first = read_kinds()
            by_type = True
            for argument, value in (*zip(positions[first:], args[first:]), *kwargs.items()):
                if argument not in kinds:
                    continue
                usual, entries, kind = kinds[argument]
                passed = type(value)
                if passed in usual:
                    continue
                by_type = False
                if entries is not None and passed in (list, tuple) and entries.issuperset(map(type, value)):
                    continue
                if entries is None and passed is np.ndarray and value.ndim == 0:
                    value = value[()]
                if value is not None and not issubclass(passed, _PLAIN):
                    usual.add(passed)  # a class of another kind, which is left to what reads it each time
                elif not _fits(value, kind, plain_alone=True):
                    owner = type(args[0]).__name__ if of_object else ""
                    name = ".".join(part for part in (owner, function.__name__) if part not in ("", "__init__"))
                    raise _refusal(name, argument, value, kind)
            if by_type and len(passed_types) < _MOST_CALLS:
                passed_types.add(key)
        return function(*args, **kwargs)

    return cast(Function, call)


def checked_with_words(constructor: Function) -> Function:
    """Check all arguments of a constructor against its annotations each time it is called: classes and words too.

    Parameters that are annotated with Any or a type variable take everything.

    Raises:
        WrongKind: by the constructor, if an argument has the wrong type; it names the class, the argument and the types.
        Mismatch: by the constructor, for another word.

    Example:
        >>> paddle.nn.Linear("4", 2)
        Traceback (most recent call last):
            ...
        onnxgrad.errors.WrongKind: Linear: in_features is an int, not str '4'.
    """
    kinds: dict[str, Any] = {}
    signature: inspect.Signature | None = None  # read at the first call: there are more than a hundred constructors

    @functools.wraps(constructor)
    def __init__(made: Any, /, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        nonlocal signature
        name = type(made).__name__
        signature = inspect.signature(constructor) if signature is None else signature
        try:
            arguments = signature.bind(made, *args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentTypeError(f"{name}(): {error}.") from None
        kinds.update(() if kinds else _kinds_of(constructor))
        for argument, value in arguments.items():
            if argument in kinds and not _fits(value, kinds[argument]):
                raise _refusal(name, argument, value, kinds[argument])
        constructor(made, *args, **kwargs)

    return cast(Function, __init__)


def _kinds_of(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """The kinds of a function's parameters; Any where only a checker can read what an annotation names"""
    names = vars(sys.modules[function.__module__])
    kinds = []
    for parameter, text in inspect.get_annotations(function).items():
        try:
            kind = eval(text, names) if isinstance(text, str) else text
        except (NameError, TypeError):
            kind = Any
        kinds.append((parameter, Any if isinstance(kind, str) else kind))
    return kinds


def _says_something(kind: Any) -> bool:
    """Whether a kind is one of plain values: a number, a flag, a str, a list of them, or these beside a class"""
    alternatives = _alternatives(kind)
    plain = (bool, int, float, str)
    lists = [get_args(each)[0] for each in alternatives if get_origin(each) is Sequence]
    says = any(each in plain or get_origin(each) is Literal for each in alternatives) or any(map(_says_something, lists))
    return says and Any not in alternatives


def _usual_types(kind: Any) -> set[type]:
    """The types of most values that fit, which are looked up before anything else: functions of tensors take microseconds"""
    plain: set[Any] = {bool, int, float, str, type(None)} & set(_alternatives(kind))
    return plain | {int, bool} if float in plain else plain


def _usual_entries(kind: Any) -> set[type] | None:
    """The same of the entries of lists; none of lists of several kinds, None where a kind has no lists"""
    lists = [get_args(each)[0] for each in _alternatives(kind) if get_origin(each) is Sequence]
    return _usual_types(lists[0]) if len(lists) == 1 else set() if lists else None


def _is_words(kind: Any) -> bool:
    """Whether a kind is some words, or None beside them"""
    words = [word for each in _alternatives(kind) for word in get_args(each) if get_origin(each) is Literal]
    return all(isinstance(word, str) for word in words) and all(
        get_origin(each) is Literal or each is type(None) for each in _alternatives(kind)
    )


def _without_words(kind: Any) -> Any:
    """A kind in which the words of a Literal stand for all of their type"""
    types_of_words = {type(word) for each in _alternatives(kind) if get_origin(each) is Literal for word in get_args(each)}
    others = [each for each in _alternatives(kind) if get_origin(each) is not Literal]
    return Union[(*others, *types_of_words)]


def _fits(value: Any, kind: Any, plain_alone: bool = False) -> bool:
    """Whether a value is of a kind, as an annotation says it; ``plain_alone`` judges as ``checked`` says."""
    if type(value) is kind or kind is Any or isinstance(kind, TypeVar):
        return True
    if plain_alone and value is not None and not isinstance(value, _PLAIN):
        return True
    origin = get_origin(kind)
    if origin in _UNIONS:
        return any(_fits(value, each, plain_alone) for each in get_args(kind))
    if origin is Literal:
        return any(type(value) is type(word) and value == word for word in get_args(kind))
    if kind is None or kind is type(None):
        return value is None
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return (isinstance(value, Real) and not isinstance(value, bool)) or (plain_alone and isinstance(value, (bool, np.bool_)))
    if origin is Sequence:
        is_list = value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, Sequence)
        is_list = is_list and not isinstance(value, (str, bytes))
        return is_list and all(_fits(entry, get_args(kind)[0], plain_alone) for entry in value)
    if kind is Path:
        return isinstance(value, PathLike)
    if origin is Iterable:
        return isinstance(value, Iterable) and not isinstance(value, str)
    if origin is Callable:
        return callable(value)
    if origin is type:
        return isinstance(value, type) and issubclass(value, get_args(kind)[0])
    return getattr(kind, "_is_protocol", False) or isinstance(value, origin or kind)


_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, np.generic, np.ndarray)


def _refusal(owner: str, argument: str, value: Any, kind: Any) -> Exception:
    """The error for a value that does not fit: of type, or of a word among words."""
    words = [word for each in _alternatives(kind) if get_origin(each) is Literal for word in get_args(each)]
    described = _listed([*dict.fromkeys(_described(kind))])
    if isinstance(value, str) and words:
        # Paddle asserts some of its words and raises ValueError for others: Mismatch is both.
        return Mismatch(f"{owner}: {argument} is {described}, not {value!r:.60}.")
    return WrongKind(_message(owner, argument, described, value))


def _message(owner: str, argument: str, kind: str, value: object) -> str:
    if value is None:
        passed = "None"
    elif isinstance(value, type):
        passed = f"the class {value.__name__}"
    else:
        passed = f"{type(value).__name__} {value!r:.60}" if isinstance(value, _PLAIN) else type(value).__name__
    return f"{owner}: {argument} is {kind}, not {passed}."


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
            spelled = name[1:2].isupper() and name[0] in "FHLMNRSX"  # an LRScheduler
            words.append(f"{name}s" if plural else f"{'an' if spelled or name[0] in 'AEIOU' else 'a'} {name}")
    return words


_KINDS: Mapping[Any, tuple[str, str]] = {
    bool: ("True or False", "bools"),
    int: ("an int", "ints"),
    float: ("a number", "numbers"),
    str: ("a str", "strs"),
    type(None): ("None", "None"),
    np.generic: ("a numpy scalar", "numpy scalars"),
}


def _listed(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def wrong_kind(owner: object, argument: str, kind: str, value: object) -> WrongKind:
    """Write the error for an argument of a wrong kind.

    Args:
        owner: the object that is made, whose class is named; or the name of a function.
        argument: the name of the argument.
        kind: what it takes, such as ``"a number"``.
        value: what it was passed.

    Example:
        >>> wrong_kind(paddle.nn.ReLU(), "name", "a str", 3)
        WrongKind('ReLU: name is a str, not int 3.')
    """
    return WrongKind(_message(_name_of(owner), argument, kind, value))


def _name_of(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


def as_kind(owner: object, argument: str, value: Value, kind: Any) -> Value:
    """Return a value that is of a kind as it is.

    Args:
        owner: the object that is made, whose class an error names; or the name of a function.
        argument: the name of the argument.
        value: what it was passed.
        kind: as an annotation says it, such as ``str | None``, a class, or a Literal of words.

    Raises:
        WrongKind: if it is of another.
        Mismatch: if it is another word.

    Example:
        >>> as_kind("name_scope", "prefix", 3, str | None)
        Traceback (most recent call last):
            ...
        onnxgrad.errors.WrongKind: name_scope: prefix is a str or None, not int 3.
    """
    if not _fits(value, kind):
        raise _refusal(_name_of(owner), argument, value, kind)
    return value


def as_number(owner: object, argument: str, value: Any, **limits: float) -> float:
    """Convert a real number, of Python or numpy, to a float.

    Args:
        owner: the object that is made, whose class an error names.
        argument: the name of the argument.
        value: what it was passed.
        limits: ``least``, ``above``, ``below`` or ``most``, for numbers that lie between some.

    Raises:
        WrongKind: if it is not one, such as a str of digits.
        Mismatch: if it lies outside the limits.

    Example:
        >>> as_number(paddle.nn.ReLU(), "decay", 1.5, least=0, below=1)
        Traceback (most recent call last):
            ...
        onnxgrad.errors.Mismatch: ReLU: decay is at least 0 and below 1, not 1.5.
    """
    as_kind(owner, argument, value, float)
    _require_within(owner, argument, value, limits)
    return float(value)


def as_int(owner: object, argument: str, value: Any, **limits: float) -> int:
    """Convert an integer, of Python or numpy, to an int; ``limits`` are those of ``as_number``.

    Raises:
        WrongKind: if it is not one, such as 2.0.
        Mismatch: if it lies outside the limits.
    """
    as_kind(owner, argument, value, int)
    _require_within(owner, argument, value, limits)
    return int(value)


_LIMITS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "least": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "below": ("below", operator.lt),
    "most": ("at most", operator.le),
}


def _require_within(owner: object, argument: str, value: Any, limits: Mapping[str, float]) -> None:
    if not all(_LIMITS[name][1](value, limit) for name, limit in limits.items()):
        described = " and ".join(f"{_LIMITS[name][0]} {limit}" for name, limit in limits.items())
        # Paddle asserts some of its limits and raises ValueError for others: Mismatch is both.
        raise Mismatch(f"{_name_of(owner)}: {argument} is {described}, not {value}.")


def as_flag(owner: object, argument: str, value: Any) -> bool:
    """Convert True, False, or a number in their place, to a bool.

    Raises:
        WrongKind: if it is something else: every str but an empty one would count as True.
    """
    if not _fits(value, float):
        as_kind(owner, argument, value, bool)
    return bool(value)


def as_text(owner: object, argument: str, value: Any) -> str | None:
    """Return a str, or None, as it is.

    Raises:
        WrongKind: if it is something else.
    """
    if value is not None:
        as_kind(owner, argument, value, str)
    return cast("str | None", value)


def as_word(owner: object, argument: str, value: object, words: Sequence[str]) -> str:
    """Return a word that is one of ``words``.

    Raises:
        WrongKind: if it is not a str.
        ArgumentError: if it is another word.
    """
    listed = _listed([repr(word) for word in words])
    if not isinstance(value, str):
        raise wrong_kind(owner, argument, listed, value)
    if value not in words:
        raise ArgumentError(f"{type(owner).__name__}: {argument} is {listed}, not {value!r}.")
    return value


def as_numbers(owner: object, argument: str, value: object) -> list[float]:
    """Convert a list, tuple or array of real numbers.

    Raises:
        WrongKind: if it is none, or holds something else.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise wrong_kind(owner, argument, "a list of numbers", value)
    return [as_number(owner, f"an element of {argument}", element) for element in value]


def as_function(owner: object, argument: str, value: Function) -> Function:
    """Return a function, or anything else that can be called, as it is.

    Raises:
        WrongKind: if it cannot be called.
    """
    if not callable(value):
        raise wrong_kind(owner, argument, "a function", value)
    return value


def as_function_or_none(owner: object, argument: str, value: Function | None) -> Function | None:
    """Return a function, or None, as it is.

    Raises:
        WrongKind: if it is neither.
    """
    return None if value is None else as_function(owner, argument, value)

"""Make functions under their old names and arguments from the functions of today.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["REQUIRED", "Argument", "Ignored", "renamed"]

REQUIRED = inspect.Parameter.empty
"""The default of an old argument that must be given, though today it may be left out."""


@dataclass(frozen=True)
class Ignored:
    """An old argument that is accepted and has no effect.

    Args:
        default: its default.
    """

    default: object


Argument: TypeAlias = "str | tuple[str, object] | Ignored"
"""What an old argument is today: an argument of that name, one with another default, or none."""


def renamed(
    module: str, old: str, function: Callable[..., Any], arguments: dict[str, Argument], first: str | None = None
) -> Callable[..., Any]:
    """Make a function that takes old arguments and calls the function of today.

    Args:
        module: where it stands.
        old: its name.
        function: the function of today.
        arguments: by their old names, in their old order.
        first: first sentence of its documentation; that of ``function`` unless given.
    """
    today = inspect.signature(function)
    new_names = {name: one[0] if isinstance(one, tuple) else one for name, one in arguments.items() if not isinstance(one, Ignored)}
    own = [_parameter(name, one, today) for name, one in arguments.items()]
    signature = inspect.Signature(own, return_annotation=today.return_annotation)
    defaults = {name: one[1] for name, one in arguments.items() if isinstance(one, tuple)}

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            values = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{old}() {error}") from None
        return function(**{new_names[name]: value for name, value in {**defaults, **values}.items() if name in new_names})

    called.__name__ = called.__qualname__ = old
    called.__module__ = module
    called.__doc__ = _documentation(function, new_names, own, first)
    called.__signature__ = signature  # type: ignore[attr-defined]
    return called


def _parameter(name: str, argument: Argument, today: inspect.Signature) -> inspect.Parameter:
    """An old argument with the type of the one that it is today."""
    if isinstance(argument, Ignored):
        default: object = argument.default
        annotation: Any = "None" if default is None else type(default).__name__
    else:
        of_today = today.parameters[argument[0] if isinstance(argument, tuple) else argument]
        default = argument[1] if isinstance(argument, tuple) else of_today.default
        annotation = of_today.annotation
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


def _documentation(function: Callable[..., Any], new_names: dict[str, str], own: list[inspect.Parameter], first: str | None) -> str:
    """The first sentence and the lines on arguments of the function of today, under the old names."""
    old_names = {new: old for old, new in new_names.items()}
    text = inspect.getdoc(getattr(function, "func", function)) or ""
    lines = dict(re.findall(r"^    ([\w, ]+): (.*(?:\n        .*)*)", text, re.MULTILINE))
    by_name = {name: meaning for names, meaning in lines.items() for name in names.split(", ")}
    listed = []
    for one in own:
        if one.name not in new_names:
            listed.append(f"    {one.name}: accepted for compatibility.")
        elif new_names[one.name] in by_name:
            listed.append(f"    {one.name}: {by_name[new_names[one.name]]}")
    text = "\n".join([first or text.partition("\n")[0], "", "Args:", *listed])
    return re.sub(r"``[^`]*``", lambda code: re.sub(r"\w+", lambda word: old_names.get(word[0], word[0]), code[0]), text)

"""Make functions under their old names and arguments from the functions of today.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

__all__ = ["REQUIRED", "Argument", "Row", "renamed"]

REQUIRED = inspect.Parameter.empty
"""The default of an old argument that must be given, though today it may be left out."""

Argument: TypeAlias = "str | tuple[str, str] | tuple[str, str | None, object]"
"""An old argument that has the same name today; or its name, that of today or None if it has no effect, and its default."""

Row: TypeAlias = "tuple[Callable[..., Any], Sequence[Argument]] | tuple[Callable[..., Any], Sequence[Argument], str]"
"""The function of today, old arguments in their order, and a first sentence where that of today's function says something else."""


def renamed(
    module: str, old: str, function: Callable[..., Any], arguments: Sequence[Argument], first: str | None = None
) -> Callable[..., Any]:
    """Make a function that takes old arguments and calls the function of today.

    Args:
        module: where it stands.
        old: its name.
        function: the function of today.
        arguments: what it takes; behind them ``name``, where the function of today does.
        first: first sentence of its documentation; that of ``function`` unless given.
    """
    today = inspect.signature(function)
    rows = [(one, one) if isinstance(one, str) else one for one in arguments]
    if "name" in today.parameters and all(row[0] != "name" for row in rows):
        rows.append(("name", "name", None))
    new_names = {row[0]: row[1] for row in rows if row[1] is not None}
    own = [_parameter(today, *row) for row in rows]
    signature = inspect.Signature(own, return_annotation=today.return_annotation)

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{old}() {error}") from None
        bound.apply_defaults()
        return function(**{new: bound.arguments[name] for name, new in new_names.items()})

    called.__name__ = called.__qualname__ = old
    called.__module__ = module
    called.__doc__ = _documentation(function, new_names, own, first)
    called.__signature__ = signature  # type: ignore[attr-defined]
    return called


def _parameter(today: inspect.Signature, old: str, new: str | None, *default: object) -> inspect.Parameter:
    """An old argument with the type, and without another the default, of the one that it is today."""
    now = None if new is None else today.parameters[new]
    annotation = type(default[0]).__name__ if now is None else now.annotation
    value = default[0] if now is None or default else now.default
    return inspect.Parameter(old, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value, annotation=annotation)


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

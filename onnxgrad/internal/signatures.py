"""Arguments that are written down as text, and calls that are read by them.

Tests: tests/paddle_suite/test_arguments.py.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

__all__ = ["bind_arguments", "signature_of"]


def signature_of(text: str) -> tuple[str, inspect.Signature]:
    """The name and the arguments of a definition such as ``power(base, factor=2)``; defaults are literals."""
    (definition,) = ast.parse(f"def {text}: ...").body
    assert isinstance(definition, ast.FunctionDef)
    args = definition.args
    defaults = [None] * (len(args.args) - len(args.defaults)) + args.defaults + args.kw_defaults
    kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(args.args) + [inspect.Parameter.KEYWORD_ONLY] * len(args.kwonlyargs)
    parameters = []
    for argument, kind, default in zip(args.args + args.kwonlyargs, kinds, defaults, strict=True):
        value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
        parameters.append(inspect.Parameter(argument.arg, kind, default=value))
    return definition.name, inspect.Signature(parameters)


def bind_arguments(name: str, signature: inspect.Signature, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, with defaults.

    Raises:
        TypeError: if they do not fit, with the name of the function that was called.
    """
    try:
        arguments = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    arguments.apply_defaults()
    return arguments.arguments

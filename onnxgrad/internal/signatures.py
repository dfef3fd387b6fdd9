"""Arguments that are written down as text, and functions and constructors made with them.

Tests: tests/paddle_suite/test_arguments.py.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

__all__ = ["Taken", "bind_arguments", "signature_of"]


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


class Taken:
    """Base of classes whose constructors are written down as text: ``takes`` lists the arguments.

    They are passed, as attributes of one object, to the method ``_begin``.

    Example:
        >>> from onnxgrad.internal.signatures import Taken
        >>> class Line(Taken):
        ...     takes = "slope, offset=0.0"
        ...     def _begin(self, options):
        ...         self.slope, self.offset = options.slope, options.offset
        >>> Line(2.0).offset, str(inspect.signature(Line))
        (0.0, '(slope, offset=0.0)')
    """

    takes = ""

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "takes" in vars(cls):
            cls.__init__ = _constructor(cls.takes)  # type: ignore[method-assign]

    def _begin(self, options: Any) -> None:
        raise NotImplementedError


def _constructor(arguments: str) -> Callable[..., None]:
    _, signature = signature_of(f"__init__(self, {arguments})")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        values = bind_arguments(type(self).__name__, signature, (self, *args), kwargs)
        self._begin(SimpleNamespace(**{key: value for key, value in values.items() if key != "self"}))

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__

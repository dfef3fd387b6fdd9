"""Choosing what trains: by name or pattern, and saying what was found."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter
from onnxgrad.errors import UnknownName

__all__ = ["choose_trainable", "matching"]


def matching(names: Sequence[str], patterns: str | Sequence[str], what: str) -> set[str]:
    """The names that fit any pattern.

    Raises:
        UnknownName: naming a pattern that fits nothing.
    """
    found: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        fitting = {name for name in names if fnmatchcase(name, pattern)}
        if not fitting:
            raise UnknownName(f"{what} {pattern!r} fits no parameter. The model has {_some(names)}.")
        found |= fitting
    return found


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "") if names else "none"


def choose_trainable(
    program: Program, trainable: str | Sequence[str] | None = None, freeze: str | Sequence[str] | None = None
) -> list[Parameter]:
    """The parameters to train, in program order.

    Args:
        program: a program with parameters.
        trainable: names or patterns (``"head.*"``), of frozen ones too; None for all that are trainable.
        freeze: names or patterns to leave out.

    Raises:
        UnknownName: if a pattern fits no parameter.
    """
    parameters = program.all_parameters()
    names = [p.name for p in parameters]
    chosen = {p.name for p in parameters if p.trainable} if trainable is None else matching(names, trainable, "trainable=")
    frozen = set() if freeze is None else matching(names, freeze, "freeze=")
    return [p for p in parameters if p.name in chosen - frozen]

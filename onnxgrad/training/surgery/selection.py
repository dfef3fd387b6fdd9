"""Choosing what trains: by name or pattern, and saying what was found.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from onnxgrad.core.interop.weights import is_table
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter
from onnxgrad.errors import UnknownName

__all__ = ["choose_trainable", "kept_tables", "matching"]


def matching(names: Sequence[str], patterns: str | Sequence[str], what: str) -> set[str]:
    """The names that fit any pattern.

    Raises:
        UnknownName: naming a pattern that fits nothing.
    """
    matches: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        fitting = {name for name in names if fnmatchcase(name, pattern)}
        if not fitting:
            raise UnknownName(f"{what} {pattern!r} fits no parameter. The model has {_some(names)}.")
        matches |= fitting
    return matches


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


def kept_tables(program: Program) -> list[str]:
    """A line on parameters that are no weights and stay as they are"""
    kept = [p.name for p in program.parameters if not p.trainable and is_table(p)]
    if not kept:
        return []
    more = f" and {len(kept) - 3} more" if len(kept) > 3 else ""
    are = "is a computed table, not a weight" if len(kept) == 1 else "are computed tables, not weights"
    return [f"{', '.join(kept[:3])}{more} {are}, kept unless trainable= (--train) names it; see onnxgrad info"]

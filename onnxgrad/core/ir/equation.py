"""Reading the equations of Einsum.

Tests: tests/core/ir/test_infer.py.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

__all__ = ["is_equation", "parse_equation"]

_TERM = r"(?:[A-Za-z ]|\.\.\.)*"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")


def is_equation(text: str) -> bool:
    """Whether it consists of terms of letters, commas and at most one arrow."""
    return isinstance(text, str) and _EQUATION.fullmatch(text) is not None


def parse_equation(equation: str, ranks: Sequence[int | None], rank: int | None = None) -> tuple[list[str], str]:
    """The terms of the operands and of the output, one character per axis.

    Each ellipsis is replaced by letters of its own, aligned at the right, if one known rank tells how many it stands for; else
    it becomes a '.'.

    Args:
        equation: the attribute of Einsum.
        ranks: ranks of the operands.
        rank: rank of the result.
    """
    left, arrow, output = equation.replace(" ", "").replace("...", ".").partition("->")
    terms = left.split(",")
    if not arrow:
        letters = "".join(terms)
        output = ("." if "." in letters else "") + "".join(sorted({c for c in letters if c != "." and letters.count(c) == 1}))
    lengths = [None if n is None else n - len(term) + 1 for term, n in zip(terms, ranks, strict=True)]
    known = [n for term, n in zip(terms, lengths, strict=True) if "." in term and n is not None]
    if not known and "." in output and rank is not None:
        known = [rank - len(output) + 1]
    if not known:
        return terms, output
    longest = max(known)
    used = set("".join(terms) + output)
    letters = "".join([letter for letter in string.ascii_letters if letter not in used][:longest])
    spelled = [
        term.replace(".", letters[longest - (longest if n is None else n) :]) for term, n in zip(terms, lengths, strict=True)
    ]
    return spelled, output.replace(".", letters)

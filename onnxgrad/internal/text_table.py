"""Tables of summaries, as text with columns of equal width and as HTML for notebooks.

Tests: tests/core/ir/test_summary.py, tests/paddle_suite/test_layers.py.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["SummaryTable", "table_lines"]

_LAST = 5


class SummaryTable(NamedTuple):
    """Rows of a summary: words first, then whole numbers.

    Attributes:
        columns: their names.
        rows: a cell for each column.
        title: one line above.
        facts: lines below.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | int]]
    title: str = ""
    facts: Sequence[str] = ()

    def text(self, most: int | None = None, longest: int | None = None) -> str:
        """Return the table as lines of text.

        Args:
            most: how many rows are written, the last five among them; None for all.
            longest: how many letters of a row's first cell are written, the last ones; None for all.

        Example:
            >>> print(SummaryTable(["layer", "elements"], [("body", 4000), ("head", 30)], facts=["4,030 elements"]).text())
            layer  elements
            body      4,000
            head         30
            4,030 elements
        """
        hidden = 0 if most is None else max(0, len(self.rows) - most)
        shown = self.rows if most is None or not hidden else [*self.rows[: most - _LAST], *self.rows[-_LAST:]]
        cells = [_cells(row) for row in shown]
        if longest is not None:
            cells = [[name[-longest:], *others] for name, *others in cells]
        words = max((sum(isinstance(cell, str) for cell in row) for row in shown), default=len(self.columns))
        lines = table_lines([self.columns, *cells], left=words)
        if hidden:
            lines.insert(len(lines) - _LAST, f"... {hidden} more ...")
        return "\n".join([*([self.title] if self.title else []), *lines, *self.facts])

    def html(self) -> str:
        """Return the title, the whole table and the facts, escaped."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row)) + "</tr>" for row in self.rows)
        facts = "<br>".join(map(html.escape, self.facts))
        return f"<b>{html.escape(self.title)}</b><table><tr>{head}</tr>{body}</table>{facts}"


def _cells(row: Sequence[str | int]) -> list[str]:
    return [cell if isinstance(cell, str) else f"{cell:,}" for cell in row]


def table_lines(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Align the cells of rows in columns.

    Args:
        rows: of cells, all of one length.
        left: how many columns are words, which begin at the left; the others are numbers, which end at the right.

    Example:
        >>> table_lines([("layer", "size"), ("fc", "12")], left=1)
        ['layer  size', 'fc       12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines

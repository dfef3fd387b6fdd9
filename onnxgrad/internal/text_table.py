"""Tables of text: columns of equal width.

Tests: tests/core/ir/test_summary.py, tests/paddle_suite/test_layers.py.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["table_lines"]


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

"""Examples that cannot be read: refused by name, or left out and listed where the user wants that.

Tests: tests/training/data/test_broken.py.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import DataError
from onnxgrad.internal.files import make_folder, write_whole
from onnxgrad.internal.processors import usable_cores

__all__ = ["Broken", "broken_among", "flaws_in", "is_left_out", "left_of", "skip_broken", "skips_broken"]

Array = np.ndarray[Any, Any]


class Broken:
    """Examples that were left out.

    Attributes:
        reasons: by what was left out, a file or the row of a table, why.
    """

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self._looked_at: dict[Any, str | None] = {}

    def __len__(self) -> int:
        return len(self.reasons)

    def flaw(self, key: Hashable, read: Callable[[], object]) -> str | None:
        """Return why something cannot be read, or None; data that is opened again is not read again to find out.

        Args:
            key: of what is read.
            read: reads it.
        """
        if key not in self._looked_at:
            try:
                read()
                self._looked_at[key] = None
            except DataError as error:
                self._looked_at[key] = str(error)
        return self._looked_at[key]

    def write(self, path: Path) -> None:
        """Write a table with the columns ``example`` and ``reason``.

        Raises:
            FileError: if it cannot be written.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([("example", "reason"), *self.reasons.items()])
        make_folder(path.parent)
        write_whole(path, text.getvalue().encode())


_BROKEN: ContextVar[Broken | None] = ContextVar("broken", default=None)


@contextmanager
def skip_broken(skips: bool = True) -> Iterator[Broken]:
    """Leave out examples that cannot be read, of data that is opened within the block: pictures, masks, and rows of tables.

    Each picture is read once, when its data is opened. Data of which nothing is left is refused.

    Args:
        skips: False to change nothing.

    Example:
        >>> with skip_broken() as broken:  # doctest: +SKIP
        ...     trainer.fit("photos/", epochs=3)
        >>> broken.reasons  # doctest: +SKIP
        {'photos/cat/7.jpg': "cannot read the image 'photos/cat/7.jpg': ..."}
    """
    broken = Broken()
    token = _BROKEN.set(broken if skips else None)
    try:
        yield broken
    finally:
        _BROKEN.reset(token)


def skips_broken() -> bool:
    """Return whether examples that cannot be read are left out."""
    return _BROKEN.get() is not None


def is_left_out(example: str, reason: str) -> bool:
    """Leave out an example and return True, or False where it is to be refused."""
    broken = _BROKEN.get()
    if broken is not None:
        broken.reasons[example] = reason
    return broken is not None


def broken_among(keys: Sequence[Any], read: Callable[[Any], object]) -> dict[int, str]:
    """Read each of some files or pictures once, by several threads; return the places of those that fail, and why.

    Args:
        keys: what ``read`` takes; what was read with an equal key before is not read again.
        read: raises DataError if it cannot.
    """
    broken = _BROKEN.get() or Broken()
    with ThreadPoolExecutor(min(8, usable_cores()), "onnxgrad-broken") as pool:
        reasons = list(pool.map(lambda key: broken.flaw((read, key), lambda: read(key)), keys))
    return {at: reason for at, reason in enumerate(reasons) if reason is not None}


def left_of(names: Sequence[str], flaws: Mapping[int, str], where: str) -> Array:
    """Leave out examples, and return the numbers of those that are left.

    Args:
        names: of all examples, for the list.
        flaws: by number of an example, why it is left out.
        where: the data, for messages.

    Raises:
        DataError: if no example is left.
    """
    for at in sorted(flaws):
        is_left_out(names[at], flaws[at])
    if len(flaws) == len(names):
        raise DataError(f"none of the {len(names):,} examples of {where} can be read. The first: {flaws[min(flaws)]}")
    return np.array([at for at in range(len(names)) if at not in flaws], np.int64)


def flaws_in(read: Callable[[Array], object], count: int) -> dict[int, str]:
    """Find the rows that cannot be read, by halves: a block of rows that can be read as a whole is read once.

    Args:
        read: reads the rows of some numbers, and raises DataError if it cannot.
        count: of all rows.

    Returns:
        By number of the row, why it cannot be read alone.

    Example:
        >>> def read(rows):
        ...     if 3 in rows:
        ...         raise DataError("3 is odd")
        >>> flaws_in(read, 8)
        {3: '3 is odd'}
    """
    flaws: dict[int, str] = {}
    blocks = [(0, count)] if count else []
    while blocks:
        start, stop = blocks.pop()
        try:
            read(np.arange(start, stop))
        except DataError as error:
            if stop - start == 1:
                flaws[start] = str(error)
            else:
                middle = (start + stop) // 2
                blocks += [(middle, stop), (start, middle)]
    return flaws

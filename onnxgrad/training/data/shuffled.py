"""Examples that come one after another, mixed in a buffer and cut into batches.

Tests: tests/training/data/test_tables.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.kinds.column import cell_array, taken_cells
from onnxgrad.training.data.rows import Batch, Source, Stream

__all__ = ["Shuffled"]

Array = np.ndarray[Any, Any]
_SPLIT = 7


class Shuffled(Stream):
    """Sources of data, of any number of examples each, as batches in an order that a seed decides.

    Of the examples in the buffer and those that have come, as many as have come leave it, drawn by the seed and the epoch; the rest
    follows at the end. A run that is resumed in the middle of an epoch reads the pieces before it again, so it is bitwise the
    same if the source gives the same pieces for the same epoch.

    Args:
        source: an iterable of pieces (dicts of arrays, or tuples in the order of the columns) that can be gone over again, or a
            function of the epoch number that gives one.
        buffer: examples to hold; 0 to keep the order.
        length: examples in an epoch, where that is known.
        decode: turns examples as the source has them (columns of paths, bytes or offsets) into a batch. It is called with the
            examples of a batch when the batch is used; each of several ranks calls it with its own part of the batch alone.

    Raises:
        ArgumentError: if the buffer is negative.

    Example:
        >>> pieces = [{"x": np.arange(4)}, {"x": np.arange(4, 9)}]
        >>> batches = list(Shuffled(pieces, buffer=6).batches(3, seed=1))
        >>> [len(batch["x"]) for batch in batches], sorted(int(x) for batch in batches for x in batch["x"])
        ([3, 3, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8])
        >>> [batch["x"].tolist() for batch in Shuffled(pieces).batches(4, shuffle=False)]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
        >>> squares = Shuffled([{"root": [1, 2, 3]}], decode=lambda raw: {"x": raw["root"] ** 2})
        >>> [batch["x"].tolist() for batch in squares.batches(2, shuffle=False)]
        [[1, 4], [9]]
    """

    rows_at_once = 1
    """How many examples ``decode`` is called with at least, in whole batches."""

    @checked
    def __init__(
        self,
        source: Source,
        *,
        buffer: int = 10_000,
        length: int | None = None,
        names: Sequence[str] = (),
        decode: Callable[[Batch], Batch] | None = None,
    ) -> None:
        if buffer < 0:
            raise ArgumentError(f"buffer counts examples; it is at least 0, not {buffer}.")
        super().__init__(source, names)
        self.buffer, self.length = buffer, length
        self.decode, self.decodes = decode, decode is not None
        self._share: tuple[float, int, bool] | None = None

    def parts(self, fraction: float, seed: int) -> tuple[Shuffled, Shuffled]:
        """The data without a share of its examples, and that share; which they are depends on the seed and their place.

        Args:
            fraction: the share of the second part.
            seed: decides which examples it has.
        """
        parts = []
        for held_out in (False, True):
            part = self._copy()
            part._share = (fraction, seed, held_out)
            if self.length is not None:
                part.length = int((_mask(fraction, seed).random(self.length) < fraction).sum())
                part.length = part.length if held_out else self.length - part.length
            parts.append(part)
        return parts[0], parts[1]

    def _copy(self) -> Shuffled:
        clone = Shuffled(self.source, buffer=self.buffer, length=self.length, names=self.names, decode=self.decode)
        clone.rows_at_once = self.rows_at_once
        clone.path, clone.unused, clone.record, clone.resumes = self.path, self.unused, self.record, self.resumes
        return clone

    def count(self, batch_size: int, drop_last: bool = False) -> int | None:
        if self.length is None:
            return None
        return self.length // batch_size if drop_last else -(-self.length // batch_size)

    def examples(self, batch_size: int, drop_last: bool = False) -> int | None:
        return None if self.length is None else self.length - (self.length % batch_size if drop_last else 0)

    def batches(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        """The batches of one epoch; ``skip`` leaves out the first ones, which are read all the same.

        Args:
            batch_size: examples in a batch.
            shuffle: whether their order is random.
            drop_last: whether a last batch of fewer is left out.
            seed: of the order.
            epoch: its number, from 0, of which the order depends too.
            skip: how many batches at the front are left out.
        """
        order: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "seed": seed, "epoch": epoch, "skip": skip}
        yield from self.decoded(self.undecoded(batch_size, **order))

    def undecoded(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        rng = np.random.default_rng([seed, epoch])
        pieces = self._pieces(epoch)
        mixed = _mixed(pieces, self.buffer, batch_size, rng) if shuffle and self.buffer else pieces
        for number, batch in enumerate(_cut(mixed, batch_size, drop_last)):
            if number >= skip:
                yield batch

    def decoded(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        if self.decode is None:
            yield from batches
            return
        block: list[Batch] = []
        count = 0
        for batch in batches:
            block.append(batch)
            count += _size(batch)
            if count >= self.rows_at_once:
                yield from self._decoded_block(block)
                block, count = [], 0
        yield from self._decoded_block(block)

    def _decoded_block(self, block: Sequence[Batch]) -> Iterator[Batch]:
        """Decode some batches at once, as columns of numbers are read faster so"""
        if not block or self.decode is None:
            return
        decoded = self._as_batch(self.decode(_joined(block)))
        if len(block) == 1:
            yield decoded
            return
        ends = np.cumsum([_size(batch) for batch in block]).tolist()
        for start, end in zip([0, *ends], ends, strict=False):
            yield _taken(decoded, slice(start, end))

    def _pieces(self, epoch: int) -> Iterator[Batch]:
        draw = None if self._share is None else _mask(self._share[0], self._share[1])
        for item in self.source(epoch) if callable(self.source) else self.source:
            piece = self._as_batch(item) if self.decode is None else self._as_examples(item)
            if draw is not None and self._share is not None:
                fraction, _, held_out = self._share
                kept = (draw.random(_size(piece)) < fraction) == held_out
                piece = _taken(piece, np.flatnonzero(kept))
            if _size(piece):
                yield piece

    def _as_examples(self, item: Any) -> Batch:
        """A piece as ``decode`` takes it: text of pyarrow stays as it is"""
        if isinstance(item, Mapping) and any(hasattr(values, "to_pylist") for values in item.values()):
            return dict(item)
        return self._as_batch(item)


def _mask(fraction: float, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, _SPLIT, int(fraction * 2**32)])


def _size(piece: Mapping[str, Any]) -> int:
    sizes = {name: len(array) if hasattr(array, "to_pylist") or array.ndim else 0 for name, array in piece.items()}
    if len(set(sizes.values())) != 1:
        raise DataError(f"the columns of a batch have {sizes} examples. Make them equal.")
    return next(iter(sizes.values()))


def _joined(pieces: Sequence[Batch]) -> Batch:
    if len(pieces) == 1:
        return pieces[0]
    try:
        return {name: _end_to_end([piece[name] for piece in pieces]) for name in pieces[0]}
    except (KeyError, ValueError) as error:
        raise DataError(f"the batches of the data do not fit together ({error}). Give all the same columns and shapes.") from error


def _end_to_end(columns: Sequence[Any]) -> Any:
    """Columns one after another, as arrays or text of pyarrow"""
    if hasattr(columns[0], "to_pylist"):
        import pyarrow as pa

        return pa.concat_arrays(columns)
    if any(column.dtype.hasobject for column in columns):
        columns = [column if column.dtype.hasobject else cell_array(list(column)) for column in columns]
    return np.concatenate(columns)


def _taken(piece: Batch, rows: Any) -> Batch:
    return {name: taken_cells(array, rows) for name, array in piece.items()}


def _mixed(pieces: Iterator[Batch], buffer: int, least: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Fills the buffer; then lets as many leave as have come, and at the end all"""
    pool_pieces: list[Batch] = []
    count, waits = 0, max(least, buffer // 4)
    for piece in pieces:
        pool_pieces.append(piece)
        count += _size(piece)
        if count >= buffer + waits:
            pool = _joined(pool_pieces)
            order = rng.permutation(count)
            yield _taken(pool, order[buffer:])
            pool_pieces, count = [_taken(pool, order[:buffer])], buffer
    if pool_pieces:
        yield _taken(_joined(pool_pieces), rng.permutation(count))


def _cut(pieces: Iterator[Batch], size: int, drop_last: bool) -> Iterator[Batch]:
    """Batches of this size"""
    pool_pieces: list[Batch] = []
    count = 0
    for piece in pieces:
        pool_pieces.append(piece)
        count += _size(piece)
        if count >= size:
            pool = _joined(pool_pieces)
            whole = count - count % size
            for start in range(0, whole, size):
                yield _taken(pool, slice(start, start + size))
            pool_pieces, count = ([_taken(pool, slice(whole, None))] if count > whole else []), count - whole
    if count and not drop_last:
        yield _joined(pool_pieces)

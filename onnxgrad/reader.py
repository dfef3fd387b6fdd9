"""paddle.reader and paddle.batch: functions that yield samples, put together as in Paddle 1. New programs use ``paddle.io``."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks

__all__ = ["batch", "buffered", "cache", "chain", "compose", "firstn", "map_readers", "shuffle", "xmap_readers"]


Reader = Callable[[], Iterable[Any]]
"""What each call of it yields are the samples of an epoch."""
Sample = TypeVar("Sample")


@checked
def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Callable[[], Iterator[list[Any]]]:
    """Group the samples of a reader into lists.

    Args:
        reader: yields samples.
        batch_size: samples in a list, at least 1.
        drop_last: leave out a last list that is shorter.

    Raises:
        ArgumentError: if ``batch_size`` is less than 1.

    Example:
        >>> list(paddle.batch(lambda: range(5), batch_size=2)())
        [[0, 1], [2, 3], [4]]
    """
    if batch_size < 1:
        raise ArgumentError(f"batch_size is at least 1, not {batch_size}.")

    def batches() -> Iterator[list[Any]]:
        samples = iter(reader())
        while group := list(itertools.islice(samples, batch_size)):
            if len(group) == batch_size or not drop_last:
                yield group

    return batches


@checked
def shuffle(reader: Reader, buf_size: int) -> Reader:
    """Shuffle the samples of a reader within blocks, by Python's ``random``.

    Args:
        reader: yields samples.
        buf_size: samples in a block.

    Example:
        >>> sorted(paddle.reader.shuffle(lambda: range(5), buf_size=3)())
        [0, 1, 2, 3, 4]
    """

    def shuffled() -> Iterator[Any]:
        for block in batch(reader, buf_size)():
            random.shuffle(block)
            yield from block

    return shuffled


@checked
def cache(reader: Reader) -> Reader:
    """Keep the samples of a reader in memory from its first epoch on.

    Args:
        reader: yields samples.
    """
    kept: list[list[Any]] = []

    def cached() -> Iterator[Any]:
        if not kept:
            kept.append(list(reader()))
        yield from kept[0]

    return cached


@checked
def firstn(reader: Reader, n: int) -> Reader:
    """Limit a reader to its first samples.

    Args:
        reader: yields samples.
        n: how many.

    Example:
        >>> list(paddle.reader.firstn(lambda: range(5), 2)())
        [0, 1]
    """
    return lambda: itertools.islice(reader(), n)


def map_readers(func: Callable[..., Sample], *readers: Reader) -> Callable[[], Iterator[Sample]]:
    """Apply a function to the samples of readers, one of each.

    Args:
        func: takes as many samples as there are readers.
        readers: yield samples.

    Example:
        >>> list(paddle.reader.map_readers(lambda a, b: a + b, lambda: [1, 2], lambda: [10, 20])())
        [11, 22]
    """
    return lambda: map(func, *(reader() for reader in readers))


def chain(*readers: Reader) -> Reader:
    """Yield the samples of one reader after those of another.

    Args:
        readers: yield samples.

    Example:
        >>> list(paddle.reader.chain(lambda: [1, 2], lambda: [3])())
        [1, 2, 3]
    """
    return lambda: itertools.chain.from_iterable(reader() for reader in readers)


@checked
def compose(*readers: Reader, check_alignment: bool = True) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Yield the samples of readers side by side, with tuples flattened.

    Args:
        readers: yield samples.
        check_alignment: whether all must have as many samples; otherwise what is left over is dropped.

    Raises:
        ArgumentError: if they have not, when the first of them ends.

    Example:
        >>> list(paddle.reader.compose(lambda: [(1, 2), (3, 4)], lambda: [5, 6])())
        [(1, 2, 5), (3, 4, 6)]
    """

    def composed() -> Iterator[tuple[Any, ...]]:
        missing = object()
        for samples in itertools.zip_longest(*(reader() for reader in readers), fillvalue=missing):
            if any(sample is missing for sample in samples):
                if check_alignment:
                    raise ArgumentError(
                        "compose: a reader has fewer samples than another. Pass check_alignment=False to drop them."
                    )
                return
            yield tuple(itertools.chain.from_iterable(s if isinstance(s, tuple) else (s,) for s in samples))

    return composed


@checked
def buffered(reader: Reader, size: int) -> Reader:
    """Return the reader as it is: samples are read when they are asked for.

    Args:
        reader: yields samples.
        size: accepted for compatibility.
    """
    return reader


@checked
def xmap_readers(mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int, order: bool = False) -> Reader:
    """Apply a function to the samples of a reader, in their order.

    Args:
        mapper: takes a sample.
        reader: yields samples.
        process_num, buffer_size, order: accepted for compatibility.
    """
    return map_readers(mapper, reader)


globals().update(absence_hooks(__name__))

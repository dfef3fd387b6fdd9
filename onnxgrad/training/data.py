"""Training data: columns of arrays, and batches of them in an order that a seed decides.

A batch is a dict of arrays by column name. Everything here is numpy; nothing is copied that need not be.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.errors import ArgumentError, ArgumentTypeError, DataError, FileError, ModelError
from onnxgrad.files import read_arrays

__all__ = ["Batch", "Columns", "Data", "Stream", "open_data", "prefetched"]

Array = np.ndarray[Any, Any]
Batch: TypeAlias = "dict[str, Array]"
Data: TypeAlias = "Mapping[str, Any] | str | Path | Sequence[Any] | Iterable[Any] | Callable[[int], Iterable[Any]]"


class Columns:
    """Arrays of equal length that are cut into shuffled batches.

    Args:
        arrays: by column name; the first axis counts the examples.

    Raises:
        DataError: naming the column, if lengths differ or there is no example.

    Example:
        >>> columns = Columns({"x": np.arange(5.0), "y": np.arange(5)})
        >>> [batch["y"].tolist() for batch in columns.batches(2, shuffle=False)]
        [[0, 1], [2, 3], [4]]
    """

    unused: Sequence[str] = ()
    """Names of what the data held besides."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = {str(name): np.asarray(array) for name, array in arrays.items()}
        if not self.arrays:
            raise DataError("the data has no columns. Give arrays by input name.")
        first, self.length = next(((name, len(array)) for name, array in self.arrays.items() if array.ndim), ("", 0))
        for name, array in self.arrays.items():
            if array.ndim == 0 or len(array) != self.length:
                shape = list(array.shape)
                raise DataError(f"column {name!r} has shape {shape}, but {first!r} has {self.length} examples. Make them equal.")
        if self.length == 0:
            raise DataError("the data has no examples.")

    def __len__(self) -> int:
        return self.length

    def count(self, batch_size: int, drop_last: bool = False) -> int:
        """Batches in an epoch."""
        return self.length // batch_size if drop_last else -(-self.length // batch_size)

    def examples(self, batch_size: int, drop_last: bool = False) -> int:
        """Examples in an epoch."""
        return self.length - self.length % batch_size if drop_last else self.length

    def batches(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        """The batches of one epoch; ``skip`` leaves out the first ones without changing the others."""
        order: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "seed": seed, "epoch": epoch, "skip": skip}
        for rows in self.rows(batch_size, **order):
            yield {name: array[rows] for name, array in self.arrays.items()}

    def rows(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Array]:
        """The numbers of the examples in each batch of one epoch."""
        order = np.random.default_rng([seed, epoch]).permutation(self.length) if shuffle else np.arange(self.length)
        for number in range(skip, self.count(batch_size, drop_last)):
            yield order[number * batch_size : (number + 1) * batch_size]


class Stream:
    """Batches that come ready made: from an iterable, or from a function of the epoch number."""

    unused: Sequence[str] = ()

    def __init__(self, source: Any, names: Sequence[str]) -> None:
        self.source = source
        self.names = list(names)

    def count(self, batch_size: int, drop_last: bool = False) -> int | None:
        return len(self.source) if hasattr(self.source, "__len__") else None

    def examples(self, batch_size: int, drop_last: bool = False) -> int | None:
        return None

    def batches(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        items = self.source(epoch) if callable(self.source) else self.source
        for item in itertools.islice(items, skip, None):
            yield self._as_batch(item)

    def _as_batch(self, item: Any) -> Batch:
        if isinstance(item, Mapping):
            return {str(name): np.asarray(array) for name, array in item.items()}
        if isinstance(item, (tuple, list)):
            if len(item) != len(self.names):
                raise DataError(f"a batch has {len(item)} arrays, but the columns are {self.names}. Give one array each.")
            return {name: np.asarray(array) for name, array in zip(self.names, item, strict=True)}
        raise DataError(f"a batch is a dict or a tuple of arrays, not {type(item).__name__}.")


def open_data(data: Data | Columns | Stream, names: Sequence[str], optional: Sequence[str] = ()) -> Columns | Stream:
    """Columns or a stream from whatever the user has.

    Args:
        data: a dict of arrays, the path of an .npz file, a tuple of arrays in the order of ``names``, an iterable of
            batches (dicts or tuples), or a function that gives one for an epoch number.
        names: the columns that the program wants.
        optional: columns that are taken where the data has them.

    Raises:
        DataError: if the file cannot be read or a column is missing.
        ArgumentTypeError: if it is none of these.
    """
    if isinstance(data, (Columns, Stream)):
        return data
    if isinstance(data, (str, Path)):
        if Path(data).suffix in (".jsonl", ".txt"):
            raise DataError(f"{str(data)!r} is text, which needs a tokenizer: give training.Text(path, tokenizer) (--tokenizer).")
        data = _read_npz(Path(data))
    if isinstance(data, Mapping):
        missing = [name for name in names if name not in data]
        if missing:
            raise DataError(f"the data has no column {missing[0]!r}; it has {sorted(map(str, data))}. Rename or add it.")
        columns = Columns({name: data[name] for name in [*names, *(name for name in optional if name in data)]})
        columns.unused = sorted({str(name) for name in data} - {*names, *optional})
        return columns
    if isinstance(data, tuple) and data and all(isinstance(item, np.ndarray) for item in data):
        if len(data) != len(names):
            raise DataError(f"{len(data)} arrays are given for the columns {list(names)}. Give one each, in this order.")
        return Columns(dict(zip(names, data, strict=True)))
    if callable(data) or hasattr(data, "__iter__"):
        return Stream(data, names)
    raise ArgumentTypeError(f"data is a dict of arrays, a path, an iterable or a function, not {type(data).__name__}.")


def _read_npz(path: Path) -> Batch:
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}.")
    try:
        return read_arrays(path)
    except (FileError, ModelError) as error:
        raise DataError(str(error)) from error


class _End:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def prefetched(batches: Iterator[Batch], ahead: int = 2) -> Iterator[Batch]:
    """The same batches, prepared by a background thread; an error comes out where its batch would have."""
    if ahead < 0:
        raise ArgumentError(f"the number of batches to prepare ahead is at least 0, not {ahead}.")
    if ahead == 0:
        yield from batches
        return
    ready: queue.Queue[Batch | _End] = queue.Queue(maxsize=ahead)
    stopped = threading.Event()
    thread = threading.Thread(target=_prepare, args=(batches, ready, stopped), daemon=True, name="onnxgrad-prefetch")
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopped.set()
        # A source that waits for something must not hold up the end of a run.
        thread.join(timeout=1.0)


def _prepare(batches: Iterator[Batch], ready: queue.Queue[Batch | _End], stopped: threading.Event) -> None:
    """Fill the queue until the batches end or somebody says stop"""

    def put(item: Batch | _End) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    try:
        for batch in batches:
            if not put(batch):
                return
        put(_End())
    except BaseException as error:
        put(_End(error))

"""Training data: columns of arrays, and batches of them in an order that a seed decides.

A batch is a dict of arrays by column name. Everything here is numpy; nothing is copied that need not be.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from onnxgrad.core.state.inputs import COLUMN, Given, GivenByName, as_array
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training.data.views import View

if TYPE_CHECKING:
    from onnxgrad.training.data.record import DataRecord
    from onnxgrad.training.data.spec import DataSpec


__all__ = ["Array", "Batch", "Columns", "Data", "Parts", "RowSubset", "Rows", "Stream", "prefetched"]

Array = np.ndarray[Any, Any]
Batch: TypeAlias = "dict[str, Array]"
Piece: TypeAlias = "GivenByName | Sequence[Given]"
"""Some examples: a dict of arrays by column, or arrays in the order of the columns."""


class Opens(Protocol):
    """A description of data: ``Images``, ``Sounds``, ``Table``, ``Text``, ``Texts``."""

    def opened(self, wanted: DataSpec) -> Rows | Stream: ...


class Examples(Protocol):
    """A dataset of another package: examples by number."""

    def __getitem__(self, number: Any, /) -> Any: ...

    def __len__(self) -> int: ...


Source: TypeAlias = "Iterable[Piece] | Callable[[int], Iterable[Piece]]"
"""Pieces one after another, or a function of the epoch that gives them."""
Data: TypeAlias = "str | Path | GivenByName | tuple[Array, ...] | Rows | Stream | Opens | Examples | Source"
"""Whatever the user has as data; ``open_data`` says what each means."""


class Parts(NamedTuple):
    """Examples in parts, as long sounds are judged by windows.

    Attributes:
        rows: the parts, those of one example after the other.
        example: the number of the example of each.
        start: where each begins in its example, in seconds.
        seconds: how long each example is.
        join: ``"mean"`` or ``"max"``: what stands for the parts of one example.
    """

    rows: Rows
    example: Array
    start: Array
    seconds: Array
    join: str

    def joined(self, values: Array) -> Array:
        """One value for each example, of values for each part [parts, ...]."""
        firsts = self.firsts
        if self.join == "max":
            return np.asarray(np.maximum.reduceat(values, firsts, axis=0))
        counts = np.diff([*firsts, len(values)]).reshape(-1, *[1] * (values.ndim - 1))
        totals = np.add.reduceat(values, firsts, axis=0, dtype=np.float64)
        return np.asarray((totals / counts).astype(values.dtype))

    @property
    def firsts(self) -> Array:
        """The number of the first part of each example."""
        return np.flatnonzero(np.diff(self.example, prepend=-1))


class Rows:
    """Examples that can be read by number, cut into shuffled batches.

    A subclass has ``length`` and ``take``; the order of an epoch depends on the seed and the epoch alone, so a run can be
    resumed in the middle of one.

    Attributes:
        path: of the file or folder that it was read from, if there is one.
        unused: names of what the data held besides.
        remarks: lines on how the data was understood.
        record: what was found of each input and target; None where nothing was to be found out.
        decoders: by column of word numbers, a function that gives their text.
        settings: what else examples depend on, which ranks compare by its text.
        together: how many rows that follow each other stay together, as those of a pair of sentences do: they are shuffled, held
            out and put into batches together. ``length`` is a multiple of it.
    """

    length: int
    together: int = 1
    path: Path | None = None
    unused: Sequence[str] = ()
    remarks: Sequence[str] = ()
    record: DataRecord | None = None
    decoders: Mapping[str, Callable[[Array], str]] = MappingProxyType({})
    settings: Sequence[object] = ()

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        """By target, names of the classes by number, where labels are words."""
        return {} if self.record is None else self.record.classes

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        """The examples of these numbers; ``epoch``, a seed and the number of an epoch, is None where nothing is random."""
        raise NotImplementedError

    def column(self, name: str) -> Array | None:
        """A column of all examples, if it can be had without reading them."""
        return None

    def select(self, rows: Array) -> Rows:
        """The examples of these numbers as data of its own.

        Args:
            rows: numbers of examples.
        """
        return RowSubset(self, rows)

    def first(self, seed: int, epoch: int) -> Batch:
        """The first example, which shows the types of columns.

        Args:
            seed: of random changes and of order.
            epoch: number of the epoch.
        """
        return self.take(np.arange(1), (seed, epoch))

    def plain(self) -> Rows:
        """The same without random changes of examples, as evaluation takes it."""
        return self

    @property
    def content(self) -> str:
        """What else the data is besides the file at ``path``, for fingerprints: answers that lie in other files."""
        return ""

    def view(self, row: int) -> View | None:
        """Where the picture of an example lies in the model's input, without random changes; None of what is no picture."""
        return None

    def picture(self, row: int) -> Any:
        """The picture of an example as its file has it, as an image of Pillow; None where there is none."""
        return None

    def file(self, row: int) -> Path | None:
        """The file of the picture of an example."""
        return None

    def parts(self) -> Parts | None:
        """The parts that the examples are cut into where they are judged; None where each is read as a whole."""
        return None

    def original(self, name: str, row: int) -> Any:
        """The boxes, regions or mask of an example in pixels of its picture; None where the column holds no such."""
        return None

    def __len__(self) -> int:
        return self.length

    def rows_in_batch(self, batch_size: int) -> int:
        """The largest number of rows up to ``batch_size`` that cuts none apart that stay together.

        Raises:
            ArgumentError: if there is none.
        """
        if batch_size < self.together:
            raise ArgumentError(
                f"{self.together} rows of the data stay together, so a batch has {self.together} at least, not {batch_size}. "
                "Give a larger batch_size (--batch-size)."
            )
        return batch_size - batch_size % self.together

    def count(self, batch_size: int, drop_last: bool = False) -> int:
        """Batches in an epoch.

        Args:
            batch_size: examples in a batch.
            drop_last: whether a last batch of fewer is left out.
        """
        size = self.rows_in_batch(batch_size)
        return self.length // size if drop_last else -(-self.length // size)

    def examples(self, batch_size: int, drop_last: bool = False) -> int:
        """Examples in an epoch.

        Args:
            batch_size: examples in a batch.
            drop_last: whether a last batch of fewer is left out.
        """
        return self.length - self.length % self.rows_in_batch(batch_size) if drop_last else self.length

    def batches(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        """The batches of one epoch; ``skip`` leaves out the first ones without changing the others.

        Args:
            batch_size: examples in a batch, less those that would be cut from others they stay together with.
            shuffle: whether their order is random.
            drop_last: whether a last batch of fewer is left out.
            seed: of the order.
            epoch: its number, from 0, of which the order depends too.
            skip: how many batches at the front are left out.
        """
        order: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "seed": seed, "epoch": epoch, "skip": skip}
        for rows in self.numbers(batch_size, **order):
            yield self.take(rows, (seed, epoch))

    def numbers(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Array]:
        """The numbers of the examples in each batch of one epoch."""
        size, blocks = self.rows_in_batch(batch_size), self.length // self.together
        order = np.random.default_rng([seed, epoch]).permutation(blocks) if shuffle else np.arange(blocks)
        order = self.rows_of(order)
        for number in range(skip, self.count(batch_size, drop_last)):
            yield order[number * size : (number + 1) * size]

    def rows_of(self, blocks: Array) -> Array:
        """The numbers of the rows of these blocks of rows that stay together, in their order."""
        rows: Array = (blocks[:, None] * self.together + np.arange(self.together)).reshape(-1)
        return rows


class RowSubset(Rows):
    """Some examples of others."""

    def __init__(self, base: Rows, rows: Array) -> None:
        self.base, self.rows, self.length, self.together = base, rows, len(rows), base.together
        self.path, self.record, self.decoders = base.path, base.record, base.decoders

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        return self.base.take(self.rows[rows], epoch)

    def select(self, rows: Array) -> Rows:
        return self.base.select(self.rows[rows])

    def column(self, name: str) -> Array | None:
        column = self.base.column(name)
        return None if column is None else column[self.rows]

    def plain(self) -> Rows:
        return RowSubset(self.base.plain(), self.rows)

    @property
    def content(self) -> str:
        return self.base.content

    def view(self, row: int) -> View | None:
        return self.base.view(int(self.rows[row]))

    def picture(self, row: int) -> Any:
        return self.base.picture(int(self.rows[row]))

    def file(self, row: int) -> Path | None:
        return self.base.file(int(self.rows[row]))

    def parts(self) -> Parts | None:
        whole = self.base.parts()
        if whole is None:
            return None
        firsts = np.searchsorted(whole.example, self.rows)
        counts = np.searchsorted(whole.example, self.rows, "right") - firsts
        number = np.repeat(np.arange(len(counts)), counts)
        kept = np.arange(len(number)) + np.repeat(firsts - np.cumsum(counts) + counts, counts)
        return Parts(whole.rows.select(kept), number, whole.start[kept], whole.seconds[self.rows], whole.join)

    def original(self, name: str, row: int) -> Any:
        return self.base.original(name, int(self.rows[row]))


class Columns(Rows):
    """Arrays of equal length that are cut into shuffled batches.

    Args:
        arrays: by column name; the first axis counts the examples.
        together: how many rows that follow each other stay together, in all orders and batches.

    Raises:
        DataError: naming the column, if lengths differ, there is no example, or rows that stay together are not all there.

    Example:
        >>> columns = Columns({"x": np.arange(5.0), "y": np.arange(5)})
        >>> [batch["y"].tolist() for batch in columns.batches(2, shuffle=False)]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, arrays: Mapping[str, Any], *, together: int = 1) -> None:
        if together < 1:
            raise ArgumentError(f"together counts rows; it is at least 1, not {together}.")
        self.together = together
        self.arrays = {str(name): as_array(array, str(name), COLUMN) for name, array in arrays.items()}
        if not self.arrays:
            raise DataError("the data has no columns. Give arrays by input name.")
        first, self.length = next(((name, len(array)) for name, array in self.arrays.items() if array.ndim), ("", 0))
        for name, array in self.arrays.items():
            if array.ndim == 0 or len(array) != self.length:
                shape = list(array.shape)
                raise DataError(f"column {name!r} has shape {shape}, but {first!r} has {self.length} examples. Make them equal.")
        if self.length == 0:
            raise DataError("the data has no examples.")
        if self.length % together:
            raise DataError(f"{together} rows stay together, and {self.length} is not a multiple of that. Add the missing rows.")

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        return {name: array[rows] for name, array in self.arrays.items()}

    def column(self, name: str) -> Array | None:
        return self.arrays.get(name)


class Stream:
    """Batches that come ready made: from an iterable, or from a function of the epoch number.

    Attributes:
        resumes: empty, or why a run cannot be resumed in the middle of an epoch.
        decodes: whether ``undecoded`` gives other than batches.
    """

    path: Path | None = None
    unused: Sequence[str] = ()
    remarks: Sequence[str] = ()
    record: DataRecord | None = None
    decoders: Mapping[str, Callable[[Array], str]] = MappingProxyType({})
    resumes: str = ""
    decodes: bool = False

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self.source: Any = source
        self.names = list(names)

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        """By target, names of the classes by number, where labels are words."""
        return {} if self.record is None else self.record.classes

    def count(self, batch_size: int, drop_last: bool = False) -> int | None:
        """Batches in an epoch, if that is known.

        Args:
            batch_size: examples in a batch.
            drop_last: whether a last batch of fewer is left out.
        """
        return len(self.source) if hasattr(self.source, "__len__") else None

    def examples(self, batch_size: int, drop_last: bool = False) -> int | None:
        """Examples in an epoch, if that is known.

        Args:
            batch_size: examples in a batch.
            drop_last: whether a last batch of fewer is left out.
        """
        return None

    def batches(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        """The batches of one epoch, as they come; ``skip`` leaves out the first ones.

        Args:
            batch_size: of no effect: batches come ready made.
            shuffle: likewise.
            drop_last: likewise.
            seed: likewise.
            epoch: what a source that is a function is called with, from 0.
            skip: how many batches at the front are left out.
        """
        items = self.source(epoch) if callable(self.source) else self.source
        for item in itertools.islice(items, skip, None):
            yield self._as_batch(item)

    def undecoded(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        """The batches of one epoch as ``decoded`` takes them, of which ranks decode their parts alone; ready-made ones as they are.

        Args:
            batch_size: examples in a batch.
            shuffle: whether their order is random.
            drop_last: whether a last batch of fewer is left out.
            seed: of the order.
            epoch: its number, from 0, of which the order depends too.
            skip: how many batches at the front are left out.
        """
        return self.batches(batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed, epoch=epoch, skip=skip)

    def decoded(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Decode what ``undecoded`` gives, or some of its examples.

        Args:
            batches: in any number and order.
        """
        return batches

    def first(self, seed: int, epoch: int) -> Batch:
        """The first batch of an epoch, which shows the types of columns; what gives its batches once gives it again after that.

        Args:
            seed: of random changes and of order.
            epoch: number of the epoch.
        """
        if isinstance(self.source, Iterator):
            items = list(itertools.islice(self.source, 1))
            self.source = itertools.chain(items, self.source)
            batches = iter([self._as_batch(item) for item in items])
        else:
            batches = self.batches(1, shuffle=False, seed=seed, epoch=epoch)
        batch = next(batches, None)
        if batch is None:
            raise DataError("the data has no batch. Is the iterable used up? Give a list or a function.")
        return batch

    def plain(self) -> Stream:
        """The same without random changes of examples."""
        return self

    def _as_batch(self, item: Any) -> Batch:
        if isinstance(item, Mapping):
            return {str(name): as_array(array, str(name), COLUMN) for name, array in item.items()}
        if isinstance(item, (tuple, list)):
            if len(item) != len(self.names):
                raise DataError(f"a batch has {len(item)} arrays, but the columns are {self.names}. Give one array each.")
            return {name: as_array(array, name, COLUMN) for name, array in zip(self.names, item, strict=True)}
        raise DataError(f"a batch is a dict or a tuple of arrays, not {type(item).__name__}.")


class _End:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


_PATIENCE = 0.2
"""Seconds after which it is seen whether a batch that does not come is still waited for."""


def prefetched(batches: Iterator[Batch], ahead: int = 2, stops: Callable[[], bool] = lambda: False) -> Iterator[Batch]:
    """The same batches, prepared by a background thread; an error comes out where its batch would have.

    Args:
        batches: to prepare.
        ahead: how many are prepared before they are asked for; 0 for none, and no thread.
        stops: says whether no more are wanted; asked while one is waited for.
    """
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
            try:
                item = ready.get(timeout=_PATIENCE)
            except queue.Empty:
                if stops():
                    return
                continue
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

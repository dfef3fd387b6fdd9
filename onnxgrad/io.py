"""paddle.io: data sets, the order in which they are read, and batches of them.

Tests: tests/paddle_suite/test_data_and_files.py.
"""

from __future__ import annotations

import bisect
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import Place
from onnxgrad.distributed.sampler import DistributedBatchSampler
from onnxgrad.eager.tensor import Tensor, leaf
from onnxgrad.errors import ArgumentError, ArgumentTypeError, DataError, Mismatch, NotOffered
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_flag, as_function_or_none, as_int, as_kind, as_number, checked, wrong_kind
from onnxgrad.internal.refusals import absence_hooks

__all__ = [
    "BatchSampler", "ChainDataset", "ComposeDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedBatchSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequenceSampler", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "get_worker_info", "random_split",
]  # fmt: skip


if TYPE_CHECKING:
    # Only those of typing_extensions have defaults, which stand for a data set whose samples are of any kind.
    from typing_extensions import TypeVar as TypeVarWithDefault

    Sample = TypeVarWithDefault("Sample", default=Any, covariant=True)
else:
    Sample = TypeVar("Sample", covariant=True)

Set = TypeVar("Set", bound="Samples[Any] | IterableDataset[Any]")


class Samples(Protocol[Sample]):
    """Samples by number: a Dataset, a list, an array."""

    def __getitem__(self, idx: Any, /) -> Sample: ...

    def __len__(self) -> int: ...


class Dataset(Generic[Sample]):
    """Samples by number: write ``__getitem__`` and ``__len__``.

    Example:
        >>> class Squares(paddle.io.Dataset):
        ...     def __getitem__(self, idx):
        ...         return idx**2
        ...     def __len__(self):
        ...         return 3
        >>> [Squares()[number] for number in range(len(Squares()))]
        [0, 1, 4]
    """

    def __getitem__(self, idx: int, /) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__.")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__.")


class IterableDataset(Dataset[Sample]):
    """Samples one after another: write ``__iter__``.

    Example:
        >>> class Squares(paddle.io.IterableDataset):
        ...     def __iter__(self):
        ...         return iter([0, 1, 4])
        >>> [batch.tolist() for batch in paddle.io.DataLoader(Squares(), batch_size=2)]
        [[0, 1], [4]]
    """

    def __iter__(self) -> Iterator[Sample]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__.")

    def __getitem__(self, idx: int, /) -> Sample:
        raise RuntimeError("an IterableDataset has no samples by number.")

    def __len__(self) -> int:
        raise _NoLength("an IterableDataset has no length.")


class _NoLength(RuntimeError, TypeError):
    """As Paddle raises it, and as Python expects it of what has no length."""


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Take rows of tensors, or arrays, with a first axis of one size.

    Args:
        tensors: of any shapes ``[N, ...]`` and types.

    Raises:
        ArgumentTypeError: if they are no list or tuple.
        ArgumentError: if their first axes differ in size.

    Example:
        >>> paddle.io.TensorDataset([np.array([5, 6]), np.array([0.5, 0.75])])[1]
        (np.int64(6), np.float64(0.75))
    """

    def __init__(self, tensors: Sequence[Variable | np.ndarray[Any, Any]]) -> None:
        if not isinstance(tensors, (list, tuple)):
            raise wrong_kind(self, "tensors", "a list of tensors", tensors)
        if len({int(tensor.shape[0]) for tensor in tensors}) != 1:
            raise Mismatch("TensorDataset: the tensors do not have the same first dimension.")
        self.tensors = tensors

    def __getitem__(self, index: int, /) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class ComposeDataset(Dataset[tuple[Any, ...]]):
    """Put the fields of several data sets of one length side by side.

    Args:
        datasets: the data sets.

    Raises:
        ArgumentTypeError: if they are no list.
        ArgumentError: if there are none, or their lengths differ.

    Example:
        >>> first, second = paddle.io.TensorDataset([np.arange(3)]), paddle.io.TensorDataset([np.arange(3) * 2])
        >>> [int(field) for field in paddle.io.ComposeDataset([first, second])[2]]
        [2, 4]
    """

    def __init__(self, datasets: Sequence[Samples]) -> None:
        self.datasets = _datasets(self, datasets)
        if not self.datasets or len({len(one) for one in self.datasets}) != 1:
            raise Mismatch("ComposeDataset takes data sets of one length.")

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, idx: int, /) -> tuple[Any, ...]:
        return tuple(field for one in self.datasets for field in _fields(one[idx]))


class ConcatDataset(Dataset[Sample]):
    """Put data sets one behind another.

    Args:
        datasets: the data sets.

    Raises:
        ArgumentTypeError: if they are no list.
        ArgumentError: if there are none.

    Example:
        >>> data = paddle.io.TensorDataset([np.arange(3)])
        >>> len(paddle.io.ConcatDataset([data, data]))
        6
    """

    def __init__(self, datasets: Iterable[Samples[Sample]]) -> None:
        self.datasets = _datasets(self, datasets)
        if not self.datasets:
            raise Mismatch("ConcatDataset takes at least one data set.")
        self.cumulative_sizes = list(itertools.accumulate(len(one) for one in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int, /) -> Sample:
        if not -len(self) <= idx < len(self):
            raise ValueError(f"index {idx} lies outside the {len(self)} samples.")
        idx %= len(self)
        at = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[at][idx - (self.cumulative_sizes[at - 1] if at else 0)]


class ChainDataset(IterableDataset[Sample]):
    """Put IterableDatasets one behind another.

    Args:
        datasets: the data sets.

    Raises:
        ArgumentTypeError: if they are no list.

    Example:
        >>> class Squares(paddle.io.IterableDataset):
        ...     def __iter__(self):
        ...         return iter([0, 1, 4])
        >>> list(paddle.io.ChainDataset([Squares(), Squares()]))
        [0, 1, 4, 0, 1, 4]
    """

    def __init__(self, datasets: Iterable[IterableDataset[Sample]]) -> None:
        self.datasets = _datasets(self, datasets)

    def __iter__(self) -> Iterator[Sample]:
        return itertools.chain.from_iterable(self.datasets)


class Subset(Dataset[Sample]):
    """Take some samples of a data set.

    Args:
        dataset: the data set.
        indices: numbers of the samples.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> [int(sample[0]) for sample in paddle.io.Subset(paddle.io.TensorDataset([np.arange(9)]), [7, 2])]
        [7, 2]
    """

    def __init__(self, dataset: Samples[Sample], indices: Sequence[int]) -> None:
        if not hasattr(dataset, "__getitem__"):
            raise wrong_kind(self, "dataset", "a Dataset, or samples by number", dataset)
        if isinstance(indices, str) or not hasattr(indices, "__getitem__"):
            raise wrong_kind(self, "indices", "a list of numbers", indices)
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: int, /) -> Sample:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def _datasets(owner: object, datasets: Iterable[Set]) -> list[Set]:
    """Read the ``datasets`` of a data set that joins others."""
    if isinstance(datasets, str) or not isinstance(datasets, Iterable):
        raise wrong_kind(owner, "datasets", "a list of data sets", datasets)
    return list(datasets)


@checked
def random_split(
    dataset: Samples[Sample], lengths: Sequence[float], generator: np.random.Generator | None = None
) -> list[Subset[Sample]]:
    """Divide a data set at random.

    Args:
        dataset: the data set.
        lengths: sizes of the parts, or fractions that add up to 1.
        generator: numpy's; None for one that goes on from ``paddle.seed``.

    Raises:
        ArgumentError: if the sizes do not add up.

    Example:
        >>> data = paddle.io.TensorDataset([np.arange(10)])
        >>> [len(part) for part in paddle.io.random_split(data, [0.75, 0.25])]
        [8, 2]
    """
    sizes = [int(n) for n in lengths]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        sizes = [math.floor(len(dataset) * fraction) for fraction in lengths]
        for at in range(len(dataset) - sum(sizes)):
            sizes[at % len(sizes)] += 1
    if sum(sizes) != len(dataset):
        raise ArgumentError(f"random_split: the sizes add up to {sum(sizes)}, not to the {len(dataset)} samples.")
    order = _random(generator).permutation(len(dataset)).tolist()
    ends = list(itertools.accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def _random(generator: Any = None) -> np.random.Generator:
    """numpy's generator: the given one, or one that goes on from paddle.seed."""
    if isinstance(generator, np.random.Generator):
        return generator
    seed = state.current.seed
    return np.random.default_rng(None if seed is None else [seed, state.current.count("seeds_given")])


# Order -----------------------------------------------------------------------------------------------------------------


class Sampler:
    """Base: numbers of samples in some order; write ``__iter__``.

    Args:
        data_source: the data set whose samples are numbered.

    Raises:
        ArgumentTypeError: if it has no length.

    Example:
        >>> class Backwards(paddle.io.Sampler):
        ...     def __iter__(self):
        ...         return iter(reversed(range(len(self.data_source))))
        >>> list(Backwards(np.zeros(3)))
        [2, 1, 0]
    """

    def __init__(self, data_source: Sized | None = None) -> None:
        if data_source is not None and not isinstance(data_source, Sized):
            raise wrong_kind(self, "data_source", "a Dataset, or samples by number", data_source)
        self.data_source: Any = data_source

    def __iter__(self) -> Iterator[int]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__.")


class SequenceSampler(Sampler):
    """Number the samples one after another.

    Args:
        data_source: the data set.

    Raises:
        ArgumentTypeError: if it has no length.

    Example:
        >>> list(paddle.io.SequenceSampler(np.zeros(3)))
        [0, 1, 2]
    """

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Draw numbers at random: each at most once, or with replacement.

    Args:
        data_source: the data set.
        replacement: whether a number may be drawn again.
        num_samples: how many; None for as many as there are.
        generator: an iterator of numbers, or numpy's Generator; None for one that goes on from ``paddle.seed``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if there are not as many to draw without replacement.

    Example:
        >>> sorted(paddle.io.RandomSampler(np.zeros(3)))
        [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Iterator[int] | np.random.Generator | None = None,
    ) -> None:
        super().__init__(data_source)
        as_kind(self, "replacement", replacement, bool)
        self._count = None if num_samples is None else as_int(self, "num_samples", num_samples, above=0)
        if self._count is not None and not replacement and generator is None and self._count > len(data_source):
            raise ArgumentError(f"RandomSampler: {num_samples} of {len(data_source)} samples need replacement=True.")
        self.replacement, self.generator = replacement, generator

    @property
    def num_samples(self) -> int:
        """How many numbers it gives."""
        return len(self.data_source) if self._count is None else self._count

    def __iter__(self) -> Iterator[int]:
        if self.generator is not None and not isinstance(self.generator, np.random.Generator):
            return itertools.islice(self.generator, self.num_samples)
        draw = _random(self.generator)
        size = len(self.data_source)
        return iter(
            (draw.integers(0, size, self.num_samples) if self.replacement else draw.permutation(size)[: self.num_samples]).tolist()
        )

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Put the given numbers in random order.

    Args:
        indices: the numbers.

    Raises:
        ArgumentTypeError: if they are no list.
        ArgumentError: if there are none.

    Example:
        >>> sorted(paddle.io.SubsetRandomSampler([7, 2]))
        [2, 7]
    """

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__()
        if isinstance(indices, str) or not hasattr(indices, "__getitem__"):
            raise wrong_kind(self, "indices", "a list of numbers", indices)
        if len(indices) == 0:
            raise ArgumentError("SubsetRandomSampler takes at least one number.")
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return iter([self.indices[at] for at in _random().permutation(len(self.indices))])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Draw numbers, each as often as its weight says.

    Args:
        weights: one for each number, none negative and not all 0.
        num_samples: how many numbers are drawn.
        replacement: whether a number may be drawn again.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``num_samples`` is not a positive int; as it is read, if the weights make no sense.

    Example:
        >>> list(paddle.io.WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
        [1, 1, 1]
    """

    def __init__(self, weights: ArrayLike | Tensor, num_samples: int, replacement: bool = True) -> None:
        super().__init__()
        try:
            self.weights = np.asarray(weights, np.float64)
        except (TypeError, ValueError):
            raise wrong_kind(self, "weights", "a list of numbers", weights) from None
        as_kind(self, "replacement", replacement, bool)
        self.num_samples, self.replacement = as_int(self, "num_samples", num_samples, above=0), replacement

    def __iter__(self) -> Iterator[int]:
        if self.weights.ndim != 1 or (self.weights < 0).any() or not self.weights.sum() > 0:
            raise Mismatch("WeightedRandomSampler: weights are a vector of numbers that are not negative and not all 0.")
        if not self.replacement and self.num_samples > int((self.weights > 0).sum()):
            raise Mismatch(f"WeightedRandomSampler: there are not {self.num_samples} numbers with a weight above 0.")
        probabilities = self.weights / self.weights.sum()
        return iter(_random().choice(len(probabilities), self.num_samples, self.replacement, probabilities).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Put numbers together in lists, of a data set or of a sampler.

    Args:
        dataset: the data set; None with a sampler.
        sampler: numbers of samples; None with a data set.
        shuffle: whether the numbers of the data set come in random order.
        batch_size: how many numbers a list has.
        drop_last: whether a shorter list at the end is left out.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if both a data set and a sampler are passed, or neither, or ``batch_size`` is not a positive int.

    Example:
        >>> list(paddle.io.BatchSampler(np.zeros(3), batch_size=2))
        [[0, 1], [2]]
    """

    def __init__(
        self,
        dataset: Sized | None = None,
        sampler: Iterable[int] | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset)
        if (dataset is None) == (sampler is None):
            raise Mismatch("BatchSampler takes either a dataset or a sampler.")
        as_kind(self, "shuffle", shuffle, bool)
        as_kind(self, "drop_last", drop_last, bool)
        if dataset is not None:
            sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        elif not isinstance(sampler, Iterable):
            raise wrong_kind(self, "sampler", "a Sampler, or numbers of samples", sampler)
        self.sampler: Any = sampler
        self.batch_size, self.drop_last = as_int(self, "batch_size", batch_size, above=0), drop_last

    def __iter__(self) -> Iterator[list[int]]:  # type: ignore[override]
        return _chunks(iter(self.sampler), self.batch_size, self.drop_last)

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)


# Batches ---------------------------------------------------------------------------------------------------------------


class WorkerInfo(NamedTuple):
    """Which worker of a DataLoader runs."""

    id: int
    num_workers: int
    dataset: Any


_worker = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """The worker of a DataLoader that asks; None outside of one. An IterableDataset reads its shard by it."""
    return getattr(_worker, "info", None)


def _chunks(samples: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists of ``size`` samples, the last of which may be shorter"""
    while chunk := list(itertools.islice(samples, size)):
        if len(chunk) == size or not drop_last:
            yield chunk


def _fields(sample: Any) -> list[Any]:
    return list(sample) if isinstance(sample, (list, tuple)) else [sample]


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Samples as one: arrays, tensors and numbers stacked, within tuples, lists and dicts."""
    first = batch[0]
    if isinstance(first, (Variable, np.ndarray)):
        return np.stack([np.asarray(item) for item in batch])
    if isinstance(first, (bool, int, float, np.number, np.bool_)):
        return np.array(batch)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate_fn([item[key] for item in batch]) for key in first}
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise ArgumentError("the samples of a batch do not have equally many fields.")
        return [default_collate_fn(list(field)) for field in zip(*batch, strict=True)]
    raise ArgumentTypeError(f"a batch holds arrays, tensors, numbers, strings, dicts and lists, not {type(first).__name__}.")


def _as_tensors(item: Any) -> Any:
    if isinstance(item, np.ndarray):
        return leaf(item)
    if isinstance(item, Mapping):
        return {key: _as_tensors(value) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_as_tensors(value) for value in item]
    return item


class _Workers:
    """Threads that call functions in the order in which these come. One that hangs does not hold up the end of the process.

    Args:
        count: of the threads.
        enter: called with its number in each thread first; what it raises comes out in place of every result.
        first: number of the first thread.
    """

    def __init__(self, count: int, enter: Callable[[int], None], first: int = 0) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(first + at, enter), daemon=True, name="onnxgrad.io") for at in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.put((future, function, arguments))
        return future

    def _work(self, at: int, enter: Callable[[int], None]) -> None:
        failure: BaseException | None = None
        try:
            enter(at)
        except BaseException as error:
            failure = error
        while (call := self._calls.get()) is not None:
            future, function, arguments = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if failure is not None:
                    raise failure
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

    def close(self) -> None:
        """Let the threads end, and wait a second for those that read a last time."""
        for _ in self._threads:
            self._calls.put(None)
        limit = time.monotonic() + 1.0
        for thread in self._threads:
            thread.join(max(0.0, limit - time.monotonic()))


class DataLoader:
    """Batches of a data set, read ahead by threads.

    Args:
        dataset: samples by number, or an IterableDataset.
        feed_list: static variables: batches are dicts by their names then, unless ``return_list``.
        batch_sampler: lists of numbers; instead of ``batch_size``, ``shuffle`` and ``drop_last``.
        batch_size: None for samples that are batches already.
        collate_fn: makes a batch of a list of samples; the default stacks arrays.
        num_workers: threads that read; 0 to read when a batch is asked for. Work in Python takes turns in them.
        prefetch_factor: batches read ahead per worker.
        worker_init_fn: called with its number in each thread.
        timeout: seconds that a batch is waited for where there are workers; 0 for as long as it takes.
        places, use_buffer_reader, reader_buffer_size, use_shared_memory, persistent_workers: accepted for compatibility.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``num_workers`` or ``timeout`` is below 0, or arguments exclude each other.
        DataError: from an iteration, if a batch does not come within ``timeout``.

    Example:
        >>> loader = paddle.io.DataLoader(paddle.io.TensorDataset([np.arange(5)]), batch_size=2)
        >>> [batch[0].tolist() for batch in loader]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Samples,
        feed_list: Sequence[Variable] | None = None,
        places: Place | Sequence[Place] | None = None,
        return_list: bool = True,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        reader_buffer_size: int = 2,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        self.dataset = dataset
        self._iterable = isinstance(dataset, IterableDataset)
        if not hasattr(dataset, "__getitem__"):
            raise wrong_kind(self, "dataset", "a Dataset, or samples by number", dataset)
        self.feed_list, self.return_list = feed_list, as_flag(self, "return_list", return_list)
        # Threads load batches here: these say how Paddle's processes do.
        as_flag(self, "use_buffer_reader", use_buffer_reader)
        as_int(self, "reader_buffer_size", reader_buffer_size)
        as_flag(self, "use_shared_memory", use_shared_memory)
        self.timeout = as_number(self, "timeout", timeout, least=0)
        as_flag(self, "persistent_workers", persistent_workers)
        self.num_workers = as_int(self, "num_workers", num_workers, least=0)
        self._ahead = max(1, self.num_workers * as_int(self, "prefetch_factor", prefetch_factor))
        self.collate_fn = as_function_or_none(self, "collate_fn", collate_fn) or default_collate_fn
        self.worker_init_fn = as_function_or_none(self, "worker_init_fn", worker_init_fn)
        self.batch_size = None if batch_size is None else as_int(self, "batch_size", batch_size)
        shuffles, self.drop_last = as_flag(self, "shuffle", shuffle), as_flag(self, "drop_last", drop_last)
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or drop_last:
                raise Mismatch("DataLoader: batch_sampler stands instead of batch_size, shuffle and drop_last.")
            if self._iterable:
                raise ArgumentError("DataLoader: an IterableDataset has no samples by number. Leave batch_sampler out.")
            self.batch_sampler: Any = batch_sampler
        elif self._iterable:
            if shuffle:
                raise ArgumentError("DataLoader: an IterableDataset defines its own order. Leave shuffle out.")
            self.batch_sampler = None
        elif self.batch_size is None:
            self.batch_sampler = RandomSampler(dataset) if shuffles else SequenceSampler(dataset)
        else:
            self.batch_sampler = BatchSampler(dataset, None, shuffles, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        if self.batch_sampler is None:
            raise ArgumentError("DataLoader: an IterableDataset has no length.")
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        read = self._streams() if self._iterable else self._numbered()
        return (self._returned(batch) for batch in read)

    __call__ = __iter__

    def _numbered(self) -> Iterator[Any]:
        def read(numbers: Any) -> Any:
            if isinstance(numbers, (list, tuple)):
                return self.collate_fn([self.dataset[number] for number in numbers])
            return self.dataset[numbers]

        if not self.num_workers:
            yield from map(read, self.batch_sampler)
            return
        workers = _Workers(self.num_workers, self._enter)
        waiting: deque[Future[Any]] = deque()
        try:
            for numbers in self.batch_sampler:
                waiting.append(workers.submit(read, numbers))
                if len(waiting) > self._ahead:
                    yield self._awaited(waiting.popleft())
            while waiting:
                yield self._awaited(waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()
            workers.close()

    def _streams(self) -> Iterator[Any]:
        """Batches of an IterableDataset; of several workers, each with an iterator of its own, in turn."""
        if not self.num_workers:
            yield from self._batches(iter(self.dataset))
            return
        workers = [_Workers(1, self._enter, at) for at in range(self.num_workers)]
        try:
            streams = [self._awaited(worker.submit(lambda: self._batches(iter(self.dataset)))) for worker in workers]
            ahead = deque((at, worker.submit(next, streams[at], _END)) for at, worker in enumerate(workers))
            while ahead:
                at, future = ahead.popleft()
                batch = self._awaited(future)
                if batch is not _END:
                    ahead.append((at, workers[at].submit(next, streams[at], _END)))
                    yield batch
        finally:
            for worker in workers:
                worker.close()

    def _awaited(self, future: Future[Any]) -> Any:
        """What a worker has read"""
        try:
            return future.result(self.timeout or None)
        except TimeoutError as error:
            if future.done():
                raise  # of the data set itself
            message = f"DataLoader: a batch has not come within {self.timeout:g} seconds"
            raise DataError(f"{message}. See what its samples wait for, or give a longer timeout.") from error

    def _batches(self, samples: Iterator[Any]) -> Iterator[Any]:
        if self.batch_size is None:
            return samples
        return map(self.collate_fn, _chunks(samples, self.batch_size, self.drop_last))

    def _enter(self, at: int) -> None:
        _worker.info = WorkerInfo(at, self.num_workers, self.dataset)
        if self.worker_init_fn is not None:
            self.worker_init_fn(at)

    def _returned(self, batch: Any) -> Any:
        if self.feed_list is not None and not self.return_list:
            fields = [field.numpy() if isinstance(field, Tensor) else field for field in _fields(batch)]
            return [{v.name: field for v, field in zip(self.feed_list, fields, strict=True)}]
        return _as_tensors(batch)

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """Make a loader of what a generator yields, which one of its ``set_`` methods takes.

        Args:
            feed_list: static variables: batches are dicts by their names, in a list of one, unless ``return_list``.
            capacity: accepted as in Paddle, as are ``use_double_buffer`` and ``use_multiprocess``.
            use_double_buffer: of no effect.
            iterable: must be True: programs are fed.
            return_list: whether batches are lists of tensors.
            use_multiprocess: of no effect.
            drop_last: whether a last batch of ``set_sample_generator`` that is smaller is left out.

        Raises:
            NotOffered: if ``iterable`` is False.

        Example:
            >>> loader = paddle.io.DataLoader.from_generator(return_list=True)
            >>> _ = loader.set_batch_generator(lambda: iter([(np.ones([2, 3]), np.zeros(2))]))
            >>> [[field.shape for field in batch] for batch in loader()]
            [[[2, 3], [2]]]
        """
        if not iterable:
            raise NotOffered("DataLoader.from_generator: iterable is True: Executor.run is fed. Go over the loader.")
        return GeneratorLoader(feed_list, return_list, drop_last)


class GeneratorLoader:
    """Batches of what a generator yields: ``DataLoader.from_generator``.

    Args:
        feed_list: static variables, or None.
        return_list: whether batches are lists of tensors, else dicts by the names of the variables.
        drop_last: whether a last batch that is smaller is left out.
    """

    def __init__(self, feed_list: Sequence[Variable] | None, return_list: bool, drop_last: bool) -> None:
        self._feed_list, self._return_list, self._drop_last = list(feed_list or ()), return_list, drop_last
        self._batches: Callable[[], Iterable[Any]] | None = None

    def set_batch_generator(self, reader: Callable[[], Iterable[Any]], places: object = None) -> GeneratorLoader:
        """Take whole batches: lists of arrays.

        Args:
            reader: a function that makes the generator.
            places: accepted as in Paddle.
        """
        self._batches = reader
        return self

    def set_sample_list_generator(self, reader: Callable[[], Iterable[Any]], places: object = None) -> GeneratorLoader:
        """Take lists of samples, which are stacked.

        Args:
            reader: a function that makes the generator.
            places: accepted as in Paddle.
        """
        self._batches = lambda: (_fields(default_collate_fn(list(samples))) for samples in reader())
        return self

    def set_sample_generator(
        self, reader: Callable[[], Iterable[Any]], batch_size: int, drop_last: bool = True, places: object = None
    ) -> GeneratorLoader:
        """Take samples, of which so many are stacked.

        Args:
            reader: a function that makes the generator.
            batch_size: how many.
            drop_last: whether a last batch that is smaller is left out.
            places: accepted as in Paddle.
        """
        return self.set_sample_list_generator(lambda: _chunks(iter(reader()), batch_size, drop_last), places)

    def __iter__(self) -> Iterator[Any]:
        if self._batches is None:
            raise ArgumentError("this loader has no generator. Call set_batch_generator, or another of its set_ methods.")
        for batch in self._batches():
            fields = [field.numpy() if isinstance(field, Tensor) else np.asarray(field) for field in _fields(batch)]
            if self._return_list:
                yield [leaf(field) for field in fields]
            elif len(fields) != len(self._feed_list):
                raise ArgumentError(f"a batch has {len(fields)} fields, feed_list {len(self._feed_list)} variables.")
            else:
                yield [{v.name: field for v, field in zip(self._feed_list, fields, strict=True)}]

    __call__ = __iter__


_END = object()


globals().update(absence_hooks(__name__))

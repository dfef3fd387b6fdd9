"""Train one model on several ranks: each has its part of every batch, and one of them writes files.

Tests: tests/distributed/test_trainer.py.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from onnxgrad import errors
from onnxgrad.core.ir.examples import batch_axes
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import is_nameless
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART, take_parts
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.step.gather import ROWS
from onnxgrad.core.step.lookups import share_lookups
from onnxgrad.distributed.agreement import Subject, check_equal
from onnxgrad.distributed.environment import current, init, share_of_cores
from onnxgrad.distributed.exchange import Part, gathered_sizes
from onnxgrad.distributed.strategy import Strategy, check_together
from onnxgrad.distributed.transport import Alone, Transport
from onnxgrad.errors import ArgumentError, ArgumentTypeError, DataError, OnnxGradError, TrainingError
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.training.data.fingerprints import content_of
from onnxgrad.training.data.kinds.column import taken_cells
from onnxgrad.training.data.rows import Batch, Rows, Stream
from onnxgrad.training.ranks.rank_step import PipelinedStep, RankStep
from onnxgrad.training.run.folder import RunFolder
from onnxgrad.training.run.plan import Interrupt, Means, Row

__all__ = ["EpochBatch", "PartBatch", "Ranks", "examples_of", "part_of", "ranks_of"]


class _Row(NamedTuple):
    """A row of stages among the others: the number of the part of the batch, and how many parts there are."""

    rank: int
    world_size: int


class EpochBatch(dict[str, Any]):
    """A batch that counts as one of the epoch, by ``Trainer.step`` together with what it makes of the weights."""


class PartBatch(EpochBatch):
    """A rank's part of a batch.

    Attributes:
        whole: examples of the whole batch.
        part: which of them these are.
    """

    whole: int
    part: Part


def examples_of(batch: Batch, axes: Mapping[str, int] = MappingProxyType({})) -> int:
    """Examples of a batch, of all ranks where this is a part of one.

    Args:
        batch: arrays by column.
        axes: of columns whose first axis does not count examples, the one that does.
    """
    if isinstance(batch, PartBatch):
        return batch.whole
    name, array = next(iter(batch.items()))
    return int(np.shape(array)[axes.get(name, 0)])


def part_of(
    batch: Batch, transport: Transport | _Row, axes: Mapping[str, int] = MappingProxyType({}), together: int = 1
) -> PartBatch:
    """A rank's part: sizes differ by one example at most. A rank that gets none has the first one, which does not count there.

    Args:
        batch: arrays by column.
        transport: says which rank this is, and how many there are.
        axes: of columns whose first axis does not count examples, the one that does.
        together: how many examples that follow each other stay on one rank.

    Raises:
        DataError: if the axis of an array that counts the examples has another length than those of others.
    """
    along = {name: axes.get(name, 0) for name in batch}
    arrays = {name: array for name, array in batch.items() if isinstance(array, np.ndarray)}
    sizes = {name: array.shape[along[name]] if array.ndim > along[name] else 0 for name, array in arrays.items()}
    whole = next(iter(sizes.values()))
    for name, size in sizes.items():
        if size != whole:
            raise DataError(
                f"ranks cut a batch along the axis that counts examples, which is {size} long in column {name!r} and {whole} in "
                "others. Give all columns as many examples; where steps come first, name both dimensions in the file."
            )
    rows, part = _rows(whole, transport, content_of(arrays), together)
    part_batch = PartBatch({name: array[(*[slice(None)] * along[name], rows)] for name, array in arrays.items()})
    # Text of pyarrow is not decoded; the numbers of its rows stand beside it.
    part_batch.update({name: taken_cells(column, rows) for name, column in batch.items() if name not in arrays})
    part_batch.whole, part_batch.part = whole, part
    return part_batch


def _rows(whole: int, transport: Transport | _Row, batch_hash: int, together: int = 1) -> tuple[slice, Part]:
    """The rows of a batch that a rank has, and its part, which notes the hash of the whole; ``together`` stay on one rank"""
    if whole % together:
        raise DataError(
            f"{together} examples stay together on a rank, as the file takes them at a time, and a batch has {whole}. Use batches "
            f"of {together * transport.world_size} (--batch-size), and leave out the smaller last one (--drop-last)."
        )
    size, more = divmod(whole // together, transport.world_size)
    first = (transport.rank * size + min(transport.rank, more)) * together
    count = (size + (transport.rank < more)) * together
    if not count:
        return slice(0, together), Part(0, together, counts=False, rows=batch_hash, whole=whole)
    return slice(first, first + count), Part(first, count, rows=batch_hash, whole=whole)


class _Parts(Stream):
    """A rank's parts of the batches of a source."""

    def __init__(
        self, source: Rows | Stream, transport: Transport | _Row, axes: Mapping[str, int] = MappingProxyType({}), together: int = 1
    ) -> None:
        self.source, self.transport, self.unused = source, transport, source.unused
        self.axes, self.together = axes, together

    def count(self, batch_size: int, drop_last: bool = False) -> int | None:
        count: int | None = self.source.count(batch_size, drop_last)
        return count

    def examples(self, batch_size: int, drop_last: bool = False) -> int | None:
        count: int | None = self.source.examples(batch_size, drop_last)
        return count

    def batches(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        order: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "seed": seed, "epoch": epoch, "skip": skip}
        if isinstance(self.source, Stream):
            yield from self._of_stream(self.source, order, batch_size)
            return
        for chosen in self.source.numbers(batch_size, **order):
            # Random changes of examples follow from the seed, the epoch and the number of a row.
            order_hash = zlib.crc32(np.array([seed, epoch, *chosen], np.int64).data)
            rows, part = _rows(len(chosen), self.transport, order_hash, math.lcm(self.source.together, self.together))
            part_batch = PartBatch(self.source.take(chosen[rows], (seed, epoch)))
            part_batch.whole, part_batch.part = len(chosen), part
            yield part_batch

    def _of_stream(self, source: Stream, order: dict[str, Any], batch_size: int) -> Iterator[Batch]:
        """The parts of the batches of a stream, which decodes those alone"""
        parts: deque[tuple[int, Part]] = deque()

        def own() -> Iterator[Batch]:
            for batch in source.undecoded(batch_size, **order):
                part_batch = part_of(batch, self.transport, {} if source.decodes else self.axes, self.together)
                parts.append((part_batch.whole, part_batch.part))
                yield dict(part_batch)

        for decoded in source.decoded(own()):
            part_batch = PartBatch(decoded)
            part_batch.whole, part_batch.part = parts.popleft()
            yield part_batch


class _Unwritten(RunFolder):
    """The folder of a run, for a rank that does not write."""

    def __enter__(self) -> _Unwritten:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def check_new(self) -> None:
        pass

    def publish(self, path: Path, name: str) -> None:
        pass

    def drop_old(self) -> None:
        pass

    def write_evaluations(self, rows: list[dict[str, Any]]) -> None:
        pass

    def write_history(self, rows: list[dict[str, Any]]) -> None:
        pass

    def write_record(self, text: str) -> None:
        pass


class Ranks:
    """The ranks that a Trainer belongs to; of one rank it does nothing.

    Args:
        transport: between them.
        strategy: how gradients travel.
    """

    def __init__(self, transport: Transport, strategy: Strategy) -> None:
        self.transport, self.strategy = transport, strategy
        self.are_many = transport.world_size > 1
        self.has_agreed = not self.are_many
        self.is_first = transport.rank == 0
        self.step: RankStep
        self._row = _Row(transport.rank // strategy.pipeline, transport.world_size // strategy.pipeline)
        self.part: Part | None = None
        self._part_weights: Mapping[Variable, Variable] | None = None
        self.axes: Mapping[str, int] = {}
        """Of columns whose first axis does not count examples, the one that does."""
        self._together = 1
        """How many examples a file takes at a time, if no other number."""

    # The programs ----------------------------------------------------------------------------------------------------

    def prepare(self, program: Program, **options: Any) -> None:
        """Before training forms are attached.

        Args:
            program: to be trained.
            options: of the Trainer, that a pipeline has no place for.

        Raises:
            ArgumentError: naming the option, or if the number of ranks is no multiple of that of the stages.
        """
        if not self.are_many:
            return
        stages = self.strategy.pipeline
        if stages > 1:
            check_together(pipeline=stages, **options)
        if self.transport.world_size % stages:
            raise ArgumentError(
                f"{self.transport.world_size} ranks do not divide into rows of {stages} stages. Start a multiple of {stages}."
            )
        take_parts(program)

    def weigh(self, part_weights: Mapping[Variable, Variable]) -> None:
        """Feed each step the weights of the terms of its loss: see ``core.step.loss_terms.loss_of_part``."""
        self._part_weights = part_weights

    def attach(
        self,
        program: Program,
        loss: Variable,
        is_scaled: bool,
        average: ExponentialMovingAverage | None,
    ) -> list[str]:
        """Let the step exchange gradients; where they are added up, let each run weigh them, and their sums be exchanged.

        Returns:
            Lines on what travels otherwise than one may think.

        Raises:
            ArgumentError: if the strategy does not fit the program.
        """
        self.axes = {v.name: axis for v, axis in batch_axes(program).items() if axis}
        sizes = {v.dims[self.axes.get(v.name, 0)] for v in program.inputs if v.dims and v.name not in (PART, ROWS)}
        known = [size for size in sizes if isinstance(size, int)]
        is_open = any(isinstance(size, str) and not is_nameless(size) for size in sizes)
        self._together = known[0] if len(known) == 1 and not is_open else 1
        remarks = share_lookups(program) if self.are_many else []
        step_class: type[RankStep] = RankStep
        if self.are_many and self.strategy.pipeline > 1:
            step_class = PipelinedStep
        self.step = step_class(self.transport, self.strategy, program, loss, is_scaled, average, self._part_weights)
        return remarks

    def threads(self, wanted: int | None) -> int | None:
        """Threads of an operator: ranks of one machine share its cores."""
        return share_of_cores() if wanted is None and self.are_many else wanted

    # A run -----------------------------------------------------------------------------------------------------------

    def agree(self, subjects: Mapping[str, Subject]) -> None:
        """Compare what ranks were given, before a first step.

        Raises:
            TrainingError: on all ranks, naming those that differ.
        """
        check_equal(self.transport, subjects)
        self.has_agreed = True

    def while_all_have(self, source: Rows | Stream, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches of an epoch; before each one of a stream, whose end nobody knows, ranks tell each other that they have it.

        Args:
            source: that they come from, as ``source`` gives it.
            batches: this rank's parts.

        Raises:
            TrainingError: on all ranks, naming those whose stream has ended before the others' or goes on.
        """
        if not isinstance(source, _Parts) or isinstance(source.source, Rows):
            yield from batches
            return
        for number, batch in enumerate(itertools.chain(batches, [None])):
            has = np.array([batch is not None], np.float64)
            self.transport.all_reduce_(has)
            if has[0] not in (0, self.transport.world_size):
                course = f"ends after batch {number}" if batch is None else f"has a batch {number + 1}"
                action = "Give all ranks the same batches"
                check_equal(self.transport, {"another number of batches: the stream": Subject(course, action)})
            if batch is not None:
                yield batch

    # A step ----------------------------------------------------------------------------------------------------------

    @property
    def readers(self) -> Transport | None:
        """Between the ranks that open data together; None where this one reads alone."""
        is_alone = not self.are_many or (getattr(self, "step", None) is not None and self.step.is_alone)
        return None if is_alone else self.transport

    def source(self, source: Rows | Stream) -> Rows | Stream:
        """This rank's parts of what is trained on."""
        return _Parts(source, self._row, self.axes, self._together) if self.are_many else source

    def feed(self, batch: Batch) -> None:
        """Say which part of the whole batch is fed next. Where the user cuts batches, ranks tell each other their sizes."""
        if not self.are_many:
            return
        if isinstance(batch, PartBatch):
            self.part = batch.part
        else:
            self.part = self._gathered(examples_of(batch, self.axes))

    def _gathered(self, count: int) -> Part:
        """The part of a row whose ranks are each given the same examples, of this number

        Raises:
            TrainingError: on all ranks, if those of a row have another number.
        """
        sizes = gathered_sizes(self.transport, count)
        stages = self.strategy.pipeline
        firsts = np.repeat(sizes[::stages], stages)
        for rank in np.flatnonzero(sizes != firsts)[:1]:
            ranks = f"rank {rank} of {self.transport.world_size} has {sizes[rank]} examples, and rank {rank - rank % stages}"
            message = f"{ranks}, the first stage of its row, {firsts[rank]}"
            raise TrainingError(f"{message}. Give all ranks of a row the same batch.")
        rows = sizes[::stages]
        return Part(int(rows[: self._row.rank].sum()), count, whole=int(rows.sum()))

    def begin(self, executor: Executor, feed: Batch, fetches: list[Variable]) -> None:
        """Before the first step, which may be undone where this is not: make sure that all ranks train the same, from one state."""
        if self.are_many:
            self.step.begin(executor, feed, fetches, self.part)

    def rehearse(self, executor: Executor, feed: Batch, fetches: list[Variable]) -> None:
        """Compute the gradients of a step on this rank alone, as far as no other is asked; nothing is kept."""
        self.step.rehearse(executor, feed, fetches, self.part)

    def run(self, executor: Executor, feed: Batch, fetches: list[Variable], number: int) -> list[Any]:
        """A step, or the gradients of one that ``step.apply`` ends; all ranks have taken the same ``number`` of steps before."""
        return self.step.compute(executor, feed, fetches, self.part, number)

    def means(
        self, values: dict[str, Any], interrupt: Interrupt, loss_weight: float | None, weighs_whole: bool = False
    ) -> tuple[Row, dict[str, float]]:
        """Means of metrics over the whole batch, and what they count; ranks also agree here whether the run is to be interrupted.

        Args:
            values: of this rank's part, by name.
            interrupt: of this rank, which is told what the others want.
            loss_weight: what the loss of this part counts; what it counts in all is given back as ``loss``. None for examples.
            weighs_whole: whether that is what it counts in all already.
        """
        arrays = {name: np.asarray(value) for name, value in values.items()}
        if not self.are_many:
            weights = {name: float(array.size) for name, array in arrays.items()}
            row = {name: float(np.mean(array)) if array.size else 0.0 for name, array in arrays.items()}
            return row, weights if loss_weight is None else {**weights, "loss": loss_weight}
        counts = self.part is None or self.part.counts
        sums = [[np.sum(array, dtype=np.float64), array.size] if counts else [0.0, 0] for array in arrays.values()]
        table = np.array([*sums, [interrupt.requested, interrupt.by_scheduler]], np.float64)
        self.transport.all_reduce_(table.reshape(-1))
        interrupt.agreed = (bool(table[-1, 0]), bool(table[-1, 1]))
        weights = {name: float(count) for name, (_, count) in zip(arrays, table, strict=False)}
        row = {name: float(total / count) if count else 0.0 for name, (total, count) in zip(arrays, table, strict=False)}
        weight = self.step.weight
        if weight is None or (loss_weight is None and self.strategy.pipeline == 1):  # a pipeline knows the weight by itself
            return row, weights
        return row, {**weights, "loss": weight if loss_weight is None or not weighs_whole else loss_weight}

    def total(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The sums over all ranks of some numbers of each, in float64."""
        if self.are_many:
            self.transport.all_reduce_(values)
        return values

    def of_first(self, number: int) -> int:
        """The number that the first rank gives."""
        if not self.are_many:
            return number
        held = np.array([number], np.int64)
        self.transport.broadcast_(held)
        return int(held[0])

    def largest(self, numbers: Sequence[float]) -> list[float]:
        """Of each number the largest that any rank gives."""
        table = np.array(numbers, np.float64)
        if self.are_many:
            self.transport.all_reduce_(table, "max")
        largest: list[float] = table.tolist()
        return largest

    def first_reason(self, reason: str) -> str:
        """The reason of the first rank that has one, with that rank named; empty where none has."""
        if not self.are_many:
            return reason
        own = np.frombuffer(reason.encode(), np.uint8).copy()
        sizes = gathered_sizes(self.transport, len(own))
        ranks = np.flatnonzero(sizes)
        if not len(ranks):
            return ""
        first = int(ranks[0])
        buffer = own if first == self.transport.rank else np.empty(int(sizes[first]), np.uint8)
        self.transport.broadcast_(buffer, first)
        return f"on rank {first} of {self.transport.world_size} {buffer.tobytes().decode()}"

    def any(self, answer: bool) -> bool:
        """Return whether any rank answers True."""
        if not self.are_many:
            return answer
        flag = np.array([answer], np.uint8)
        self.transport.all_reduce_(flag, "max")
        return bool(flag[0])

    # Evaluation and files --------------------------------------------------------------------------------------------

    @property
    def _are_together(self) -> bool:
        """Whether others evaluate with this rank, as they do not where a callback asks for it."""
        return self.are_many and not self.step.is_alone

    def shard(self, source: Rows | Stream, batch_size: int) -> Iterator[Batch]:
        """Every so many-th batch in the order of the data, as a whole, so that its means are what one process finds; all of them on
        a rank that is alone. Of rows that can be read by number, those of other ranks are not read.

        Args:
            source: what is evaluated.
            batch_size: examples in a batch.
        """
        if not self._are_together:
            return source.batches(batch_size, shuffle=False)
        own = slice(self.transport.rank, None, self.transport.world_size)
        if isinstance(source, Rows):
            numbers = itertools.islice(source.numbers(batch_size, shuffle=False), own.start, None, own.step)
            return (source.take(chosen, (0, 0)) for chosen in numbers)
        return source.decoded(itertools.islice(source.undecoded(batch_size, shuffle=False), own.start, None, own.step))

    @contextmanager
    def rank0_only(self) -> Iterator[None]:
        """While this rank does something that others do not."""
        self.step.is_alone = True
        try:
            yield
        finally:
            self.step.is_alone = False

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """With the state of all ranks on each."""
        self.step.gather(everywhere=True)
        yield
        self.step.forget()

    def reduce_means(self, means: Means, names: Sequence[str]) -> Means:
        """Means of these names over what all ranks have seen, of which some may have seen nothing."""
        if not self._are_together:
            return means
        totals = [means.totals.get(name, 0.0) for name in names]
        weights = [means.weights.get(name, means.count) if name in means.totals else 0.0 for name in names]
        table = np.array([*totals, *weights, means.count], np.float64)
        self.transport.all_reduce_(table)
        *sums, count = table.tolist()
        totals, weights = sums[: len(names)], sums[len(names) :]
        return Means(dict(zip(names, totals, strict=True)), round(count), dict(zip(names, weights, strict=True)))

    def gathered_on_first(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> list[dict[str, np.ndarray[Any, Any]]]:
        """Gather the arrays of all ranks on rank 0, in the order of ranks, which may have other names, shapes and dtypes on each.

        The other ranks get an empty list.
        """
        if not self._are_together:
            return [dict(arrays)]
        file = io.BytesIO()
        np.savez(file, **arrays)  # type: ignore[arg-type]
        own = np.frombuffer(file.getvalue(), np.uint8)
        gathered = [dict(arrays)] if self.is_first else []
        for rank, size in enumerate(gathered_sizes(self.transport, len(own))):
            received = self._sent_to_first(own, rank, size) if rank else None
            if received is not None:
                with np.load(io.BytesIO(received.tobytes()), allow_pickle=False) as loaded:
                    gathered.append({name: loaded[name] for name in loaded.files})
        return gathered

    def _sent_to_first(self, own: np.ndarray[Any, Any], rank: int, size: int) -> np.ndarray[Any, Any] | None:
        """On rank 0 what a rank sends there; None on others"""
        transport: Any = self.transport
        is_sender = rank == transport.rank
        buffer = own.copy() if is_sender else np.empty(size if self.is_first else 0, np.uint8)
        # A watch takes any transport for one that can send.
        if not hasattr(getattr(transport, "transport", transport), "send"):
            buffer = buffer if is_sender or self.is_first else np.empty(size, np.uint8)
            transport.broadcast_(buffer, rank)
        elif is_sender:
            transport.send(buffer, 0)
        elif self.is_first:
            transport.receive_(buffer, rank)
        return buffer if self.is_first else None

    def from_first(self, compute: Callable[[], Mapping[str, float]]) -> dict[str, float]:
        """Numbers by name that rank 0 computes alone, and all get.

        Raises:
            OnnxGradError: on all ranks, what it raises.
        """
        if not self._are_together:
            return dict(compute())
        answer: dict[str, Any] = {}
        if self.is_first:
            try:
                answer = {"values": {name: float(value) for name, value in compute().items()}}
            except OnnxGradError as error:
                answer = {"error": type(error).__name__, "message": str(error)}
        message = np.frombuffer(json.dumps(answer).encode(), np.uint8).copy()
        size = self.of_first(len(message))
        message = message if self.is_first else np.empty(size, np.uint8)
        self.transport.broadcast_(message)
        answer = json.loads(message.tobytes())
        if "error" in answer:
            raise getattr(errors, answer["error"], TrainingError)(answer["message"])
        return dict(answer["values"])

    def folder(self, out: str | Path | RunFolder | None, keep: int) -> AbstractContextManager[RunFolder | None]:
        """The folder of a run, which rank 0 alone writes to."""
        if out is None or isinstance(out, RunFolder):
            return nullcontext(out)
        return RunFolder(out, keep) if self.is_first else _Unwritten(out, keep)


def ranks_of(distributed: bool | Strategy | None) -> Ranks:
    """The ranks that ``Trainer(distributed=)`` asks for.

    Raises:
        ArgumentTypeError: if it is neither a truth value nor a Strategy.
    """
    if distributed is not None and not isinstance(distributed, (bool, Strategy)):
        raise ArgumentTypeError(f"distributed is True, False or a Strategy, not {type(distributed).__name__}.")
    if not distributed:
        return Ranks(Alone(), Strategy())
    transport = current()
    if transport.world_size == 1:
        transport = init()
    return Ranks(transport, distributed if isinstance(distributed, Strategy) else Strategy())

"""Columns of sounds: a path in each cell, read and cut into windows when their batch is built.

Tests: tests/training/data/test_sounds.py, tests/training/data/test_fronts.py.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.internal.words import SoundJoin
from onnxgrad.training.data.fronts import Fronts
from onnxgrad.training.data.kinds.column import (
    Cells,
    Column,
    ColumnParts,
    LazyColumn,
    Reading,
    are_names,
    are_numbers,
    contradiction,
    is_whole,
)
from onnxgrad.training.data.kinds.picture import named_files
from onnxgrad.training.data.rows import Batch
from onnxgrad.training.data.sound_files import is_sound, length_of, rate_of, samples_of
from onnxgrad.training.surgery.streams import KEY as STREAM, states_of

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["JOINS", "LazySounds", "SoundColumn", "check_states", "sound_input", "sounds_of"]

Array = np.ndarray[Any, Any]
JOINS = get_args(SoundJoin)
_KEYS = ("sample_rate", "sampling_rate", "samplerate", "rate")
"""Where exporters write the rate into the metadata of a file."""
_LOOKED_AT, _LONGEST = 1000, 10.0
"""Files whose rate and length are looked at, and the seconds of a window that a guess gives at most."""


@dataclass(frozen=True)
class SoundColumn(Column):
    """The path of a sound in each cell.

    Attributes:
        rate: samples in a second.
        length: samples of a window.
        hop: samples from one window of a long sound to the next, where it is judged.
        join: ``"mean"`` or ``"max"``: what stands for the windows of one sound.
        full: value of the loudest sample that a file can hold.
        fronts: names of the files of the feature extractors that a window runs through.
        front_sha256: of these files.
        front_hops: steps from one of the windows of each to the next.
        chunk: samples of a chunk of a stream, of a model that was unrolled (``training.unroll``); 0 for other models.
        context: samples before a chunk that the model reads again with it.
        states: ``"input=output"`` for each state of such a model.
    """

    rate: int = 16_000
    length: int = 16_000
    hop: int = 8_000
    join: str = JOINS[0]
    full: float = 1.0
    fronts: tuple[str, ...] = ()
    front_sha256: tuple[str, ...] = ()
    front_hops: tuple[int, ...] = ()
    chunk: int = 0
    context: int = 0
    states: tuple[str, ...] = ()

    kind: ClassVar[str] = "sound"
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {
        "rate": is_whole,
        "length": is_whole,
        "hop": is_whole,
        "join": lambda v: v in JOINS,
        "full": lambda v: are_numbers([v]) and v > 0,
        "fronts": are_names,
        "front_sha256": are_names,
        "chunk": lambda v: v == 0 or is_whole(v),
        "context": lambda v: v == 0 or is_whole(v),
        "states": are_names,
        "front_hops": lambda v: isinstance(v, (list, tuple)) and all(map(is_whole, v)),
    }

    @classmethod
    def recognises(cls, cells: Sequence[Any]) -> bool:
        return all(map(is_sound, cells))

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> SoundColumn:
        (part,) = cells.values
        return sounds_of(named_files(cells, part), name, (part,), wanted, reading, known, remarks, cells.where)

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        (part,) = self.parts
        return {name: LazySounds(named_files(cells, part), name, self, wanted, reading)}

    @property
    def seconds(self) -> float:
        """The length of a window in seconds."""
        return self.length / self.rate

    def shaped(self, window: Array, v: Variable | None) -> Array:
        """A window, or its features, with the axes of the input behind that of the batch.

        Raises:
            DataError: if the input takes something else.
        """
        if self.chunk:
            padded = np.pad(window, (self.context, 0))
            window = np.lib.stride_tricks.sliding_window_view(padded, self.chunk + self.context)[:: self.chunk]
        dims = None if v is None or v.dims is None else list(v.dims[1:])
        if dims is None or _fits(dims, window.shape):
            return window
        sizes, plain = [size for size in window.shape if size != 1], [dim for dim in dims if dim != 1]
        if _fits(plain, sizes):
            rest = iter(sizes)
            return window.reshape([1 if dim == 1 else next(rest) for dim in dims])
        if _fits(dims, [window.size]):
            return window.reshape(-1)
        given = f"a window of {self.length:,} samples ({self.seconds:g} s at {self.rate:,} Hz)"
        if self.chunk:
            given = f"chunks of {self.chunk:,} samples and {self.context:,} before them"
        if self.fronts:
            given = f"the output of {self.fronts[-1]} for {given}, {list(window.shape)}"
        assert v is not None
        raise DataError(
            f"the input {v.name!r} takes {['batch', *(dim if isinstance(dim, int) else 'any' for dim in dims)]}, which {given} "
            f"{'are not. Give others (--chunk)' if self.chunk else 'is not. Give windows of another length (--sound-length)'}"
            f"{', or other feature extractors (--front)' if self.fronts else ''}."
        )


def _fits(dims: Sequence[Any], sizes: Sequence[int]) -> bool:
    return len(dims) == len(sizes) and all(not isinstance(d, int) or d == s for d, s in zip(dims, sizes, strict=True))


def sound_input(wanted: DataSpec) -> Variable:
    """The input that takes sounds: the only one of numbers that nothing else is known to go into.

    Raises:
        DataError: if there is none, or several.
    """
    check_states(wanted)
    inputs = sound_inputs(wanted)
    if len(inputs) != 1:
        names = [name for name in wanted.names if name not in wanted.targets]
        raise DataError(f"sounds go into one input of numbers, [batch, samples] or features; the model takes {names}. Give arrays.")
    return inputs[0]


def check_states(wanted: DataSpec) -> None:
    """Raise ArgumentError if the model is one of a stream that was not unrolled."""
    states = {} if wanted.program is None else states_of(wanted.program)
    if states:
        start, end = next(iter(states.items()))
        raise ArgumentError(
            f"the model reads a stream: {start!r} gets {end!r} of the call before. Give the samples of a chunk (--chunk; "
            "training.unroll)."
        )


def sound_inputs(wanted: DataSpec) -> list[Variable]:
    """The inputs that may take sounds: of numbers, and with an axis besides that of the batch."""
    variables = [wanted.variables.get(name) for name in wanted.names if name not in wanted.targets]
    return [v for v in variables if v is not None and v.is_float and (v.dims is None or len(v.dims) > 1)]


def sounds_of(
    files: Sequence[Path],
    name: str,
    parts: tuple[str, ...],
    wanted: DataSpec,
    reading: Reading,
    known: Column | None,
    remarks: list[str],
    where: str,
) -> SoundColumn:
    """Find out how a model takes sounds, of which these are the files."""
    recorded, said = known if isinstance(known, SoundColumn) else None, reading.sound
    fronts: Fronts = said.fronts or Fronts()
    v = wanted.variables.get(name)
    if recorded is not None:
        _check_recorded(recorded, said.rate, fronts, where)
    rate, why = _rate(said.rate, recorded, wanted, files, where)
    full = said.full or (1.0 if recorded is None else recorded.full)
    samples, why_length = _length(said.length, recorded, v, bool(fronts), files, rate)
    hop = round(said.hop * rate) if said.hop is not None else recorded.hop if recorded is not None else max(1, samples // 2)
    join = said.join or (JOINS[0] if recorded is None else recorded.join)
    if hop < 1 or samples < 1:
        raise ArgumentError(f"a window has {samples} samples at {rate:,} Hz, and the next is {hop} further. Give longer times.")
    chunk, context, states = _stream(said.chunk, recorded, wanted)
    if chunk:
        samples = -(-samples // chunk) * chunk
    column = SoundColumn(
        parts, rate, samples, hop, join, float(full), fronts.names, fronts.digests, fronts.hops, chunk, context, states
    )
    window = np.zeros(samples, np.float32)
    features = fronts(window, rate) if fronts else window
    shape = column.shaped(features, v).shape
    what = f"features {list(shape)} of {' and '.join(column.fronts)}" if fronts else "samples"
    remarks.append(
        f"sounds become {what} in {name!r}: windows of {column.seconds:g} s ({why_length}) at {rate:,} Hz ({why}), one channel, "
        f"values from {-full:g} to {full:g}."
    )
    longer = sum(length_of(file, rate) > samples for file in files[:_LOOKED_AT])
    if longer:
        judged = f"judging the {join} of windows every {hop / rate:g} s (--sound-hop, --sound-join)"
        judged = "judging needs longer windows (--sound-length)" if chunk else judged
        remarks.append(
            f"{longer} of {len(files[:_LOOKED_AT])} sounds are longer than a window: training takes a random one of each in each "
            f"epoch, {judged}."
        )
    return column


def _stream(said: tuple[int, int] | None, recorded: SoundColumn | None, wanted: DataSpec) -> tuple[int, int, tuple[str, ...]]:
    """Samples of a chunk, those before it that are read again, and the states of a model that was unrolled"""
    text = None if wanted.program is None else wanted.program.metadata.get(STREAM)
    if text is None:
        if said is not None:
            raise ArgumentError("chunks are for a model with states that was unrolled (training.unroll). Leave them out.")
        return 0, 0, ()
    states = tuple(f"{start}={end}" for start, end in json.loads(text)["states"].items())
    if said is None and recorded is not None and recorded.chunk:
        return recorded.chunk, recorded.context, states
    if said is None:
        raise ArgumentError("the model reads a stream. Give the samples of a chunk (--chunk).")
    if said[0] < 1 or said[1] < 0:
        raise ArgumentError(f"a chunk has a sample at least, and some or none before it, not {list(said)}.")
    return said[0], said[1], states


def _check_recorded(recorded: SoundColumn, rate: int | None, fronts: Fronts, where: str) -> None:
    if rate is not None and rate != recorded.rate:
        advice = "Leave the rate out (--sound-rate), as sounds are resampled, or ignore the record (--ignore-record)."
        raise contradiction(where, f"sounds of {recorded.rate:,} Hz", f"given as {rate:,} Hz", advice)
    then = list(zip(recorded.fronts, recorded.front_sha256, recorded.front_hops, strict=False))
    now = list(zip(fronts.names, fronts.digests, fronts.hops, strict=True))
    if [entry[1:] for entry in then] != [entry[1:] for entry in now]:
        raise contradiction(where, _listed(then), f"read with {_listed(now)}", "Name these files (--front), in this order.")


def _listed(fronts: Sequence[tuple[str, str, int]]) -> str:
    listed = [f"{name} (sha256 {digest[:12]}, hop {hop})" for name, digest, hop in fronts]
    return "the feature extractors " + " and ".join(listed) if listed else "no feature extractor"


def _rate(said: int | None, recorded: SoundColumn | None, wanted: DataSpec, files: Sequence[Path], where: str) -> tuple[int, str]:
    """Samples in a second, and why"""
    if recorded is not None:
        return recorded.rate, "as trained"
    if said is not None:
        if said < 1:
            raise ArgumentError(f"a sample rate is an integer of at least 1 Hz, not {said}.")
        return said, "as given"
    metadata = {} if wanted.program is None else wanted.program.metadata
    value = next((metadata[key] for key in _KEYS if metadata.get(key, "").isdecimal()), None)
    if value is not None and int(value) > 0:
        return int(value), "as the model's file says"
    rates = sorted({rate_of(file) for file in files[:_LOOKED_AT]})
    if len(rates) > 1:
        shown = ", ".join(f"{rate:,}" for rate in rates[:4])
        raise DataError(
            f"{where!r} holds sounds of {shown} Hz, and the sample rate of the model is not known. Give it (--sound-rate)."
        )
    return rates[0], "the files' rate, a guess: see --sound-rate"


def _length(
    said: float | None, recorded: SoundColumn | None, v: Variable | None, has_fronts: bool, files: Sequence[Path], rate: int
) -> tuple[int, str]:
    """Samples of a window, and why"""
    plain = [] if v is None or v.dims is None else [dim for dim in v.dims[1:] if dim != 1]
    fixed = plain[0] if len(plain) == 1 and not has_fronts else None
    if said is not None:
        if not 0 < said < np.inf:
            raise ArgumentError(f"the length of a window is a number of seconds above 0, not {said}.")
        return round(said * rate), "as given"
    if isinstance(fixed, int):
        return fixed, "as the input is"
    if recorded is not None:
        return recorded.length, "as trained"
    longest = max(length_of(file, rate) for file in files[:_LOOKED_AT])
    most = round(_LONGEST * rate)
    return min(longest, most), "the length of the longest file" if longest <= most else "a guess: see --sound-length"


class LazySounds(LazyColumn):
    """Sounds of files in windows of one length, as a model takes them.

    In training, a long sound shows a window at a random place, and what is short is followed by silence; without random changes
    the window is in the middle.
    """

    def __init__(self, files: Sequence[Path], name: str, column: SoundColumn, wanted: DataSpec, reading: Reading) -> None:
        self.files, self.name, self.column = list(files), name, column
        self.v = wanted.variables.get(name)
        self.fronts: Fronts = reading.sound.fronts or Fronts()
        self.changes, self.is_plain = reading.sound.changes, False

    def example(self, row: int, epoch: tuple[int, int] | None) -> Batch:
        rng = self.generator(row, epoch)
        samples = samples_of(self.files[row], self.column.rate)
        window = _window(samples, self.start(row, rng), self.column.length)
        if rng is not None:
            window = self.changes.with_noise(window, self.column.rate, rng)
        return {self.name: self.prepared(window)}

    def generator(self, row: int, epoch: tuple[int, int] | None) -> np.random.Generator | None:
        """What draws the window of a sound in an epoch, and then its noise; None where nothing is random."""
        return None if epoch is None or self.is_plain else np.random.default_rng([*epoch, row])

    def start(self, row: int, rng: np.random.Generator | None) -> int:
        """The sample at which the window of a sound begins; ``rng`` draws it, None for the one in the middle."""
        beyond = length_of(self.files[row], self.column.rate) - self.column.length
        if rng is None:
            return max(0, beyond) // 2
        return int(rng.integers(max(0, beyond) + 1)) - self.changes.moved(self.column.rate, -beyond, rng)

    def prepared(self, window: Array) -> Array:
        """A window of samples from -1 to 1 as the model takes it."""
        scaled = window if self.column.full == 1.0 else window * np.float32(self.column.full)
        features = self.fronts(scaled, self.column.rate) if self.fronts else scaled
        shaped = self.column.shaped(features, self.v)
        return shaped if self.v is None else shaped.astype(self.v.dtype.numpy)

    def parts(self) -> ColumnParts | None:
        rate, length, hop = self.column.rate, self.column.length, self.column.hop
        lengths = [length_of(file, rate) for file in self.files]
        if self.column.chunk:
            longest = int(np.argmax(lengths))
            if lengths[longest] > length:
                raise DataError(
                    f"{str(self.files[longest])!r} is {lengths[longest] / rate:.4g} s long, and a stream is judged as a whole, not "
                    f"by windows of {length / rate:.4g} s. Give longer windows (--sound-length)."
                )
            return None
        counts = [1 + max(0, -(-(samples - length) // hop)) for samples in lengths]
        example = np.repeat(np.arange(len(counts)), counts)
        start = np.concatenate([hop * np.arange(count) for count in counts]) if counts else np.zeros(0, np.int64)
        windows = _LazyWindows(self, example, start)
        return ColumnParts(windows, example, start / rate, np.asarray(lengths) / rate, self.column.join)

    def file(self, row: int) -> Path | None:
        return self.files[row]

    def plain(self) -> LazySounds:
        sounds = copy.copy(self)
        sounds.is_plain = True
        return sounds

    @property
    def settings(self) -> Sequence[object]:
        return [self.column, self.changes, self.is_plain]


class _LazyWindows(LazyColumn):
    """Windows of sounds by number."""

    def __init__(self, sounds: LazySounds, sound: Array, start: Array) -> None:
        self.sounds, self.sound, self.start = sounds, sound, start

    def example(self, row: int, epoch: tuple[int, int] | None) -> Batch:
        column = self.sounds.column
        samples = samples_of(self.sounds.files[int(self.sound[row])], column.rate)
        return {self.sounds.name: self.sounds.prepared(_window(samples, int(self.start[row]), column.length))}

    def file(self, row: int) -> Path | None:
        return self.sounds.files[int(self.sound[row])]


def _window(samples: Array, start: int, length: int) -> Array:
    """Samples from a start on, which may be before the first; silence is around them"""
    if start >= 0 and start + length <= len(samples):
        return samples[start : start + length]
    window = np.zeros(length, np.float32)
    first, last = max(0, start), min(len(samples), start + length)
    if first < last:
        window[first - start : last - start] = samples[first:last]
    return window

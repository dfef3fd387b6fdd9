"""Folders and tables of sounds, through soundfile.

Tests: tests/training/data/test_sounds.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.changes import SoundChanges
from onnxgrad.training.data.columns import reads_labels
from onnxgrad.training.data.fronts import FrontFile, Fronts
from onnxgrad.training.data.kinds.column import Reading, SoundReading
from onnxgrad.training.data.kinds.sound import JOINS, LazySounds, sound_input, sounds_of
from onnxgrad.training.data.kinds.words import WordsColumn, classes_line
from onnxgrad.training.data.lazy_rows import LazyRows
from onnxgrad.training.data.readers import filled_cells, reader_of
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.data.sound_files import SUFFIXES, is_sound, sounds_in
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import SEPARATORS, Table

__all__ = ["Sounds", "is_sound_table"]


class Sounds:
    """Sounds and their answers: a class, numbers or several labels.

    A folder has a sub-folder for each class; a table (see ``Table``) a column of paths, relative to it, and one of answers.
    Files are those that libsndfile reads: .wav, .flac, .ogg, .mp3 and others. They are mixed to one channel, resampled to the
    model's rate and cut into windows: shorter ones are followed by silence, of longer ones training reads a random window in each
    epoch, and what judges reads them all. Rate, windows and feature extractors are those that the model was trained with;
    ``remarks`` of what is opened say what was guessed.

    Args:
        path: the folder, table or file.
        rate: samples in a second, as the model takes them; None for what its file says, else that of the sounds.
        length: seconds of a window, where the model leaves them open; None for those of the longest sound, 10 at most.
        hop: seconds from one window of a long sound to the next, where it is judged; None for half a window.
        join: ``"mean"`` or ``"max"``: what stands for the windows of one sound where it is judged; None for ``"mean"``.
        full: value of the loudest sample that a file can hold, as the model takes it: None for 1; 32768 for samples of 16 bits.
        fronts: feature extractors (.onnx) that each window runs through before the model; of one that takes a fixed number of
            steps, (path, hop) says how many steps its windows are apart.
        chunk: of a model of a stream that was unrolled (``training.unroll``): samples of a chunk, and how many before them it
            reads again, such as (512, 64).
        noise: a folder of sounds, or one, of which a random part is added in training.
        snr: the ratio of sound to noise in dB, from and to.
        shift: seconds by which sounds are moved at most, in training; what is shorter than a window, to the right and within it.
        columns, fill, decimal: of a table: see ``Table``.

    Raises:
        ArgumentError: if a number makes no sense, or there is no such ``join``.
        DataError: if the folder of noise holds no sounds.
        ModelError: if a feature extractor cannot be read.

    Example:
        >>> trainer.fit(Sounds("words/", rate=16000, noise="noise/", shift=0.1), epochs=3, validation=0.1)  # doctest: +SKIP
    """

    @checked
    def __init__(
        self,
        path: str | Path,
        *,
        rate: int | None = None,
        length: float | None = None,
        hop: float | None = None,
        join: Literal["mean", "max"] | None = None,
        full: float | None = None,
        fronts: Sequence[str | Path | tuple[str | Path, int | None]] = (),
        chunk: Sequence[int] | None = None,
        noise: str | Path | None = None,
        snr: Sequence[float] = (0.0, 20.0),
        shift: float = 0.0,
        columns: Mapping[str, Sequence[str]] | None = None,
        fill: str | float | None = None,
        decimal: str | None = None,
    ) -> None:
        if join is not None and join not in JOINS:
            raise ArgumentError(f"the windows of a sound are joined by one of {', '.join(JOINS)}, not {join!r}.")
        if full is not None and not 0 < full < np.inf:
            raise ArgumentError(f"the value of the loudest sample is above 0, not {full}.")
        if len(snr) != 2:
            raise ArgumentError(f"the ratio of sound to noise is a range in dB, such as 0 20, not {list(snr)}.")
        self.path = Path(path)
        files = [FrontFile(Path(f)) if isinstance(f, (str, Path)) else FrontFile(Path(f[0]), f[1]) for f in fronts]
        changes = SoundChanges(() if noise is None else _noise_at(Path(noise)), (float(snr[0]), float(snr[1])), float(shift))
        if chunk is not None and not 0 < len(chunk) < 3:
            raise ArgumentError(f"a chunk is its samples, and how many before them are read again, not {list(chunk)}.")
        samples = None if chunk is None else (int(chunk[0]), int(chunk[1]) if len(chunk) > 1 else 0)
        sound = SoundReading(rate, length, hop, join, full, Fronts(files), samples, changes)
        self.reading = Reading(columns=columns or {}, fill=fill, decimal=decimal, sound=sound)

    def plain(self) -> Sounds:
        """The same sounds without random changes."""
        sounds = Sounds(self.path)
        sounds.reading = replace(self.reading, sound=replace(self.reading.sound, changes=SoundChanges()))
        return sounds

    def opened(self, wanted: DataSpec) -> Rows | Stream:
        """The data for a program.

        Args:
            wanted: the columns that the program wants.

        Raises:
            DataError: if there are no sounds, a file is missing, or the model does not take them.
            OnnxGradError: if soundfile is missing.
        """
        path = self.path
        if path.is_dir():
            tables = sorted(file for file in path.iterdir() if file.suffix in SEPARATORS)
            if len(tables) == 1 and is_sound_table(tables[0]):
                path = tables[0]
        if path.is_dir():
            return self._from_folder(path, wanted)
        if not path.is_file():
            raise DataError(f"there is no file or folder {str(path)!r}.")
        if is_sound(path.name):
            target = next((name for name in wanted.names if name in wanted.targets), None)
            if target is not None:
                raise DataError(f"{str(path)!r} is one sound, without {target!r}. Give a folder or a table.")
            return self._rows([path], {}, {}, wanted)
        table = Table(path)
        table.reading = self.reading
        rows = table.opened(wanted)
        line = self.reading.sound.changes.line()
        rows.remarks = [*rows.remarks, *([] if line is None else [line])]
        return rows

    def _from_folder(self, path: Path, wanted: DataSpec) -> Rows:
        target = next((name for name in wanted.names if name in wanted.targets), None)
        if target is None:
            files = sorted(sounds_in(path))
            if not files:
                raise DataError(f"the folder {str(path)!r} holds no sounds ({', '.join(SUFFIXES)}).")
            return self._rows(files, {}, {}, wanted)
        files_by_class = {entry.name: sorted(sounds_in(entry)) for entry in sorted(path.iterdir()) if entry.is_dir()}
        classes = list(wanted.record.classes.get(target) or [name for name, files in files_by_class.items() if files])
        unknown = sorted(name for name, files in files_by_class.items() if files and name not in classes)
        if unknown:
            known = ", ".join(classes[:10])
            raise DataError(f"the sub-folder {unknown[0]!r} of {str(path)!r} is not a class of the training data: {known}.")
        listed = [(file, number) for number, name in enumerate(classes) for file in files_by_class.get(name, ())]
        if not listed or len(classes) == 1:
            held = "no sub-folders" if not listed else f"one sub-folder, {classes[0]!r},"
            raise DataError(
                f"{str(path)!r} holds {held} with sounds. Make one for each class, or give a table of paths and labels."
            )
        labels: Any = np.array([number for _, number in listed], np.int64)
        if reads_labels(wanted, target):
            labels = (labels[:, None] == np.arange(len(classes))).astype(np.float32)
        words = {target: WordsColumn((), tuple(classes))}
        return self._rows([file for file, _ in listed], {target: labels}, words, wanted)

    def _rows(self, files: Sequence[Path], answers: Mapping[str, Any], columns: Mapping[str, Any], wanted: DataSpec) -> Rows:
        """Sounds, with answers beside them"""
        v, where = sound_input(wanted), self.path.name
        missing = [name for name in wanted.names if name != v.name and name not in answers]
        if missing:
            raise DataError(f"{where!r} gives sounds for {v.name!r}, but {missing[0]!r} is wanted too. Give a table, or arrays.")
        remarks: list[str] = []
        known = wanted.record.columns.get(v.name)
        column = sounds_of(files, v.name, (), wanted, self.reading, known, remarks, where)
        sounds = LazySounds(files, v.name, column, wanted, self.reading)
        rows = LazyRows({v.name: sounds}, dict(answers), len(files))
        rows.record = DataRecord({v.name: column, **columns})
        lines = [classes_line(name, classes) for name, classes in DataRecord(columns).classes.items()]
        line = self.reading.sound.changes.line()
        rows.remarks = [*remarks, *lines, *([] if line is None else [line])]
        return rows


def is_sound_table(path: Path) -> bool:
    """Whether a table lists files of sounds."""
    try:
        head = reader_of(path).head()
    except OnnxGradError:
        return False
    filled = [filled_cells(cells) for cells in head.values()]
    return any(cells and all(map(is_sound, cells)) for cells in filled)


def _noise_at(path: Path) -> tuple[Path, ...]:
    if path.is_file() and is_sound(path.name):
        return (path,)
    files = tuple(sorted(sounds_in(path))) if path.is_dir() else ()
    if not files:
        raise DataError(f"{str(path)!r} holds no sounds to take as noise ({', '.join(SUFFIXES)}). Name a folder of them.")
    return files

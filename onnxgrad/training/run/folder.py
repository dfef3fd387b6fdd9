"""The folder of a run: its lock, its history as CSV and JSON lines, and its checkpoints.

Everything is written under a temporary name and renamed, so a process that is killed leaves the previous state behind.

Tests: tests/training/test_checkpoints.py.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnxgrad.errors import FileError, TrainingError
from onnxgrad.internal.files import is_file, write_whole
from onnxgrad.training.run.checkpoint import drop_shares
from onnxgrad.training.run.lock import lock, release

__all__ = ["RunFolder", "write_atomically"]

LAST, BEST = "last.safetensors", "best.safetensors"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it."""
    try:
        write_whole(path, data)
    except FileError as error:
        raise TrainingError(f"{error} The old file is unchanged.") from error


class RunFolder:
    """Files of one training run; inside a ``with`` block no other process or thread can use it.

    Raises:
        TrainingError: if somebody else trains in it, or it cannot be made.
    """

    def __init__(self, path: str | Path, keep: int = 3) -> None:
        self.path = Path(path)
        self.keep = keep
        self._file: Any = None

    def __enter__(self) -> RunFolder:
        with _typed(self.path, "Choose a folder that you may write to", "the folder "):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / "run.lock").open("a+")
        try:
            lock(file, self.path)
            with _typed(self.path, "Choose a folder that you may write to"):
                for left in self.path.glob(".*.partial"):
                    left.unlink(missing_ok=True)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def __exit__(self, *error: Any) -> None:
        # The system frees the lock with the file, also when the process is killed.
        release(self._file)

    def check_new(self) -> None:
        """Raise TrainingError if there is a run in the folder already."""
        if (self.path / LAST).exists():
            raise TrainingError(f"{str(self.path)!r} holds a run already. Resume it, or choose another folder.")

    def last(self) -> Path:
        """The newest checkpoint; raises TrainingError if there is none."""
        path = self.path / LAST
        if not is_file(path):
            raise TrainingError(f"there is no {LAST} in {str(self.path)!r}, so nothing to resume. Start without resume.")
        return path

    def checkpoint(self, step: int) -> Path:
        return self.path / f"step-{step:08d}.safetensors"

    def publish(self, path: Path, name: str) -> None:
        """Give a checkpoint a second name, ``last`` or ``best``, in one step."""
        temporary = self.path / f".{name}.{os.getpid()}.partial"
        with _typed(self.path / name, "The old file is unchanged"):
            temporary.unlink(missing_ok=True)
            try:
                os.link(path, temporary)
            except OSError:
                # The file system has no links.
                write_atomically(self.path / name, path.read_bytes())
                return
            os.replace(temporary, self.path / name)

    def drop_old(self) -> None:
        """Keep the newest numbered checkpoints only."""
        numbered = sorted(self.path.glob("step-*.safetensors"))
        for path in numbered[: -self.keep] if self.keep else numbered:
            with _typed(path, "Make the folder writable, or give a larger keep= (--keep)"):
                path.unlink(missing_ok=True)
        drop_shares(self.path, "step-")

    def write_evaluations(self, rows: list[dict[str, Any]]) -> None:
        """``evaluations.jsonl``, one row for each evaluation within an epoch."""
        write_atomically(self.path / "evaluations.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())

    def write_record(self, text: str) -> None:
        """``data.json``, what was found of the data."""
        write_atomically(self.path / "data.json", text.encode())

    def write_history(self, rows: list[dict[str, Any]]) -> None:
        """``history.csv`` and ``history.jsonl``, one row per epoch."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=names)
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path / "history.csv", text.getvalue().encode())
        write_atomically(self.path / "history.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


@contextmanager
def _typed(path: Path, advice: str, what: str = "") -> Iterator[None]:
    """A TrainingError that names the path, for what the system refuses"""
    try:
        yield
    except OSError as error:
        raise TrainingError(f"cannot use {what}{str(path)!r}: {error.strerror or error}. {advice}.") from error

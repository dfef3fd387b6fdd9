"""The folder of a run: its lock, its history as CSV and JSON lines, and its checkpoints.

Everything is written under a temporary name and renamed, so a process that is killed leaves the previous state behind.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from onnxgrad.errors import FileError, TrainingError
from onnxgrad.files import write_whole

__all__ = ["RunFolder", "write_atomically"]

LAST, BEST = "last.safetensors", "best.safetensors"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it."""
    try:
        write_whole(path, data)
    except FileError as error:
        raise TrainingError(f"{error} What was there before is untouched.") from error


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
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / "run.lock").open("a+")
        except OSError as error:
            raise TrainingError(f"cannot use the folder {str(self.path)!r}: {error.strerror or error}.") from error
        if not _locked(file):
            file.close()
            raise TrainingError(f"another process trains in {str(self.path)!r} already. Choose another folder, or wait for it.")
        self._file = file
        for left in self.path.glob(".*.partial"):
            left.unlink(missing_ok=True)
        return self

    def __exit__(self, *error: Any) -> None:
        # The system frees the lock with the file, also when the process is killed.
        self._file.close()

    def check_new(self) -> None:
        """Raise TrainingError if there is a run in the folder already."""
        if (self.path / LAST).exists():
            raise TrainingError(f"{str(self.path)!r} holds a run already. Resume it, or choose another folder.")

    def last(self) -> Path:
        """The newest checkpoint; raises TrainingError if there is none."""
        path = self.path / LAST
        if not path.is_file():
            raise TrainingError(f"there is no {LAST} in {str(self.path)!r}, so nothing to resume. Start without resume.")
        return path

    def checkpoint(self, step: int) -> Path:
        return self.path / f"step-{step:08d}.safetensors"

    def publish(self, path: Path, name: str) -> None:
        """Give a checkpoint a second name, ``last`` or ``best``, in one step."""
        temporary = self.path / f".{name}.{os.getpid()}.partial"
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
            path.unlink(missing_ok=True)

    def write_history(self, rows: list[dict[str, Any]]) -> None:
        """``history.csv`` and ``history.jsonl``, one row per epoch."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=names)
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path / "history.csv", text.getvalue().encode())
        write_atomically(self.path / "history.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


def _locked(file: Any) -> bool:
    """Take the lock of an open file; False if it is taken."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

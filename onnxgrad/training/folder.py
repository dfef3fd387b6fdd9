"""The folder of a run: its lock, its history as CSV and JSON lines, and its checkpoints.

Everything is written under a temporary name and renamed, so a process that is killed leaves the previous state behind.
"""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

from onnxgrad.errors import TrainingError

__all__ = ["RunFolder", "write_atomically"]

LAST, BEST = "last.safetensors", "best.safetensors"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TrainingError(
            f"cannot write {str(path)!r}: {error.strerror or error}. What was there before is untouched."
        ) from error


class RunFolder:
    """Files of one training run; only one process at a time may use it."""

    def __init__(self, path: str | Path, keep: int = 3) -> None:
        self.path = Path(path)
        self.keep = keep
        self._lock = self.path / "run.lock"

    def open(self) -> None:
        """Make the folder and take its lock.

        Raises:
            TrainingError: if another process that is still alive trains in it, or it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            owner = self._owner()
            if owner is not None:
                raise TrainingError(f"process {owner} trains in {str(self.path)!r} already. Choose another folder or wait for it.")
            self._lock.unlink(missing_ok=True)
            with self._lock.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError as error:
            raise TrainingError(f"another process has just begun to train in {str(self.path)!r}. Choose another folder.") from error
        except OSError as error:
            raise TrainingError(f"cannot use the folder {str(self.path)!r}: {error.strerror or error}.") from error

    def _owner(self) -> int | None:
        """The process that holds the lock, if it is alive"""
        try:
            owner = int(self._lock.read_text())
        except (OSError, ValueError):
            return None
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            return owner
        return owner

    def close(self) -> None:
        if self._owner() == os.getpid():
            self._lock.unlink(missing_ok=True)

    def checkpoint(self, step: int) -> Path:
        return self.path / f"step-{step:08d}.safetensors"

    def publish(self, path: Path, name: str) -> None:
        """Give a checkpoint a second name, ``last`` or ``best``, in one step."""
        temporary = self.path / f".{name}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        try:
            os.link(path, temporary)
        except OSError:
            temporary.write_bytes(path.read_bytes())
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

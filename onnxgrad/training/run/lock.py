"""The lock of a run's folder: the system's, which goes with the process; where it has none, the number of that process.

Tests: tests/training/test_faults.py.
"""

from __future__ import annotations

import errno
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnxgrad.errors import TrainingError

__all__ = ["lock", "release"]

_TAKEN = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN, errno.EDEADLK)


def lock(file: Any, folder: Path) -> None:
    """Take the lock of an open file, and write into it who has it.

    Raises:
        TrainingError: if another process, or another run of this one, has it.
    """
    supported = _lock_by_system(file)
    if supported is False or (supported is None and _is_alive(_holder(file))):
        process = _holder(file).partition(" ")[0]
        who = f" (process {process})" if process else ""
        raise TrainingError(f"another process trains in {str(folder)!r} already{who}. Choose another folder, or wait for it.")
    if supported is None and _holder(file).partition(" ")[2] not in ("", platform.node()):
        message = f"process {_holder(file).replace(' ', ' on ')} may train in {str(folder)!r}, whose file system has no locks"
        raise TrainingError(f"{message}. Wait for it, or remove {file.name!r} if it has ended.")
    with suppress(OSError):
        file.truncate(0)
        file.write(f"{os.getpid()} {platform.node()}")
        file.flush()


def release(file: Any) -> None:
    """Free the lock and close the file."""
    with suppress(OSError):
        file.truncate(0)
    file.close()


def _lock_by_system(file: Any) -> bool | None:
    """True if it is ours now, False if it is taken, None if this file system has no locks"""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _TAKEN else None
    return True


def _holder(file: Any) -> str:
    """Process and machine that wrote the file last, and have not released it"""
    try:
        file.seek(0)
        return str(file.read(200)).strip()
    except (OSError, ValueError):
        return ""


def _is_alive(holder: str) -> bool:
    """Whether a process of this machine still runs; one that was killed leaves a number that nobody has"""
    process, _, machine = holder.partition(" ")
    if not process.isdigit() or machine != platform.node():
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

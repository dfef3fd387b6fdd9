"""Count the cores that this process may use: those that it is bound to, and no more than its containers are given time of.

A scheduler binds ranks to some cores of a machine, and a container has a quota of their time; ``os.cpu_count`` knows neither.

Tests: tests/internal/test_processors.py.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["bound_cores", "core_quota", "group_of_process", "usable_cores"]


def usable_cores() -> int:
    """Return how many threads of this process can compute at a time, at least 1.

    Example:
        >>> 1 <= usable_cores() <= os.cpu_count()
        True
    """
    bound, quota = len(bound_cores()), core_quota()
    return bound if quota is None else max(1, min(bound, int(quota)))


def bound_cores() -> set[int]:
    """Return the numbers of the cores that this process is bound to; all where the system binds none."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def core_quota(root: Path = Path("/")) -> float | None:
    """Return how many cores' time the process group of this process (Linux's cgroups, of version 2 or 1) may use; None for any.

    Args:
        root: of the file system.
    """
    quotas = [quota for folder in _folders(root) if (quota := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def group_of_process(root: Path = Path("/")) -> str:
    """Return the path of the process group whose quota this process shares; empty where there are none.

    Args:
        root: of the file system.
    """
    groups = [path for controllers, path in _groups(root) if "cpu" in controllers or not controllers]
    return groups[0] if groups else ""


def _groups(root: Path) -> list[tuple[list[str], str]]:
    """The controllers and the path of each group of this process; version 2 names no controllers"""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    parts = [line.split(":", 2) for line in lines]
    return [(names.split(",") if names else [], path) for _, names, path in (part for part in parts if len(part) == 3)]


def _folders(root: Path) -> list[Path]:
    """The folders of the groups that limit this process, each with those around it"""
    folders: list[Path] = []
    for controllers, path in _groups(root):
        if controllers and "cpu" not in controllers:
            continue
        for mount in ("cpu", "cpu,cpuacct") if controllers else ("", "unified"):
            base = root / "sys/fs/cgroup" / mount
            # A container may see its own folder as the root, under the path that it has outside.
            inner = base / path.lstrip("/")
            folders += [base, *(folder for folder in (inner, *inner.parents) if base in folder.parents)]
    return list(dict.fromkeys(folders))


def _quota_of(folder: Path) -> float | None:
    """What the files of a group say: ``cpu.max`` of version 2, or ``cpu.cfs_quota_us`` of version 1"""
    with suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else float(quota) / float(period)
    with suppress(OSError, ValueError):
        time = float((folder / "cpu.cfs_quota_us").read_text())
        return None if time <= 0 else time / float((folder / "cpu.cfs_period_us").read_text())
    return None

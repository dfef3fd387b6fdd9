"""From losses and seconds to the numbers of the table."""

from __future__ import annotations

import statistics
from itertools import chain

from benchmark_suite.operations import operations
from benchmark_suite.worker import CHECKED, Worker
from benchmark_suite.workloads import Workload


def distance(losses: list[float], expected: list[float]) -> float:
    """How far apart the losses are, relative to how far they move."""
    return max(abs(a - b) for a, b in zip(losses, expected, strict=True)) / (max(expected) - min(expected))


def results(workers: list[Worker], workload: Workload, peak: float) -> dict[str, dict[str, float | None]]:
    """Ratios, the time until the first step is done, memory and share of the peak, by system."""
    of_start = workload.measures_start
    base = next((w for w in workers if w.system == ("torch.compile" if of_start else "torch")), next(iter(workers), None))
    found: dict[str, dict[str, float | None]] = {}
    counted = operations(workload)
    for w in workers:
        assert base is not None
        mine = [[w.start]] if of_start else w.seconds
        theirs = [[base.start]] if of_start else base.seconds
        rounds = [statistics.median(a) / statistics.median(b) for a, b in zip(mine, theirs, strict=True)]
        together = statistics.median(chain(*mine)) / statistics.median(chain(*theirs))
        fastest = min(map(min, mine)) / min(map(min, theirs))
        found[w.system] = {
            "ratio": together,
            "low": min(rounds),
            "middle": statistics.median(rounds),
            "high": max(rounds),
            "fastest": fastest,
            "start": None if of_start else w.start / statistics.median(chain(*theirs)),
            "memory": w.memory,
            "share": rate(w.seconds, counted) / peak if peak and counted and not of_start else None,
        }
    return found


def rate(rounds: list[list[float]], counted: list[int]) -> float:
    """Operations a second of the median step. Each round starts with the feed after those of the checked steps."""
    cycle = len(counted)
    return statistics.median(counted[(CHECKED + i) % cycle] / s for seconds in rounds for i, s in enumerate(seconds))

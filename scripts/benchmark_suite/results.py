"""From losses and seconds to the numbers of the table."""

from __future__ import annotations

import statistics
from itertools import chain

from benchmark_suite.operations import operations
from benchmark_suite.systems import SYSTEMS
from benchmark_suite.worker import CHECKED, Worker
from benchmark_suite.workloads import Workload

FAR = 1.25
"""From which ratio of median and minimum on a row is doubted: undisturbed steps lie within 1.1."""


def distance(losses: list[float], expected: list[float]) -> float:
    """How far apart the losses are, relative to how far they move."""
    return max(abs(a - b) for a, b in zip(losses, expected, strict=True)) / (max(expected) - min(expected))


def results(workers: list[Worker], workload: Workload, peak: float) -> dict[str, dict[str, float | None]]:
    """Ratios, the time until the first step is done, memory and share of the peak, by system."""
    of_start = workload.measures_start
    base = next((w for w in workers if w.system == ("torch.compile" if of_start else "torch")), next(iter(workers), None))
    found: dict[str, dict[str, float | None]] = {}
    best = {is_narrow: best_torch(workers, is_narrow) for is_narrow in (False, True)}
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
            "best": over_best(w, best[SYSTEMS[w.system].bfloat16]),
            "disturbed": disturbed(w.seconds, len(workload.feeds)),
            "start": None if of_start else w.start / statistics.median(chain(*theirs)),
            "memory": w.memory,
            "share": rate(w.seconds, counted) / peak if peak and counted and not of_start else None,
        }
    return found


def best_torch(workers: list[Worker], is_narrow: bool) -> Worker | None:
    """The form of torch whose fastest step takes the least time, of those whose products are in bfloat16, or of the others."""
    forms = [w for w in workers if SYSTEMS[w.system].family == "torch" and SYSTEMS[w.system].bfloat16 == is_narrow and w.seconds]
    return min(forms, key=lambda w: min(map(min, w.seconds)), default=None)


def over_best(worker: Worker, best: Worker | None) -> float | None:
    """The fastest step over that of the best form of torch; None where there is none of the type."""
    if best is None or not worker.seconds:
        return None
    return min(map(min, worker.seconds)) / min(map(min, best.seconds))


def disturbed(rounds: list[list[float]], cycle: int) -> float | None:
    """How far the median step is above the fastest one, if that is far: something else ran. Steps of one feed are compared.

    Returns:
        Their ratio; None where it is below FAR.
    """
    ratios = []
    for at in range(cycle):
        steps = [seconds for each in rounds for seconds in each[at::cycle]]
        if steps:
            ratios.append(statistics.median(steps) / min(steps))
    most = max(ratios, default=1.0)
    return most if most >= FAR else None


def rate(rounds: list[list[float]], counted: list[int]) -> float:
    """Operations a second of the median step. Each round starts with the feed after those of the checked steps."""
    cycle = len(counted)
    return statistics.median(counted[(CHECKED + i) % cycle] / s for seconds in rounds for i, s in enumerate(seconds))

"""Runs workers over a range of mutants, starts another where one dies, and adds up what they say."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
_BATCH = 250


class Finding(NamedTuple):
    """A mutant that was neither worked with nor refused with a type of ours."""

    number: int
    seed: str
    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.where}  [{self.number} of {self.seed}] {' '.join(self.text.split())[:140]}"


class Summary:
    """Totals of a run; threads may add to it.

    ``findings`` are ours. What onnxruntime does with a graph that it has accepted is counted apart, in ``runtime``: a loop of
    2^24 iterations is no fault of the file, and that onnxruntime ends the process on some operands is a fault of its own.
    ``rules`` are mutants that run although a gradient rule fails on them: refused by name, but worth a look.
    """

    def __init__(self) -> None:
        self.tried = 0
        self.runtime: list[Finding] = []
        self.rules: list[Finding] = []
        self.stages: dict[str, Counter[str]] = {}
        self.findings: list[Finding] = []
        self.slowest: list[tuple[float, int, str]] = []
        self._lock = threading.Lock()

    def add(self, number: int, seed: str, said: dict[str, Any]) -> None:
        with self._lock:
            self.tried += 1
            for stage, result in said["stages"].items():
                self.stages.setdefault(stage, Counter())[result] += 1
            problem = said["problem"]
            if said["rule"] and said["stages"].get("run") == "ok":
                self.rules.append(Finding(number, seed, "RuleError", "", said["rule"]))
            if problem:
                where = f"{problem['stage']}: {problem['at']}"
                self.findings.append(Finding(number, seed, problem["type"], where, problem["text"]))
            self.slowest = sorted([*self.slowest, (said["took"], number, seed)], reverse=True)[:5]

    def died(self, number: int, seed: str, code: int, said: str) -> None:
        with self._lock:
            self.tried += 1
            lines = [line.strip() for line in said.splitlines() if line.strip().startswith("File")]
            frame = next((line for line in lines if "/onnxgrad/" in line), "")
            where = frame.rpartition("/onnxgrad/")[2]
            kind = "hang" if "Timeout (" in said else f"abort ({code})"
            in_runtime = where.startswith("core/runtime/prepared.py") and where.endswith(" in run")
            in_runtime |= where.startswith("core/runtime/session.py") and where.endswith((" in _open", " in open_graph"))
            text = "" if not in_runtime else "in onnxruntime"
            (self.runtime if in_runtime else self.findings).append(Finding(number, seed, kind, where, text or said[-300:]))

    def table(self) -> str:
        kinds = Counter(finding.kind for finding in self.findings)
        lines = [f"{self.tried} tried, {len(self.findings)} found wanting"]
        lines += [f"in onnxruntime: {f.kind}, {f.number} of {f.seed}" for f in self.runtime]
        lines += [f"  {count:>6}  {kind}" for kind, count in kinds.most_common()]
        places = Counter((f.kind, f.where) for f in self.findings)
        first = {(f.kind, f.where): f for f in reversed(self.findings)}
        for place, count in places.most_common():
            example = first[place]
            lines.append(f"  {count:>6}  {example}")
        lines += [f"runs, but {' '.join(f.text.split())[:200]}  [{f.number} of {f.seed}]" for f in self.rules]
        for stage, counter in self.stages.items():
            lines.append(f"{stage}: " + ", ".join(f"{kind} {count}" for kind, count in counter.most_common()))
        lines.append("slowest: " + ", ".join(f"{took:.1f} s ({number} of {seed})" for took, number, seed in self.slowest))
        return "\n".join(lines)


Command = Callable[[int, int], list[str]]
"""The arguments of Python for a worker that tries the numbers from the first to before the second."""


def of_mutants(seeds: Path, key: str = "onnxgrad", seconds: float = 20, megabytes: int = 4096) -> Command:
    """Damaged copies of the models in ``seeds``."""
    return lambda start, stop: ["-m", "tests.fuzz.worker", *map(str, (seeds, key, start, stop, seconds, megabytes))]


def of_files(folder: Path, key: str = "onnxgrad", seconds: float = 20, megabytes: int = 4096) -> Command:
    """Damaged copies of the other files, each kind in its folder of ``folder``."""
    return lambda start, stop: ["-m", "tests.fuzz.files", *map(str, (folder, key, start, stop, seconds, megabytes))]


def of_programs(seconds: float = 60) -> Command:
    """Random programs."""
    return lambda start, stop: ["-m", "tests.fuzz.program_checks", *map(str, (start, stop, seconds))]


def fuzz(
    command: Command,
    count: int,
    *,
    first: int = 0,
    workers: int = 1,
    progress: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Try ``count`` numbers, in processes that are started again where they end."""
    summary = Summary()
    todo = [(start, min(start + _BATCH, first + count)) for start in range(first, first + count, _BATCH)][::-1]
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not todo:
                    return
                start, stop = todo.pop()
            while start < stop:
                start = _batch(command, start, stop, summary, progress)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return summary


def _batch(command: Command, start: int, stop: int, summary: Summary, progress: Callable[[Summary], None]) -> int:
    """Let one process work; returns the first number that it did not try"""
    begun: tuple[int, str] | None = None
    with tempfile.TemporaryFile("w+") as errors:
        arguments = [sys.executable, *command(start, stop)]
        with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said = json.loads(line)
                if "begin" in said:
                    begun = (said["begin"], said["seed"])
                    continue
                assert begun is not None
                summary.add(*begun, said)
                start, begun = begun[0] + 1, None
                progress(summary)
        errors.seek(0)
        if begun is not None:
            summary.died(*begun, process.returncode, errors.read())
            progress(summary)
            return begun[0] + 1
        if start < stop:
            raise RuntimeError(f"a worker ended with {process.returncode} between two mutants: {errors.read()[-2000:]}")
    return start

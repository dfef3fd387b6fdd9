"""One system with one workload in a process of its own, told what to do line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

SYSTEMS = {
    "onnxgrad": "onnxruntime",
    "torch": "torch",
    "torch fused": "torch",
    "torch.compile": "torch",
}
"""The systems and the package each needs; the ratios are to torch, eager with its default optimizer loop."""

_FORMS = {"torch": "eager", "torch fused": "fused", "torch.compile": "compile"}


def installed(system: str) -> bool:
    return find_spec(SYSTEMS[system]) is not None


def _memory(field: str) -> float:
    """Megabytes of this process, from /proc: VmRSS now, VmHWM at its peak; 0 where there is no /proc."""
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
    except OSError:
        return 0.0


def serve(system: str, name: str, threads: int) -> None:
    """Answer requests: the losses of the first steps, the seconds of some steps, the peak memory."""
    from benchmark_suite.workloads import WORKLOADS

    workload = WORKLOADS[name]()
    if system == "onnxgrad":
        from benchmark_suite.in_onnxgrad import Runner as Ours

        make: Any = lambda: Ours(workload, threads)  # noqa: E731
    else:
        from benchmark_suite.in_torch import Runner as Theirs

        make = lambda: Theirs(workload, threads, _FORMS[system])  # noqa: E731
    imported = _memory("VmRSS")
    start = time.perf_counter()
    runner = make()
    feeds = [runner.feed(arrays) for arrays in workload.feeds]
    losses = [float(runner.step(feeds[i % len(feeds)])) for i in range(1)]
    started = time.perf_counter() - start
    losses += [float(runner.step(feeds[i % len(feeds)])) for i in range(1, 5)]
    _answer({"losses": losses, "start": started})
    number = 5
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            feed = feeds[number % len(feeds)]
            start = time.perf_counter()
            runner.step(feed)
            seconds.append(time.perf_counter() - start)
            number += 1
        _answer({"seconds": seconds, "memory": _memory("VmHWM") - imported})


def _answer(message: dict[str, Any]) -> None:
    print("@" + json.dumps(message), flush=True)


class Worker:
    """The other end: starts the process and talks to it.

    Raises:
        RuntimeError: with the last lines the process wrote, if it ends before it answers.
    """

    def __init__(self, system: str, workload: str, threads: int) -> None:
        self.system = system
        command = [sys.executable, sys.argv[0], "--serve", system, workload, "--threads", str(threads)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        first = self._answer()
        self.losses: list[float] = first["losses"]
        self.start: float = first["start"]
        self.seconds: list[list[float]] = []
        self.memory = 0.0

    def run(self, steps: int) -> None:
        """Run so many steps and keep how long each took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        found = self._answer()
        self.seconds.append(found["seconds"])
        self.memory = found["memory"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                return dict(json.loads(line[1:]))
        raise RuntimeError(f"{self.system} ended with status {self._process.wait()} before it answered")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

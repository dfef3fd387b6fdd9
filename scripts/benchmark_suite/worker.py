"""One system with one workload in a process of its own, told what to do line by line."""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmark_suite.systems import SYSTEMS, Setting

CHECKED = 5
"""Steps whose losses are compared; they are the first that every system runs."""

_MUCH = str(2**32)
"""Bytes above which blocks are mapped on their own, and from which free memory is given back."""


def describe(system: str, device: str) -> None:
    """Answer with the versions of a system's packages, or with what is missing."""
    versions = {"python": platform.python_version(), "numpy": version("numpy")}
    for alternatives in SYSTEMS[system].packages:
        found = {name: version(name) for name in alternatives.split("|") if _is_installed(name)}
        if not found:
            answer({"missing": f"{alternatives.replace('|', ' or ')} is not installed"})
            return
        versions |= found
    answer({"versions": versions} | ({"missing": missing} if (missing := _missing_device(system, device)) else {}))


def _missing_bfloat16() -> str | None:
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return None if "amx_bf16" in flags or "avx512_bf16" in flags else "this processor has no bfloat16 (AMX or AVX-512-BF16)"


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _missing_device(system: str, device: str) -> str | None:
    if device == "cpu":
        return _missing_bfloat16() if SYSTEMS[system].bfloat16 else None
    if device not in SYSTEMS[system].devices:
        return f"is not run on {device} here"
    if SYSTEMS[system].family == "torch":
        import torch

        return None if torch.cuda.is_available() else "this torch sees no CUDA device"
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "this onnxruntime has no CUDA provider"
    from benchmark_suite.in_onnxgrad import reaches_gpu

    return None if reaches_gpu() else "onnxruntime cannot open a session on the GPU: are its CUDA and cuDNN there?"


def _memory(field: str) -> float:
    """Megabytes of this process, from /proc: VmRSS now, VmHWM at its peak; 0 where there is no /proc."""
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
    except OSError:
        return 0.0


def _device_memory() -> float:
    """Megabytes in use on all devices by all processes; only differences mean something. 0 where nobody can tell."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return float(sum(map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0.0


def serve(system: str, name: str, setting: Setting) -> None:
    """Answer requests: the losses of the first steps, the seconds of some steps, the peak memory."""
    try:
        _serve(system, name, setting)
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        raise


def _serve(system: str, name: str, setting: Setting) -> None:
    from benchmark_suite.workloads import WORKLOADS

    workload = WORKLOADS[name]()
    module = importlib.import_module(f"benchmark_suite.in_{SYSTEMS[system].family.replace('-', '_')}")
    on_device = setting.device == "cuda"
    before = _device_memory() if on_device else _memory("VmRSS")
    start = time.perf_counter()
    runner = module.Runner(workload, setting)
    feeds = [runner.feed(arrays) for arrays in workload.feeds]
    losses = [float(runner.step(feeds[0]))]
    started = time.perf_counter() - start
    losses += [float(runner.step(feeds[i % len(feeds)])) for i in range(1, CHECKED)]
    grown = _device_memory() - before if on_device else _memory("VmHWM") - before
    answer({"losses": losses, "start": started, "memory": grown})
    number = CHECKED
    for line in sys.stdin:
        seconds = []
        clock = time.process_time if setting.clock == "processor" else time.perf_counter
        for _ in range(int(line)):
            feed = feeds[number % len(feeds)]
            start = clock()
            runner.step(feed)
            seconds.append(clock() - start)
            number += 1
        answer({"seconds": seconds, "memory": grown if on_device else _memory("VmHWM") - before})


def answer(message: dict[str, Any]) -> None:
    print("@" + json.dumps(message), flush=True)


def start(python: str, arguments: list[str], threads: int, device: str) -> subprocess.Popen[str]:
    """This script once more, in a process with so many threads, whatever it counts them by."""
    counts = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC")}
    # Memory is kept between steps. Otherwise glibc gives large blocks back, and a step pays for having them mapped anew:
    # torch's step of a U-Net took 1.3 times as long so, which flatters whoever keeps an arena.
    counts |= {"MALLOC_MMAP_THRESHOLD_": _MUCH, "MALLOC_TRIM_THRESHOLD_": _MUCH}
    if device == "cuda":
        counts["NVIDIA_TF32_OVERRIDE"] = "0"  # else some compute in 19-bit floats by default and others do not
    command = [python, sys.argv[0], *arguments, "--threads", str(threads), "--device", device]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **counts},
    )


def heard(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the process says next, past what libraries print.

    Raises:
        RuntimeError: if it reports an error, or ends before it answers.
    """
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("@"):
            found = dict(json.loads(line[1:]))
            if "error" in found:
                process.wait()
                raise RuntimeError(" ".join(found["error"].split())[:160])
            return found
    raise RuntimeError(f"its process ended with status {process.wait()} before it answered")


def ask(python: str, arguments: list[str], threads: int, device: str) -> dict[str, Any]:
    """The one answer of a process.

    Raises:
        RuntimeError: if it ends without one.
    """
    with start(python, arguments, threads, device) as process:
        return heard(process)


class Worker:
    """The other end of ``serve``: starts the process and talks to it.

    Raises:
        RuntimeError: with the error of the process, if it ends before it answers, or is not past the first steps in time.
    """

    def __init__(self, system: str, workload: str, python: str, setting: Setting, patience: float) -> None:
        self.system = system
        told = ["--serve", system, workload, "--model", setting.model, "--clock", setting.clock]
        self._process = start(python, told, setting.threads, setting.device)
        begin, clock = time.monotonic(), threading.Timer(patience, self._process.kill)
        clock.start()
        try:
            first = heard(self._process)
        except RuntimeError:
            if time.monotonic() - begin >= patience:
                raise RuntimeError(f"it was not ready within {patience:g} s") from None
            raise
        finally:
            clock.cancel()
        self.losses: list[float] = first["losses"]
        self.start: float = first["start"]
        self.seconds: list[list[float]] = []
        self.memory: float = first["memory"]

    def run(self, steps: int) -> None:
        """Run so many steps and keep how long each took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        found = heard(self._process)
        time.sleep(SYSTEMS[self.system].spins)
        self.seconds.append(found["seconds"])
        self.memory = found["memory"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

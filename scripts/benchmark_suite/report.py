"""The table, the plot, and the line about the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

from onnxgrad.internal.processors import usable_cores


def show(name: str, result: dict[str, Any]) -> None:
    print(f"{name}: {result['title']}")
    for system, found in result["systems"].items():
        spread = f"{found['low']:5.2f} .. {found['middle']:5.2f} .. {found['high']:5.2f}"
        share = "  " if found["share"] is None else f"{100 * found['share']:5.1f} %"
        start = "       " if found["start"] is None else f"{found['start']:7.1f}"
        best = "      " if found["best"] is None else f"{found['best']:6.2f}"
        ratios = f"{found['ratio']:6.2f}   {spread}   {found['fastest']:6.2f}   {best}"
        print(f"    {system:<20} {ratios} {start} {found['memory']:7.0f} MB {share}".rstrip())
    for system, reason in result["failed"].items():
        print(f"    {system:<20} left out: {reason}")
    doubted = [f"{system} {found['disturbed']:.2f}" for system, found in result["systems"].items() if found["disturbed"]]
    if doubted:
        print(f"    warning: median steps far above the fastest ones, as something else ran: {', '.join(doubted)}")
    print(f"    load of the machine: {load()}")
    sys.stdout.flush()


def show_mean(results: dict[str, Any], names: tuple[str, ...]) -> None:
    """The mean over workloads of the fastest step over that of torch's best form of the type, for systems that have all of them."""
    systems = dict.fromkeys(s for name in names if name in results for s in results[name]["systems"])
    for system in systems:
        ratios = [results.get(name, {"systems": {}})["systems"].get(system, {}).get("best") for name in names]
        if all(ratio is not None for ratio in ratios):
            print(f"mean of {len(names)} over torch's best form: {system} {sum(ratios) / len(ratios):.2f}")


def load() -> str:
    """How many processes wanted to run, over 1, 5 and 15 minutes."""
    try:
        return ", ".join(f"{number:.2f}" for number in os.getloadavg())
    except OSError:
        return "unknown"


def plot(results: dict[str, Any], path: str) -> None:
    """Bars of the ratios, one group per workload."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 4))
    systems = list(dict.fromkeys(s for r in results.values() for s in r["systems"]))
    for index, system in enumerate(systems):
        heights = [r["systems"].get(system, {}).get("ratio", 0.0) for r in results.values()]
        positions = [i + (index - len(systems) / 2) * 0.8 / len(systems) for i in range(len(results))]
        axes.bar(positions, heights, 0.8 / len(systems), label=system)
    axes.axhline(1.0, color="black", linewidth=0.5)
    axes.set_xticks(range(len(results)), list(results))
    axes.set_ylabel("step time / torch eager")
    axes.legend()
    figure.savefig(path)


def machine(threads: int, device: str, versions: dict[str, dict[str, str]]) -> dict[str, Any]:
    """What the numbers were taken on."""
    found: dict[str, Any] = {"processor": _cpu(), "cores": usable_cores(), "threads": threads, "load": load()}
    if device == "cuda":
        found["gpu"] = _gpu()
    return found | {"device": device, "system": platform.system(), "versions": versions}


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _gpu() -> str:
    try:
        command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def in_words(found: dict[str, Any]) -> str:
    """The machine in a line: what all systems share first, then what each adds."""
    packages = {f"{name} {number}" for versions in found["versions"].values() for name, number in versions.items()}
    hardware = f"{found['processor']}, {found['cores']} cores" + (f", {found['gpu']}" if "gpu" in found else "")
    return f"{hardware}; {found['threads']} threads; load {found['load']} when it began; " + ", ".join(sorted(packages))

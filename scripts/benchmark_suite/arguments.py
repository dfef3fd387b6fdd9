"""The command line of scripts/benchmark."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap

from benchmark_suite.systems import SYSTEMS
from benchmark_suite.workloads import SEVEN, WORKLOADS


def _how_to_install() -> str:
    lines = ["systems, by their names for --systems:"]
    lines += [f"  {name:<22}{system.about}" for name, system in SYSTEMS.items()]
    lines += ["", "what they need, as pip names:"]
    for family, packages in {system.family: system.packages for system in SYSTEMS.values()}.items():
        on = sorted({device for system in SYSTEMS.values() if system.family == family for device in system.devices})
        lines.append(f"  {family:<22}{' '.join(package.split('|')[0] for package in packages):<46}{', '.join(on)}")
    return "\n".join(lines) + f"\n\n{textwrap.dedent(_INTERPRETERS)}\nworkloads: {', '.join(WORKLOADS)}\nseven: {', '.join(SEVEN)}"


_INTERPRETERS = """\
    What is not installed is left out. The packages get in each other's way: onnxruntime-training has the import name of
    onnxruntime, and each wants its own numpy. So a system may have a Python of its own, which need not have onnxgrad:

      python -m venv jax && jax/bin/pip install numpy jax
      python -m venv paddle && paddle/bin/pip install numpy setuptools paddlepaddle
      python -m venv ort && ort/bin/pip install onnxruntime-training==1.19.2 'numpy<2' onnx==1.16.2 torch
      scripts/benchmark --python jax=jax/bin/python --python paddle=paddle/bin/python \\
                        --python onnxruntime-training=ort/bin/python

    --python torch=PATH holds for all systems of torch. torch.compile needs a C++ compiler. Building 5,000 nodes (W9)
    takes Paddle minutes and gigabytes of memory; --patience limits the time. For --device cuda, install
    onnxruntime-gpu in place of onnxruntime, with CUDA and cuDNN of the versions it names; there all systems copy the data to
    the GPU in every step, and none computes in TF32. --plot needs matplotlib.
"""


def arguments(description: str) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=form, epilog=_how_to_install())
    add = parser.add_argument
    add(
        "--only", default=",".join(WORKLOADS), metavar="W1a,W6", help="workloads, or seven for the nets of real sizes; default: all"
    )
    add("--systems", metavar="A,B", help="systems; default: all that are installed")
    add("--python", action="append", default=[], metavar="SYSTEM=PATH", help="the Python that runs a system; may be repeated")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: the first NVIDIA GPU, for the systems that have it here")
    add("--threads", type=int, default=2, help="threads of every system; default 2")
    add("--rounds", type=int, default=9, help="rounds that count; default 9")
    add(
        "--clock",
        choices=("wall", "processor"),
        default="wall",
        help="processor: the time of all threads of a process, for a machine that others use; with --threads 1",
    )
    add("--seconds", type=float, default=0.3, help="what a round of the slowest system takes, about; default 0.3")
    add("--patience", type=float, default=600, metavar="SECONDS", help="a system that starts more slowly is left out; default 600")
    add("--repeat", type=int, default=1, metavar="N", help="measure everything and print the table N times")
    add("--json", metavar="FILE", help="write all numbers, of all repetitions, and what they were taken on")
    add("--plot", metavar="FILE", help="draw the ratios of the last repetition")
    add("--serve", nargs=2, help=argparse.SUPPRESS)
    add("--describe", help=argparse.SUPPRESS)
    add("--measure-peak", action="store_true", help=argparse.SUPPRESS)
    add("--write-model", nargs=2, help=argparse.SUPPRESS)
    add("--model", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = ",".join(SEVEN) if options.only == "seven" else options.only
    options.only = _known(parser, chosen, "workload", list(WORKLOADS))
    able = [name for name, system in SYSTEMS.items() if options.device in system.devices]
    options.systems = able if options.systems is None else _known(parser, options.systems, "system", list(SYSTEMS))
    options.pythons = _interpreters(parser, options.python)
    for name in ("threads", "rounds", "repeat"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is at least 1")
    return options


def _known(parser: argparse.ArgumentParser, text: str, what: str, known: list[str]) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            parser.error(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return names


def _interpreters(parser: argparse.ArgumentParser, given: list[str]) -> dict[str, str]:
    """The Python of each system."""
    paths = {}
    families = {system.family for system in SYSTEMS.values()}
    for text in given:
        system, _, path = text.partition("=")
        if system not in SYSTEMS and system not in families:
            parser.error(f"--python: there is no system {system!r}; there are {', '.join(SYSTEMS)}")
        if shutil.which(path) is None:
            parser.error(f"--python: {path!r} is no program")
        paths[system] = path
    return {name: paths.get(name, paths.get(system.family, sys.executable)) for name, system in SYSTEMS.items()}

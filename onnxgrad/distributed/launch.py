"""python -m onnxgrad.distributed.launch --nproc_per_node 4 train.py ...: start ranks by mpiexec, each under ``-m mpi4py``.

What is not known here is passed to the script. For several machines, give mpiexec a file of hosts: --hosts FILE.

Tests: tests/distributed/test_mpi.py, tests/distributed/test_ends.py.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["command_of", "main"]


def command_of(arguments: Sequence[str]) -> list[str]:
    """The command that starts the ranks.

    Example:
        >>> command_of(["--nproc_per_node", "2", "train.py", "--epochs", "3"])[-5:]
        ['-m', 'mpi4py', 'train.py', '--epochs', '3']
    """
    parser = argparse.ArgumentParser(prog="python -m onnxgrad.distributed.launch", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nproc_per_node", "-n", type=int, default=os.cpu_count() or 1, help="ranks (default: one a core)")
    parser.add_argument("--hosts", metavar="FILE", help="file of hosts, for mpiexec -f")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"
    hosts = [] if options.hosts is None else ["-f", options.hosts]
    module = ["-m"] if options.module else []
    ranks = [mpiexec, *hosts, "-n", str(options.nproc_per_node)]
    return [*ranks, sys.executable, "-m", "mpi4py", *module, options.script, *options.arguments]


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the ranks; returns their exit code."""
    command = command_of(sys.argv[1:] if arguments is None else arguments)
    try:
        return _ended(command)
    except FileNotFoundError:
        print("error: there is no mpiexec. Install it with: pip install 'onnxgrad[mpi]'.", file=sys.stderr)
        return 1


def _ended(command: Sequence[str]) -> int:
    """Run a command, pass signals on to it, and return its exit code once it has ended: ranks may have a checkpoint to write"""
    process = subprocess.Popen(command)
    for name in ("SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: process.send_signal(number))
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to all that run in it
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

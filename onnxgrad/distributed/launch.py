"""python -m onnxgrad.distributed.launch --nproc_per_node 4 train.py ...: start ranks by mpiexec, each under ``-m mpi4py``.

What is not known here is passed to the script. For several machines: --hosts node1,node2 or a file of hosts.

Tests: tests/distributed/test_launch.py, tests/distributed/test_mpi.py, tests/distributed/test_ends.py.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from onnxgrad.errors import ArgumentError, ProviderError
from onnxgrad.internal.processors import usable_cores

__all__ = ["Host", "command_of", "family_of", "hosts_of", "main", "placement"]

Family = Literal["MPICH", "Open MPI"]


class Host(NamedTuple):
    """A machine, and how many ranks it is to have; None for as many as ``--nproc_per_node`` says."""

    name: str
    ranks: int | None = None


def hosts_of(text: str) -> list[Host]:
    """Read a list of machines: ``node1,node2:4``, or a file with one a line, as MPICH (``:4``) or Open MPI (``slots=4``) has it.

    Args:
        text: the list, or the path of the file.

    Raises:
        ArgumentError: if an entry is no name, or a name and a number.

    Example:
        >>> hosts_of("node1,node2:4")
        [Host(name='node1', ranks=None), Host(name='node2', ranks=4)]
    """
    if Path(text).is_file():
        lines = [line.partition("#")[0].strip() for line in Path(text).read_text().splitlines()]
        entries = [line for line in lines if line]
    else:
        entries = [entry.strip() for entry in text.split(",")]
    hosts = []
    for entry in entries:
        match = re.fullmatch(r"([\w.-]+|\[[0-9a-fA-F:]+\])(?::(\d+)|\s+slots\s*=\s*(\d+).*)?", entry)
        if match is None:
            raise ArgumentError(f"--hosts: {entry!r} is no machine. Write node1,node2:4, or the path of a file that there is.")
        ranks = match[2] or match[3]
        hosts.append(Host(match[1], None if ranks is None else int(ranks)))
    if not hosts or not all(host.ranks is None or host.ranks > 0 for host in hosts):
        raise ArgumentError(f"--hosts: {text!r} names no machine with a rank. Write node1,node2:4.")
    return hosts


def family_of(version: str) -> Family:
    """Tell which options an mpiexec takes by what ``mpiexec --version`` prints.

    Args:
        version: what it prints.

    Raises:
        ProviderError: if it is neither that of MPICH (as Intel's and MVAPICH's are) nor of Open MPI.

    Example:
        >>> family_of("mpirun (Open MPI) 5.0.3")
        'Open MPI'
    """
    if re.search(r"Open ?(MPI|RTE)|PRRTE|prte", version):
        return "Open MPI"
    if re.search(r"HYDRA|Hydra|MPICH|Intel\(R\) MPI|MVAPICH", version):
        return "MPICH"
    first = version.strip().partition("\n")[0][:100]
    raise ProviderError(f"this mpiexec takes unknown options for hosts: it says {first!r}. Start it by hand, without --hosts.")


def placement(family: Family, hosts: Sequence[Host], ranks: int) -> list[str]:
    """Return the options of an mpiexec for ranks on machines, with their number.

    Args:
        family: whose options.
        hosts: the machines; empty for this one.
        ranks: of each machine that says no number itself.

    Example:
        >>> placement("Open MPI", [Host("a"), Host("b", 2)], 4)
        ['--host', 'a:4,b:2', '-n', '6']
    """
    counts = [host.ranks or ranks for host in hosts]
    listed = ",".join(f"{host.name}:{count}" for host, count in zip(hosts, counts, strict=True))
    return [*(["-hosts" if family == "MPICH" else "--host", listed] if hosts else []), "-n", str(sum(counts) if hosts else ranks)]


def _version_of(mpiexec: str) -> str:
    done = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def command_of(arguments: Sequence[str], version_of: Callable[[str], str] = _version_of) -> list[str]:
    """The command that starts the ranks.

    Args:
        arguments: of the command line.
        version_of: gives what ``mpiexec --version`` prints; asked where there are hosts.

    Raises:
        ArgumentError, ProviderError: as for ``hosts_of`` and ``family_of``.

    Example:
        >>> command_of(["--nproc_per_node", "2", "train.py", "--epochs", "3"])[-5:]
        ['-m', 'mpi4py', 'train.py', '--epochs', '3']
    """
    parser = argparse.ArgumentParser(prog="python -m onnxgrad.distributed.launch", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nproc_per_node", "-n", type=int, default=usable_cores(), help="ranks of a machine (default: one a core)")
    parser.add_argument("--hosts", help="machines: node1,node2:4 with the ranks of one that has another number; or a file of them")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"
    hosts = [] if options.hosts is None else hosts_of(options.hosts)
    family: Family = family_of(version_of(mpiexec)) if hosts else "MPICH"
    # Open MPI binds a rank to one core, where it would compute with one thread. MPICH sends the environment of mpiexec to all
    # machines, Open MPI what is named.
    sent = ["--bind-to", "none"] if family == "Open MPI" else []
    sent += ["-x", "PYTHONPATH"] if family == "Open MPI" and os.environ.get("PYTHONPATH") else []
    module = ["-m"] if options.module else []
    ranks = [mpiexec, *placement(family, hosts, options.nproc_per_node), *sent]
    return [*ranks, sys.executable, "-m", "mpi4py", *module, options.script, *options.arguments]


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the ranks; returns their exit code."""
    try:
        return _ended(command_of(sys.argv[1:] if arguments is None else arguments))
    except FileNotFoundError:
        print("error: there is no mpiexec. Install it with: pip install 'onnxgrad[mpi]'.", file=sys.stderr)
    except (ArgumentError, ProviderError) as error:
        print(f"error: {error}", file=sys.stderr)
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

"""Who started this process, and which of its ranks it is: read from the variables that launchers set.

Tests: tests/distributed/test_job.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from onnxgrad.errors import ProviderError, TrainingError

__all__ = ["Engine", "Job", "address_of", "check_size", "device_number", "first_host", "job_of", "missing_launch"]

Engine = Literal["mpi", "torch"]


class Job(NamedTuple):
    """A process as its launcher numbers it; None for what the launcher does not say.

    Attributes:
        launcher: its name; None for a process that none started.
        engine: what connects the ranks that this launcher starts.
        rank, world_size: among all ranks.
        local_rank, local_size: among the ranks of this machine.
        said: the variable that gives the number of ranks, and its value, for messages.
    """

    launcher: str | None = None
    engine: Engine | None = None
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_size: int | None = None
    said: str = ""


class _Launcher(NamedTuple):
    """A launcher and its variables: the first of a row that is set counts.

    Attributes:
        marks: what all of its processes have.
    """

    name: str
    engine: Engine
    marks: tuple[str, ...]
    rank: str
    world_size: tuple[str, ...]
    local_rank: tuple[str, ...]
    local_size: tuple[str, ...]


_TORCH = (("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",))
_SLURM_SIZES = ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
# One may start another: srun an mpiexec's helpers, or a torchrun on each machine; a PyTorchJob's container an mpiexec. The
# launcher that started the rank itself stands first.
_LAUNCHERS = (
    _Launcher("torchrun", "torch", ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"), "RANK", *_TORCH),
    _Launcher(
        "Open MPI",
        "mpi",
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    _Launcher(
        "MVAPICH",
        "mpi",
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
        "MV2_COMM_WORLD_RANK",
        ("MV2_COMM_WORLD_SIZE",),
        ("MV2_COMM_WORLD_LOCAL_RANK",),
        ("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    _Launcher(
        "MPICH",
        "mpi",
        ("PMI_RANK", "PMI_SIZE"),
        "PMI_RANK",
        ("PMI_SIZE",),
        ("MPI_LOCALRANKID", "SLURM_LOCALID"),
        ("MPI_LOCALNRANKS",),
    ),
    _Launcher("PMIx", "mpi", ("PMIX_RANK", "PMIX_NAMESPACE"), "PMIX_RANK", _SLURM_SIZES[:1], ("SLURM_LOCALID",), ()),
    _Launcher("PyTorchJob", "torch", ("RANK", "WORLD_SIZE", "MASTER_ADDR"), "RANK", *_TORCH),
    _Launcher("srun", "torch", ("SLURM_PROCID", "SLURM_STEP_NODELIST"), "SLURM_PROCID", _SLURM_SIZES, ("SLURM_LOCALID",), ()),
)


def job_of(environment: Mapping[str, str] | None = None) -> Job:
    """Recognise the launcher of a process: torchrun, mpiexec (MPICH, Intel MPI, Open MPI, MVAPICH), PMIx, a PyTorchJob, srun.

    The ranks of an MPIJob are those of its mpirun.

    Args:
        environment: of the process; None for this one's.

    Example:
        >>> job = job_of({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"})
        >>> job.launcher, job.rank, job.world_size, job.local_rank, job.local_size
        ('MPICH', 3, 4, 1, 2)
    """
    environment = os.environ if environment is None else environment
    for launcher in _LAUNCHERS:
        if all(environment.get(mark) for mark in launcher.marks):
            local_size = _number(environment, *launcher.local_size)
            if local_size is None:
                local_size = _tasks_here(environment) if launcher.local_rank[-1] == "SLURM_LOCALID" else None
            return Job(
                launcher.name,
                launcher.engine,
                _number(environment, launcher.rank),
                _number(environment, *launcher.world_size),
                _number(environment, *launcher.local_rank),
                local_size,
                _said(environment, launcher.world_size),
            )
    return Job()


def _number(environment: Mapping[str, str], *names: str) -> int | None:
    """The first of some variables that is a number"""
    return next((int(environment[name]) for name in names if environment.get(name, "").isdigit()), None)


def _said(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((f"{name}={environment[name]}" for name in names if environment.get(name)), "")


def _tasks_here(environment: Mapping[str, str]) -> int | None:
    """How many tasks of a Slurm step this machine has: ``4(x2),3`` says 4 on each of two machines, and 3 on the next"""
    counts: list[int] = []
    for tasks, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get("SLURM_STEP_TASKS_PER_NODE", "")):
        counts += [int(tasks)] * int(times or 1)
    node = _number(environment, "SLURM_NODEID")
    if node is None or node >= len(counts):
        return None
    return counts[node]


def missing_launch(environment: Mapping[str, str] | None = None) -> str | None:
    """Say why a process without a rank looks like a part of a job of several, as which it would train alone, as others would.

    Args:
        environment: of the process; None for this one's.

    Returns:
        What is there, and what to do; None if nothing looks so.

    Example:
        >>> missing_launch({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"})
        'this Slurm job has 4 tasks (SLURM_NTASKS=4), but srun did not start this process. Start it by srun, or ask for one task.'
    """
    environment = os.environ if environment is None else environment
    if job_of(environment).launcher is not None:
        return None
    if (_number(environment, "SLURM_NTASKS") or 1) > 1:
        said = _said(environment, ("SLURM_NTASKS",))
        reason = f"this Slurm job has {environment['SLURM_NTASKS']} tasks ({said}), but srun did not start this process"
        return f"{reason}. Start it by srun, or ask for one task."
    if environment.get("K_MPI_JOB_ROLE"):
        reason = (
            f"this container is part of an MPIJob (K_MPI_JOB_ROLE={environment['K_MPI_JOB_ROLE']}), but mpirun did not start this"
        )
        return f"{reason} process. Start it by mpirun in the command of the launcher."
    if (_number(environment, "WORLD_SIZE") or 1) > 1:
        lacks = next(name for name in ("RANK", "MASTER_ADDR", "WORLD_SIZE") if not environment.get(name))
        reason = f"the environment says {_said(environment, ('WORLD_SIZE',))}, but not {lacks}"
        return f"{reason}. Start it by torchrun, which sets it, or take WORLD_SIZE out."
    return None


def check_size(job: Job, world_size: int, library: str) -> None:
    """Refuse an engine that connects another number of ranks than were started: each would train by itself, n runs of one.

    Args:
        job: of this process.
        world_size: as the engine counts.
        library: the engine's name and version.

    Raises:
        ProviderError: if the launcher started another number.
    """
    if job.world_size is None or job.world_size == world_size:
        return
    started = f"{job.launcher} started {job.world_size} ranks ({job.said})"
    action = "Start them by the mpiexec of that MPI, or install mpi4py for the MPI of this one"
    if job.launcher == "srun":
        action = "Start them by srun --mpi=pmix (or pmi2), as that MPI wants, or install torch, which needs neither"
    raise ProviderError(f"{started}, but {library} sees {world_size} here. {action}.")


def device_number(job: Job, environment: Mapping[str, str] | None = None) -> int:
    """Return the number of the GPU of a rank, among those that it sees: that of its local rank, 0 where it sees its own alone.

    Args:
        job: of this process.
        environment: of the process; None for this one's.

    Example:
        >>> device_number(Job("torchrun", "torch", 5, 8, 1, 4), {}), device_number(Job(), {})
        (1, 0)
    """
    environment = os.environ if environment is None else environment
    visible = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    number = job.local_rank or 0
    return number % len(visible) if visible else number


_FIRST_PORT, _PORTS = 20_000, 10_000
"""Ports below those that systems give out by themselves."""


def address_of(job: Job, environment: Mapping[str, str] | None = None) -> tuple[str, int]:
    """The address at which rank 0 meets the others, where torch connects them.

    ``MASTER_ADDR`` and ``MASTER_PORT`` where they are set; else the first machine of a Slurm step, and a port that follows from
    the numbers of the job and the step.

    Args:
        job: of this process.
        environment: of the process; None for this one's.

    Raises:
        TrainingError: if the environment does not say where rank 0 is.
    """
    environment = os.environ if environment is None else environment
    hosts = environment.get("SLURM_STEP_NODELIST", "")
    address = environment.get("MASTER_ADDR") or (first_host(hosts) if job.launcher in ("srun", "PMIx", "MPICH") else "")
    step = _number(environment, "SLURM_STEP_ID", "SLURM_STEPID") or 0
    number = (_number(environment, "SLURM_JOB_ID", "SLURM_JOBID") or 0) * 31 + step
    port = _number(environment, "MASTER_PORT")
    if port is None and address and hosts:
        port = _FIRST_PORT + number % _PORTS
    if not address or port is None:
        lacks = "MASTER_PORT" if address else "MASTER_ADDR"
        raise TrainingError(
            f"torch does not know where rank 0 is: {lacks} is not set. Set MASTER_ADDR and MASTER_PORT on all ranks."
        )
    return address, port


def first_host(hosts: str) -> str:
    """The first name of a list of Slurm's.

    Example:
        >>> first_host("gpu[07-09,12],login1")
        'gpu07'
    """
    entry = re.match(r"(?:[^,\[]|\[[^\]]*\])*", hosts)
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", entry.group() if entry else "")

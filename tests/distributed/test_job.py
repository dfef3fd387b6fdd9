"""Launchers are recognised by their variables, and a process that only looks like a rank is refused."""

import argparse
import os

import pytest

from onnxgrad import distributed
from onnxgrad.cli.train import _backend
from onnxgrad.distributed import environment
from onnxgrad.distributed.job import address_of, check_size, device_number, first_host, job_of, missing_launch
from onnxgrad.errors import ArgumentError, ProviderError, TrainingError
from onnxgrad.training import Trainer
from tests.distributed.ranks import needs_mpi, run
from tests.training.small import model

MPICH = {"PMI_RANK": "3", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SRUN = {
    "SLURM_JOB_ID": "70", "SLURM_STEP_ID": "2", "SLURM_PROCID": "5", "SLURM_NTASKS": "7", "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_LOCALID": "1", "SLURM_NODEID": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2),3", "SLURM_STEP_NODELIST": "gpu[07-08],big1",
}  # fmt: skip
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "first", "MASTER_PORT": "29500",
}  # fmt: skip
PYTORCHJOB = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
    "PMIX_RANK": "4", "PMIX_NAMESPACE": "prterun-1",
}  # fmt: skip
MVAPICH = {
    "MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_LOCAL_SIZE": "2"
}  # fmt: skip
PMIX = {"PMIX_RANK": "5", "PMIX_NAMESPACE": "slurm.pmix.70.2"}

JOBS = {
    "none": ({"HOME": "/"}, (None, None, None, None, None, None)),
    "mpiexec of MPICH": (MPICH, ("MPICH", "mpi", 3, 8, 1, 2)),
    "mpirun of Open MPI": (OPEN_MPI, ("Open MPI", "mpi", 4, 6, 1, 3)),
    "mpirun of MVAPICH": (MVAPICH, ("MVAPICH", "mpi", 1, 2, 1, 2)),
    "PMIx alone": (PMIX, ("PMIx", "mpi", 5, None, None, None)),
    "srun": (SRUN, ("srun", "torch", 5, 7, 1, 3)),
    "srun --mpi=pmix": (SRUN | PMIX, ("PMIx", "mpi", 5, 7, 1, 3)),
    "srun --mpi=pmi2": (SRUN | {"PMI_RANK": "5", "PMI_SIZE": "7"}, ("MPICH", "mpi", 5, 7, 1, 3)),
    "torchrun": (TORCHRUN, ("torchrun", "torch", 2, 4, 0, 2)),
    "a PyTorchJob": (PYTORCHJOB, ("PyTorchJob", "torch", 1, 3, None, None)),
    # An MPIJob's ranks are those of its mpirun.
    "an MPIJob": (OPEN_MPI | {"K_MPI_JOB_ROLE": "worker"}, ("Open MPI", "mpi", 4, 6, 1, 3)),
    # One launcher starts another: the inner one counts.
    "srun torchrun": (SRUN | TORCHRUN, ("torchrun", "torch", 2, 4, 0, 2)),
    "mpiexec that starts its helpers by srun": (SRUN | MPICH, ("MPICH", "mpi", 3, 8, 1, 2)),
    "mpiexec in a container of a PyTorchJob": (PYTORCHJOB | MPICH, ("MPICH", "mpi", 3, 8, 1, 2)),
    "a shell of one task in a job of 7": (SRUN | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, ("srun", "torch", 0, 1, 1, 3)),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_launcher_is_recognised(name):
    variables, expected = JOBS[name]
    job = job_of(variables)
    assert (job.launcher, job.engine, job.rank, job.world_size, job.local_rank, job.local_size) == expected
    assert missing_launch(variables) is None


MISSING = {
    "an sbatch file without srun": (
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"},
        "this Slurm job has 4 tasks (SLURM_NTASKS=4), but srun did not start this process. Start it by srun, or ask for one task.",
    ),
    "the launcher of an MPIJob without mpirun": (
        {"K_MPI_JOB_ROLE": "launcher"},
        "this container is part of an MPIJob (K_MPI_JOB_ROLE=launcher), but mpirun did not start this process. "
        "Start it by mpirun in the command of the launcher.",
    ),
    "half a torchrun": (
        {"WORLD_SIZE": "4", "MASTER_ADDR": "a"},
        "the environment says WORLD_SIZE=4, but not RANK. Start it by torchrun, which sets it, or take WORLD_SIZE out.",
    ),
}


@pytest.fixture
def environ(monkeypatch):
    """Lets the process have these variables of launchers alone, and be in no job yet"""
    monkeypatch.setattr(environment, "_OF_PROCESS", [])
    monkeypatch.setattr(environment, "_CORES", [])

    def set_to(variables):
        for name in [name for name in os.environ if name.startswith(("SLURM_", "PMI", "OMPI_", "MV2_"))]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_to


@pytest.mark.parametrize("name", MISSING)
def test_a_process_that_looks_like_a_part_of_a_job_does_not_train_alone(environ, name):
    variables, reason = MISSING[name]
    environ(variables)
    assert missing_launch() == reason
    with pytest.raises(TrainingError) as caught:
        Trainer(model(), loss="cross_entropy", distributed=True)
    assert str(caught.value) == f"this process would train alone: {reason}"
    # Who asks for no ranks is asked for nothing.
    assert Trainer(model(), loss="cross_entropy").ranks.are_many is False


def test_one_rank_of_a_launcher_needs_no_engine(environ):
    environ(PYTORCHJOB | {"RANK": "0", "WORLD_SIZE": "1"})
    assert distributed.init().world_size == 1


def test_an_engine_that_sees_other_ranks_than_were_started_is_refused():
    check_size(job_of(MPICH), 8, "MPICH 5")
    check_size(job_of(PMIX), 1, "MPICH 5")  # whose launcher does not say how many there are
    with pytest.raises(ProviderError, match=r"MPICH started 8 ranks \(PMI_SIZE=8\), but Open MPI v5 sees 1 here. Start them by"):
        check_size(job_of(MPICH), 1, "Open MPI v5")
    with pytest.raises(ProviderError, match=r"srun started 7 ranks .* Start them by srun --mpi=pmix"):
        check_size(job_of(SRUN), 1, "MPICH 5")


_OF_ANOTHER_MPI = """
import os
for name in [name for name in os.environ if name.startswith("PMI")]:
    del os.environ[name]
os.environ.update(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="3")
from onnxgrad import distributed
distributed.init()
"""


@needs_mpi
@pytest.mark.ranks
def test_ranks_of_another_mpi_are_not_so_many_runs_of_one():
    """As where mpiexec is one MPI's and mpi4py has another: each process would be rank 0 of 1"""
    code, _, errors = run(1, "-c", _OF_ANOTHER_MPI)
    assert code != 0
    assert "Open MPI started 3 ranks (OMPI_COMM_WORLD_SIZE=3), but MPICH" in errors and "sees 1 here" in errors


def test_a_backend_is_one_of_torch(environ):
    environ({})
    with pytest.raises(ArgumentError, match=r"backend='nccl' is one of torch's. Say init\('torch', backend='nccl'\)"):
        distributed.init("mpi", backend="nccl")
    with pytest.raises(ArgumentError, match="transport is 'mpi', 'torch' or an object"):
        distributed.init("tcp")


def test_rank_0_of_a_slurm_step_is_on_its_first_machine():
    assert address_of(job_of(SRUN), SRUN) == ("gpu07", 20_000 + 70 * 31 + 2)
    assert address_of(job_of(SRUN), SRUN | {"MASTER_ADDR": "other", "MASTER_PORT": "5"}) == ("other", 5)
    assert address_of(job_of(PYTORCHJOB), PYTORCHJOB) == ("job-master-0", 23456)
    with pytest.raises(TrainingError, match=r"MASTER_ADDR is not set\. Set MASTER_ADDR and MASTER_PORT on all ranks"):
        address_of(job_of(MPICH), MPICH)


@pytest.mark.parametrize(
    ("hosts", "first"),
    [("a1", "a1"), ("a1,a2", "a1"), ("gpu[07-09,12],x", "gpu07"), ("rack[1,3-4]-n[2-3]", "rack1-n2"), ("", "")],
)
def test_the_first_machine_of_a_list(hosts, first):
    assert first_host(hosts) == first


def test_ranks_of_torch_on_gpus_exchange_by_nccl(environ, tmp_path):
    (tmp_path / "settings.json").write_text('{"model": "m.onnx", "device": "cuda"}')

    def backend(device=None, resume=None):
        return _backend(argparse.Namespace(device=device, resume=resume))

    environ(TORCHRUN)
    assert [backend("cuda"), backend("cuda:1"), backend(None, str(tmp_path))] == ["nccl"] * 3
    assert [backend("cpu"), backend(), backend("cpu", str(tmp_path)), backend(None, "nowhere")] == [None] * 4
    environ(TORCHRUN | {"WORLD_SIZE": "1", "RANK": "0"})
    assert backend("cuda") is None


def test_the_local_rank_is_the_launchers(environ):
    environ(MPICH)
    assert distributed.ParallelEnv().local_rank == distributed.ParallelEnv().device_id == 1
    # Of two GPUs that the ranks of a machine see, of one that a rank sees alone, and where nothing is said.
    assert [device_number(job_of(MPICH), {"CUDA_VISIBLE_DEVICES": seen}) for seen in ("4,7", "7", "")] == [1, 0, 1]

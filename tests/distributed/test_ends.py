"""Ranks on several machines of which one is cut off, and ranks that a scheduler tells to end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from onnxgrad.distributed import run_local
from onnxgrad.distributed.environment import using
from onnxgrad.distributed.monitor import LOST
from onnxgrad.internal.tensor_file import read_metadata
from onnxgrad.training import Trainer
from onnxgrad.training.run.position import position_of
from tests.distributed.machines import EVERY, LOST_AFTER, TRAINING, Machines, why_not
from tests.distributed.ranks import ROOT, needs_mpi
from tests.training.small import data, model


@pytest.mark.ranks
@pytest.mark.exhaustive
@needs_mpi
def test_ranks_of_a_machine_that_is_cut_off_end_by_themselves(tmp_path):
    """Inside a call of MPI, which spins for ever. The names of the machines resolve nowhere"""
    if reason := why_not():
        pytest.skip(reason)
    machines = Machines(tmp_path)
    mpiexec = machines.start()
    try:
        machines.wait_for_step(2 * EVERY)
        machines.cut(2)
        seconds = machines.wait_for_end(within=4 * LOST_AFTER)
        assert machines.living() == [] and LOST_AFTER / 2 < seconds < 3 * LOST_AFTER
        codes, said = machines.codes(), machines.said()
        assert LOST in {codes.get(2), codes.get(3)}, (codes, said)  # mpiexec may kill the other one
        name = "machine unresolved-2 (ranks 2 to 3 of 4)"
        assert f"onnxgrad: {name} has not been heard of for 3 seconds. All ranks end." in said
        assert f"onnxgrad: {name} has heard nothing of the machine of rank 0 for 3 seconds. Its ranks end." in said
    finally:
        machines.stop(mpiexec)
        machines.close()


def test_what_one_rank_is_told_ends_all_after_the_same_step(tmp_path):
    """Ranks that are threads, the second of which gets the signal"""

    def one(transport):
        with using(transport):
            t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen", distributed=True)
            step = t.step

            def told(batch):
                if transport.rank == 1 and t.step_number == 3:
                    t.interrupt._stop(signal.SIGTERM, None)
                return step(batch)

            t.step = told
            with pytest.raises(SystemExit) as end:
                t.fit(data(), 5, batch_size=9, out=tmp_path, verbose=False)
            return end.value.code, t.step_number

    assert run_local(2, one) == [(128 + signal.SIGTERM, 4)] * 2
    last = tmp_path / "last.safetensors"
    assert position_of(read_metadata(last), last).step == 4


@pytest.mark.ranks
@pytest.mark.exhaustive
@needs_mpi
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM that a process may handle")
def test_ranks_that_a_scheduler_ends_write_a_checkpoint_and_go_on_from_it(tmp_path):
    """It tells ``launch``, which tells mpiexec, which tells them"""
    script = tmp_path / "training.py"
    script.write_text(TRAINING)

    def start(folder, epochs, pause):
        folder.mkdir(exist_ok=True)
        launch = [sys.executable, "-m", "onnxgrad.distributed.launch", "-n", "2"]
        command = [*launch, str(script), str(folder), str(epochs), str(pause)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
        return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)

    def ended(job):
        _, errors = job.communicate(timeout=60)
        return job.returncode, errors

    first, whole = tmp_path / "first", tmp_path / "whole"
    job = start(first, 10**6, 0.02)
    limit = time.monotonic() + 60
    while not (first / "step").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    time.sleep(0.2)
    job.send_signal(signal.SIGTERM)
    code, errors = ended(job)
    assert code == 128 + signal.SIGTERM and "onnxgrad" not in errors and "Traceback" not in errors, errors
    last = first / "run" / "last.safetensors"
    position = position_of(read_metadata(last), last)
    assert position.step == int((first / "step").read_text())
    for folder in (first, whole):
        assert ended(start(folder, position.epoch + 1, 0.0)) == (0, "")
    assert len({(folder / f"weights.{rank}").read_text() for folder in (first, whole) for rank in range(2)}) == 1

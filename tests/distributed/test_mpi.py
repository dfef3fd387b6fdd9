"""Real ranks, started by mpiexec: equal to the bit, fed by any engine, and ended together."""

import json
import subprocess

import numpy as np
import pytest

from onnxgrad.distributed.launch import command_of
from tests.distributed.ranks import MPIEXEC, ROOT, answers, check_transport, needs_mpi, run, transport
from tests.training.small import data, model

pytestmark = [needs_mpi, pytest.mark.ranks]


def test_mpi_does_what_the_transport_of_threads_does():
    for found in answers(3, transport()):
        check_transport(found)


_STEPS = """
import hashlib, json, sys, numpy as np
from onnxgrad import distributed
from onnxgrad.training import Trainer
from tests.training.small import data, model, weights
distributed.init()
t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen", distributed=True)
history = t.fit(data(), 10, batch_size=9)
digest = hashlib.sha256(b"".join(np.asarray(v).tobytes() for _, v in sorted(weights(t).items()))).hexdigest()
from tests.distributed.ranks import answer
answer({"rank": distributed.rank(), "steps": t.step_number, "loss": history[-1]["loss"], "weights": digest})
"""


@pytest.fixture(scope="module")
def four_ranks():
    """What four ranks answer after 50 steps"""
    return answers(4, _STEPS)


def test_ranks_are_equal_to_the_bit_after_50_steps(four_ranks):
    assert [line["rank"] for line in four_ranks] == [0, 1, 2, 3]
    assert {line["steps"] for line in four_ranks} == {50}
    assert len({line["weights"] for line in four_ranks}) == 1
    assert answers(1, _STEPS)[0]["loss"] == pytest.approx(four_ranks[0]["loss"], rel=1e-4)


@pytest.mark.exhaustive
def test_a_second_run_is_the_first_to_the_bit(four_ranks):
    assert len({line["weights"] for line in [*four_ranks, *answers(4, _STEPS)]}) == 1


@pytest.mark.exhaustive
def test_gradients_that_travel_while_others_are_computed_change_nothing():
    """With two ranks there is one order of a sum"""
    overlapped = answers(2, _STEPS.replace("distributed=True", "distributed=distributed.Strategy(overlap=3)"))
    assert {line["weights"] for line in overlapped} == {line["weights"] for line in answers(2, _STEPS)}


# The command -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    (tmp_path / "m.onnx").write_bytes(model().SerializeToString())
    np.savez(tmp_path / "d.npz", **data())
    return tmp_path


def arguments(files, out, *more):
    given = ["--data", files / "d.npz", "--val", files / "d.npz", "--loss", "cross_entropy", "--metric", "accuracy"]
    return [
        "train",
        files / "m.onnx",
        *given,
        "--batch-size",
        9,
        "--epochs",
        3,
        "--batch-norm",
        "frozen",
        "--out",
        files / out,
        *more,
    ]


def history(path):
    return [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]


@pytest.mark.exhaustive
def test_the_command_trains_on_ranks_as_alone_and_one_rank_writes(files):
    code, out, errors = run(3, "-m", "onnxgrad", *arguments(files, "many"))
    assert code == 0, errors
    assert [line[:9] for line in out.splitlines() if line.startswith("epoch")] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert run(1, "-m", "onnxgrad", *arguments(files, "one"))[0] == 0
    for found, expected in zip(history(files / "many"), history(files / "one"), strict=True):
        assert found == pytest.approx(expected, rel=1e-3)
    assert {path.name for path in (files / "many").iterdir()} == {path.name for path in (files / "one").iterdir()}
    code, _, errors = run(2, "-m", "onnxgrad", "train", "--resume", files / "many", "--more-epochs", 1)
    assert code == 0, errors
    assert [row["epoch"] for row in history(files / "many")] == [0, 1, 2, 3, 4]


@pytest.mark.exhaustive
def test_the_command_takes_statistics_of_the_whole_batch_and_shares_of_the_state(files):
    """The bias before the statistics has the gradient 0 but for rounding, of which Adam makes steps of any sign"""
    chosen = ("--batch-norm", "train", "--freeze", "body.bias", "--rank-batch-norm", "sync", "--sharding", 2)
    code, _, errors = run(2, "-m", "onnxgrad", *arguments(files, "many", *chosen))
    assert code == 0, errors
    code, _, errors = run(3, "-m", "onnxgrad", "train", "--resume", files / "many", "--more-epochs", 1)
    assert code == 0, errors
    assert run(1, "-m", "onnxgrad", *arguments(files, "one", *chosen, "--epochs", 4))[0] == 0
    for found, expected in zip(history(files / "many"), history(files / "one"), strict=True):
        assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.exhaustive
def test_the_command_trains_a_pipeline_and_goes_on_with_other_stages(files):
    code, _, errors = run(4, "-m", "onnxgrad", *arguments(files, "many", "--pipeline", 2))
    assert code == 0, errors
    chosen = ("--pipeline", 3, "--cuts", "hidden", "active")
    code, _, errors = run(3, "-m", "onnxgrad", "train", "--resume", files / "many", "--more-epochs", 1, *chosen)
    assert code == 0, errors
    code, _, errors = run(1, "-m", "onnxgrad", "train", "--resume", files / "many", "--more-epochs", 1)
    assert code == 0, errors
    assert run(1, "-m", "onnxgrad", *arguments(files, "one", "--epochs", 5))[0] == 0
    for found, expected in zip(history(files / "many"), history(files / "one"), strict=True):
        assert found == pytest.approx(expected, rel=1e-3)
    code, _, errors = run(3, "-m", "onnxgrad", *arguments(files, "none", "--pipeline", 2))
    assert code != 0 and "3 ranks do not divide into rows of 2 stages. Start a multiple of 2." in errors


def test_the_command_says_once_why_it_does_not_train(files):
    code, _, errors = run(3, "-m", "onnxgrad", *arguments(files, "run", "--freeze", "nothing"))
    assert code != 0
    said = [line for line in errors.splitlines() if "nothing" in line]
    assert len(said) == 1 and said[0].startswith("onnxgrad: rank ")


def test_launch_starts_ranks():
    command = command_of(["-n", "2", "-m", "tests.distributed.hello"])
    assert command[0] == MPIEXEC
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert sorted(done.stdout.split()) == ["0/2", "1/2"]
    assert command[-4:] == ["-m", "mpi4py", "-m", "tests.distributed.hello"]


# How ranks end ---------------------------------------------------------------------------------------------------------

_END = """
import os, signal, sys, time
import numpy as np
from onnxgrad import distributed
how, who, phase = sys.argv[1:]
distributed.init(timeout=2 if how == "hang" else 60, lost_after=3 if how == "stop" else 60)

def at(here):
    if here != phase or distributed.rank() != int(who):
        return
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "exit":
        sys.exit(0)
    if how == "raise":
        raise KeyError("lost")
    time.sleep(600)

at("start")
for step in range(5):
    distributed.all_reduce(np.zeros(1000))
    if step == 2:
        at("step")
at("end")
"""

_SAYS = {
    "kill": "rank {} of 3 has died",
    "stop": "rank {} of 3 has not been heard of",
    "exit": "rank {} of 3 has ended after",
    "raise": "rank {} of 3 has raised KeyError: 'lost'",
    "hang": "rank {} of 3 hangs: rank ",
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("phase", ["start", "step", "end"])
@pytest.mark.parametrize("how", list(_SAYS))
def test_a_rank_that_ends_or_hangs_ends_all_by_name(how, phase):
    who = {"start": 0, "step": 2, "end": 1}[phase]
    code, _, errors = run(3, "-c", _END, how, who, phase, timeout=60)
    said = [line for line in errors.splitlines() if line.startswith("onnxgrad: ")]
    if how == "exit" and phase == "end":
        assert code == 0 and not said
        return
    assert code != 0
    assert len(said) == 1 and said[0].startswith("onnxgrad: " + _SAYS[how].format(who)), errors


_MODELS = """
from onnxgrad import distributed
from onnxgrad.training import Trainer
from tests.training.small import data, model
t = distributed.init()
options = {"freeze": "head.bias"} if t.rank == 1 else {}
Trainer(model(), loss="cross_entropy", batch_norm="frozen", distributed=True, **options).fit(data(), 1)
"""


def test_ranks_with_other_parameters_are_refused_by_name():
    code, _, errors = run(3, "-c", _MODELS)
    assert code != 0
    assert "TrainingError: rank 1 of 3 cannot train with rank 0" in errors


_GROWTH = """
import json, resource
import numpy as np
import onnxgrad as paddle
from onnxgrad import distributed, static
from tests.distributed.ranks import answer
distributed.init()
program, startup = static.Program(), static.Program()
with static.program_guard(program, startup):
    loss = paddle.mean(static.nn.fc(static.data("x", [None, 500]), 500))
    distributed.fleet.distributed_optimizer(paddle.optimizer.Adam(1e-3)).minimize(loss)
executor, peaks = paddle.Executor(threads=1), []
executor.run(startup)
for step in range(60):
    executor.run(program, {"x": np.ones((2, 500), np.float32)}, [loss])
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
answer({"rank": distributed.rank(), "grown": peaks[-1] - peaks[9]})
"""


def test_memory_does_not_grow():
    """A gradient of 1 MB left behind in each step would be 50,000 kilobytes"""
    assert max(line["grown"] for line in answers(2, _GROWTH)) < 10000

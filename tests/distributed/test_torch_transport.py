"""The transport of torch.distributed, between real processes; wherever torch is installed."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from onnxgrad.distributed.torch_transport import TorchTransport
from onnxgrad.errors import ProviderError, TrainingError
from tests.distributed.ranks import FOLDER, ROOT, check_transport, launched, transport

pytest.importorskip("torch", reason="the engine is torch's")
pytestmark = pytest.mark.ranks

_STEPS = """
import hashlib, numpy as np
from onnxgrad import distributed
from onnxgrad.training import Trainer
from tests.distributed.ranks import answer
from tests.training.small import data, model, weights
distributed.init(timeout=60)
t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen", distributed=True)
history = t.fit(data(), 2, batch_size=9)
digest = hashlib.sha256(b"".join(np.asarray(v).tobytes() for _, v in sorted(weights(t).items()))).hexdigest()
answer({"rank": distributed.rank(), "loss": history[-1]["loss"], "weights": digest})
"""


def test_torch_does_what_the_transport_of_threads_does(tmp_path):
    for found in launched(3, transport("torch"), tmp_path):
        check_transport(found)


def test_a_backend_for_devices_alone_is_given_copies_there(tmp_path):
    """As a group of NCCL alone is; here the device is the CPU"""
    joined = "t = distributed.init(TorchTransport('gloo', device='cpu'), watched=False)\nt._exchanges_on_host = False"
    script = "from onnxgrad.distributed.torch_transport import TorchTransport\n" + transport("torch")
    for found in launched(3, script.replace("t = distributed.init('torch', watched=False)", joined), tmp_path):
        check_transport(found)


def test_a_backend_that_a_package_registers_is_taken(tmp_path):
    """As oneCCL does: here torch's own gloo under another name, for main memory alone"""
    registers = """
import torch.distributed as engine
engine.Backend.register_backend(
    "relay", lambda store, rank, size, timeout: engine.ProcessGroupGloo(store, rank, size, timeout), devices=["cpu"]
)
"""
    script = registers + transport("torch").replace("watched=False", "watched=False, backend='relay'")
    for found in launched(3, script + "assert engine.get_backend() == 'relay'", tmp_path):
        check_transport(found)


_OF_THE_CALLER = """
import numpy as np, torch.distributed as engine
from onnxgrad import distributed
from onnxgrad.distributed.groups import group_of
from onnxgrad.distributed.torch_transport import TorchTransport
from tests.distributed.ranks import answer
engine.init_process_group("gloo")
number = engine.get_rank()
members = engine.new_group([1, 2, 3, 4])
found = {"rank": number}
if number:
    t = distributed.init(TorchTransport(group=members), watched=True, timeout=60)
    found["in group"] = [t.rank, t.world_size]
    own = np.array([number], np.int64)
    t.all_reduce_(own)
    pair = group_of(t, [[0, 3], [1, 2]])
    two = np.array([number], np.int64)
    pair.all_reduce_(two)
    pair.send(np.array([10 * number]), 1 - pair.rank)
    other = np.zeros(1, np.int64)
    pair.receive_(other, 1 - pair.rank)
    found["sums"] = [int(own[0]), int(two[0]), int(other[0])]
answer(found)
"""


def test_ranks_exchange_in_a_group_of_the_caller_and_in_groups_of_that(tmp_path):
    outside, *members = launched(5, _OF_THE_CALLER, tmp_path)
    assert outside == {"rank": 0}
    assert [one["in group"] for one in members] == [[0, 4], [1, 4], [2, 4], [3, 4]]
    assert [one["sums"] for one in members] == [[10, 5, 40], [10, 5, 30], [10, 5, 20], [10, 5, 10]]


_JOINED = """
import numpy as np
from onnxgrad import distributed
from onnxgrad.distributed.job import job_of
from tests.distributed.ranks import answer
t = distributed.init(KIND, timeout=60)
own = np.array([t.rank + 1.0])
t.all_reduce_(own)
answer({"rank": t.rank, "size": t.world_size, "sum": own[0], "launcher": job_of().launcher})
"""


def test_torchrun_starts_ranks(tmp_path):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    (tmp_path / "script.py").write_text(_JOINED.replace("KIND", "None"))
    (tmp_path / "answers").mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(tmp_path / "script.py")]
    environment = {**os.environ, FOLDER: str(tmp_path / "answers"), "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads((tmp_path / "answers" / str(rank)).read_text()) for rank in range(2)]
    assert [(one["size"], one["sum"], one["launcher"]) for one in found] == [(2, 3.0, "torchrun")] * 2


def test_ranks_of_srun_without_pmi_meet_on_the_first_machine(tmp_path):
    step = {"SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0"}
    found = launched(2, _JOINED.replace("KIND", "None"), tmp_path, ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), **step)
    assert [(one["size"], one["sum"], one["launcher"]) for one in found] == [(2, 3.0, "srun")] * 2


_FORMERLY = """
import warnings
from onnxgrad import distributed
from tests.distributed.ranks import answer
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    t = distributed.init("gloo", timeout=60)
said = [str(one.message) for one in caught if one.category is DeprecationWarning]
answer({"rank": t.rank, "size": t.world_size, "said": said})
"""


def test_the_former_name_of_gloo_is_taken(tmp_path):
    said = "init('gloo') is deprecated. Say init('torch', backend='gloo')."
    assert launched(2, _FORMERLY, tmp_path) == [{"rank": rank, "size": 2, "said": [said]} for rank in range(2)]


def test_what_torch_lacks_is_refused_before_ranks_wait():
    with pytest.raises(ProviderError, match=r"this torch has no backend 'mpi': it has .*gloo.* Use one of these"):
        TorchTransport("mpi")
    with pytest.raises(ProviderError, match="nccl exchanges on GPUs, and torch sees none"):
        TorchTransport("nccl")
    with pytest.raises(TrainingError, match="the variables of the environment do not say which rank this process is"):
        TorchTransport("gloo")


def test_a_trainer_takes_the_steps_of_one_process(tmp_path):
    from onnxgrad.training import Trainer
    from tests.training.small import data, model

    first, second = launched(2, _STEPS, tmp_path)
    assert first["weights"] == second["weights"]
    alone = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen")
    np.testing.assert_allclose(first["loss"], alone.fit(data(), 2, batch_size=9)[-1]["loss"], rtol=1e-4)


def test_a_trainer_runs_rows_of_stages(tmp_path):
    from onnxgrad.training import Trainer
    from tests.training.small import data, model

    grid = _STEPS.replace("distributed=True", "distributed=distributed.Strategy(pipeline=2, micro_batches=3)")
    found = launched(
        4, grid.replace("weights(t).items()", "{p.name: p.get_value() for p in t.program.parameters}.items()"), tmp_path
    )
    assert len({one["weights"] for one in found}) == 1 and len({one["loss"] for one in found}) == 1
    alone = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen")
    np.testing.assert_allclose(found[0]["loss"], alone.fit(data(), 2, batch_size=9)[-1]["loss"], rtol=1e-4)


_OVERLAPPED = """
import hashlib, numpy as np
from onnxgrad import distributed
from onnxgrad.distributed import Strategy
from onnxgrad.distributed.exchange import GradientExchange
from onnxgrad.training import Trainer
from tests.distributed.ranks import answer
from tests.training.small import data, model, weights

distributed.init("torch", backend="gloo", timeout=60)
send, calls = GradientExchange.send, []
GradientExchange.send = lambda self, number, fetched: (calls.append(number), send(self, number, fetched))[1]

def digest(overlap):
    strategy = Strategy(overlap=overlap, bucket_megabytes=1e-6)
    t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen", distributed=strategy)
    t.fit(data(), 2, batch_size=9)
    return hashlib.sha256(b"".join(np.asarray(v).tobytes() for _, v in sorted(weights(t).items()))).hexdigest()

answer({"rank": distributed.rank(), "plain": digest(1), "overlapped": digest(3), "groups": sorted(set(calls))})
"""


def test_gradients_travel_while_others_are_computed(tmp_path):
    """Another thread than the one that computes calls torch"""
    found = launched(2, _OVERLAPPED, tmp_path)
    assert len({one[kind] for one in found for kind in ("plain", "overlapped")}) == 1
    assert all(one["groups"] == [0, 1] for one in found)

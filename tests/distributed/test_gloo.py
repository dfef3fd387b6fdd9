"""The transport of torch's gloo, between real processes; wherever torch is installed."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.distributed.ranks import FOLDER, ROOT, check_transport, transport

pytest.importorskip("torch", reason="gloo is a part of torch")

_STEPS = """
import hashlib, numpy as np
from onnxgrad import distributed
from onnxgrad.training import Trainer
from tests.distributed.ranks import answer
from tests.training.small import data, model, weights
distributed.init("gloo", timeout=60)
t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen", distributed=True)
history = t.fit(data(), 2, batch_size=9)
digest = hashlib.sha256(b"".join(np.asarray(v).tobytes() for _, v in sorted(weights(t).items()))).hexdigest()
answer({"rank": distributed.rank(), "loss": history[-1]["loss"], "weights": digest})
"""


def answers(count, script, folder):
    """What each rank answers, in the order of ranks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), FOLDER: str(folder)}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ranks = [
        subprocess.Popen([sys.executable, "-c", script], env={**os.environ, **shared, "RANK": str(rank), "PYTHONPATH": path})
        for rank in range(count)
    ]
    try:
        assert [one.wait(timeout=120) for one in ranks] == [0] * count
    finally:
        for one in ranks:
            one.kill()
            one.wait()
    return [json.loads((folder / str(rank)).read_text()) for rank in range(count)]


def test_gloo_does_what_the_transport_of_threads_does(tmp_path):
    for found in answers(3, transport("gloo"), tmp_path):
        check_transport(found)


def test_a_trainer_takes_the_steps_of_one_process(tmp_path):
    from onnxgrad.training import Trainer
    from tests.training.small import data, model

    first, second = answers(2, _STEPS, tmp_path)
    assert first["weights"] == second["weights"]
    alone = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen")
    np.testing.assert_allclose(first["loss"], alone.fit(data(), 2, batch_size=9)[-1]["loss"], rtol=1e-4)


def test_a_trainer_runs_rows_of_stages(tmp_path):
    from onnxgrad.training import Trainer
    from tests.training.small import data, model

    grid = _STEPS.replace("distributed=True", "distributed=distributed.Strategy(pipeline=2, micro_batches=3)")
    found = answers(
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

pytestmark = pytest.mark.ranks
distributed.init("gloo", timeout=60)
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
    found = answers(2, _OVERLAPPED, tmp_path)
    assert len({one[kind] for one in found for kind in ("plain", "overlapped")}) == 1
    assert all(one["groups"] == [0, 1] for one in found)

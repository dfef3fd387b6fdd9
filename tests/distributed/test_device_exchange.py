"""Gradients that ranks exchange in the memory of a device: here of the CPU, by real torch where it is installed.

Over a CUDA runtime without a device: tests/cuda_stub/shares.py. The scripts/check_cuda part ``nccl`` runs on a GPU.
"""

import numpy as np
import pytest

from onnxgrad import static
from onnxgrad.core.runtime.places import CUDAPlace
from onnxgrad.distributed import Strategy
from onnxgrad.distributed.device_exchange import DeviceExchange, device_of_transport
from onnxgrad.distributed.exchange import distribute
from onnxgrad.distributed.transport import Alone
from onnxgrad.errors import ArgumentError
from tests.distributed.ranks import launched


class OnCUDA(Alone):
    """Says that it exchanges on a GPU, which is not there"""

    device, stream = ("cuda", 1), 4096


def net():
    import onnxgrad as paddle

    program = static.Program()
    with static.program_guard(program, static.Program()):
        loss = paddle.mean(paddle.square(static.nn.fc(static.data("x", [None, 3]), 2)))
        paddle.optimizer.SGD(0.1).minimize(loss)
    return program, loss


def test_a_step_runs_on_the_device_and_the_stream_of_the_exchange():
    program, loss = net()
    exchange = distribute(program, loss, OnCUDA())
    assert isinstance(exchange, DeviceExchange)
    place = exchange.place(CUDAPlace(1))
    assert place == CUDAPlace(1).on_stream(4096) and dict(place.options)["user_compute_stream"] == "4096"
    with pytest.raises(ArgumentError, match=r"in the memory of cuda:1, and the step runs on Place\(cpu\). Train on CUDAPlace\(1\)"):
        static.Executor(static.CPUPlace()).run(program, {"x": np.ones((2, 3), np.float32)}, [loss])
    with pytest.raises(ArgumentError, match=r"overlap=3: gradients that are exchanged on a device follow the step on its stream"):
        distribute(*net(), OnCUDA(), Strategy(overlap=3))


def test_what_travels_otherwise_goes_by_way_of_main_memory():
    for strategy in (Strategy(sharding=1), Strategy(compress="bfloat16")):
        assert not isinstance(distribute(*net(), OnCUDA(), strategy), DeviceExchange)
    assert device_of_transport(Alone()) is None


_STEPS = """
import hashlib, numpy as np, onnxruntime
from onnxgrad import distributed
from onnxgrad.distributed.device_exchange import DeviceExchange
from onnxgrad.distributed.torch_transport import TorchTransport
from onnxgrad.training import Trainer
from tests.distributed.ranks import answer
from tests.training.small import data, model, weights

distributed.init(TorchTransport("gloo", DEVICE), timeout=60)
seen = []
reduce = DeviceExchange._reduce_bucket
DeviceExchange._reduce_bucket = lambda self, number, factor: (seen.append(factor), reduce(self, number, factor))[1]
strategy = distributed.Strategy(bucket_megabytes=0.001)
t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen", distributed=strategy)
history = t.fit(data(), 2, batch_size=9)
digest = hashlib.sha256(b"".join(np.asarray(v).tobytes() for _, v in sorted(weights(t).items()))).hexdigest()
answer({"rank": distributed.rank(), "loss": history[-1]["loss"], "weights": digest, "seen": len(seen)})
"""


@pytest.mark.ranks
def test_a_step_by_the_memory_of_a_device_is_that_by_main_memory(tmp_path):
    """To the bit, by torch tensors on whose memory onnxruntime computes gradients and reads their sums"""
    pytest.importorskip("torch", reason="the engine is torch's")
    found = {}
    for device in ("device=None", "device='cpu'"):
        (tmp_path / device).mkdir()
        found[device] = launched(2, _STEPS.replace("DEVICE", device), tmp_path / device)
    here, there = found.values()
    assert len({one["weights"] for one in [*here, *there]}) == 1
    assert [one["loss"] for one in here] == [one["loss"] for one in there]
    assert not any(one["seen"] for one in here) and all(one["seen"] > 10 for one in there)

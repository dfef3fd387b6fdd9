"""Gradients that ranks exchange in the memory of a device: here of the CPU, by real torch where it is installed.

Over a CUDA runtime without a device: tests/cuda_stub/shares.py. The scripts/check_cuda part ``nccl`` runs on a GPU.
"""

import numpy as np
import pytest

from onnxgrad import static
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace
from onnxgrad.core.step import cut
from onnxgrad.distributed import Strategy, buckets
from onnxgrad.distributed.device_memory import DeviceMemory, device_of_transport
from onnxgrad.distributed.exchange import distribute
from onnxgrad.distributed.transport import Alone
from onnxgrad.errors import ArgumentError
from tests.distributed.ranks import launched
from tests.distributed.test_trainer import assert_close, on_ranks, trainer
from tests.training.small import assert_equal, data, weights


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
    assert isinstance(exchange.memory, DeviceMemory)
    place = exchange.place(CUDAPlace(1))
    assert place == CUDAPlace(1).on_stream(4096) and dict(place.options)["user_compute_stream"] == "4096"
    with pytest.raises(ArgumentError, match=r"in the memory of cuda:1, and the step runs on Place\(cpu\). Train on CUDAPlace\(1\)"):
        static.Executor(static.CPUPlace()).run(program, {"x": np.ones((2, 3), np.float32)}, [loss])
    with pytest.raises(ArgumentError, match=r"overlap=3: gradients that are exchanged on a device follow the step on its stream"):
        distribute(*net(), OnCUDA(), Strategy(overlap=3))


def test_the_largest_elements_are_found_in_main_memory():
    for strategy in (Strategy(sharding=1), Strategy(compress="bfloat16"), Strategy(compress="top-k")):
        there = isinstance(distribute(*net(), OnCUDA(), strategy).memory, DeviceMemory)
        assert there is (strategy.compress != "top-k")
    assert device_of_transport(Alone()) is None


class Elsewhere(CPUPlace):
    """Where state is not replaced in place, as on a GPU; its sessions run on the CPU"""

    lowering = None


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(
    "options", [{"optimizer": "adam"}, {"optimizer": "lamb", "clip_norm": 0.5}, {"optimizer": "adamw", "accumulate": 2}], ids=str
)
def test_ranges_that_are_not_replaced_in_place_are_those_that_are(tmp_path, monkeypatch, options, ranks):
    """Rows of new weights are gathered in an array that takes turns with another; norms, sums and checkpoints are as they were"""
    monkeypatch.setattr(cut, "SMALL", 4)
    monkeypatch.setattr(buckets, "ALIGNMENT", 4)
    batches = [{k: v[first : first + 6] for k, v in data().items()} for first in range(0, 30, 6)]

    def work(place, folder):
        def run(transport):
            t = trainer(distributed=Strategy(sharding=1), place=place, **options)
            held = set()
            for number, batch in enumerate(batches):
                t.step({k: np.array_split(v, ranks)[transport.rank] for k, v in batch.items()})
                flats = (t.ranks.step.sums or t.ranks.step.exchange)._flat_weights
                held |= {id(one.array) for one in (flats and flats._flats.get(t.program.active_scope())) or ()}
                if number == 2:
                    t.save(folder)
                    t.load(folder)
            t.ranks.step.gather(everywhere=True)
            return weights(t), len(held) // len(flats._buckets)

        return run

    there, here = on_ranks(ranks, work(Elsewhere(), tmp_path / "there")), on_ranks(ranks, work(CPUPlace(), tmp_path / "here"))
    for (state, turns), (wanted, _) in zip(there, here, strict=True):
        assert turns >= (2 if "accumulate" not in options else 1)
        assert_close(state, wanted, rtol=2e-5, atol=1e-6)
        sums = {name for name in state if "ACCUMULATED" in name}  # of which each rank has its own
        assert_equal(*({name: v for name, v in one.items() if name not in sums} for one in (state, there[0][0])))


_STEPS = """
import hashlib, numpy as np, onnxruntime
from onnxgrad import distributed
from onnxgrad.core.step import cut
from onnxgrad.distributed import buckets
from onnxgrad.distributed.device_memory import DeviceMemory
from onnxgrad.distributed.torch_transport import TorchTransport
from onnxgrad.training import Trainer
from tests.distributed.ranks import answer
from tests.training.small import data, model, weights

cut.SMALL = buckets.ALIGNMENT = 4
transport = TorchTransport("gloo", DEVICE)
distributed.init(transport, timeout=60)
seen = []
scale = DeviceMemory.scale
DeviceMemory.scale = lambda self, flat, factor: (seen.append(type(flat).__name__), scale(self, flat, factor))[1]
answers = {}
for accumulate, options in ((1, {}), (3, {}), (1, {"sharding": 1}), (2, {"sharding": 1}), (1, {"compress": "bfloat16"}),
                            (2, {"compress": "float16", "sharding": 1}), (1, {"batch_norm": "sync"})):
    seen.clear()
    strategy = distributed.Strategy(bucket_megabytes=0.001, **options)
    frozen = {} if "batch_norm" in options else {"batch_norm": "frozen"}
    t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, accumulate=accumulate, distributed=strategy, **frozen)
    history = t.fit(data(), 2, batch_size=9)
    t.save(f"FOLDER/{accumulate}{sorted(options)}")
    transport.barrier()
    again = Trainer(model(), loss="cross_entropy", learning_rate=0.02, accumulate=accumulate, distributed=strategy, **frozen)
    again.load(f"FOLDER/{accumulate}{sorted(options)}")
    again.fit(data(), 1, batch_size=9)
    digest = hashlib.sha256(b"".join(np.asarray(v).tobytes() for t in (t, again) for _, v in sorted(weights(t).items()))).hexdigest()
    answers[str((accumulate, options))] = [history[-1]["loss"], digest, sorted(set(seen))]
answer({"rank": distributed.rank(), "answers": answers})
"""


@pytest.mark.ranks
def test_steps_by_the_memory_of_a_device_are_those_by_main_memory(tmp_path):
    """To the bit, also resumed, by torch tensors on whose memory onnxruntime computes gradients and reads their sums"""
    pytest.importorskip("torch", reason="the engine is torch's")
    found = {}
    for device in ("device=None", "device='cpu'"):
        folder = tmp_path / device
        folder.mkdir()
        found[device] = launched(2, _STEPS.replace("DEVICE", device).replace("FOLDER", repr(str(folder))[1:-1]), folder)
    here, there = ([rank["answers"] for rank in ranks] for ranks in found.values())
    for way in here[0]:
        assert len({answers[way][0] for answers in (*here, *there)}) == 1, way
        assert [answers[way][:2] for answers in here] == [answers[way][:2] for answers in there], way
        assert not any(answers[way][2] for answers in here) and all(answers[way][2] == ["Tensor"] for answers in there), way
